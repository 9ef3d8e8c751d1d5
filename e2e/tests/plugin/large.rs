//! A tree of 2,000 namespaces is drawn in a handful of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::StreamExt;
use futures::stream;
use hns_api::{HierarchyConfiguration, HierarchyConfigurationSpec};
use hns_e2e::Proxy;
use hns_e2e::steps::HIERARCHY;
use kube::api::PostParams;
use serde_json::json;

use super::fixture::{plugin, still};

const NAMESPACES: usize = 2000;
const AT_ONCE: usize = 16;

#[tokio::test]
async fn two_thousand_namespaces_take_a_handful_of_requests() {
    let still = still().await;
    let steps = still.steps();
    let create = async |number: usize| {
        let name = format!("large-{number:04}");
        steps.create_namespace(&name).await.unwrap();
        // Twenty children each, as far as they go.
        let children = (number * 20 + 1..=number * 20 + 20).filter(|it| *it < NAMESPACES);
        let parent = (number > 0).then(|| format!("large-{:04}", (number - 1) / 20));
        let mut object = HierarchyConfiguration::new(
            HIERARCHY,
            HierarchyConfigurationSpec { parent, ..Default::default() },
        );
        object.status = Some(hns_api::HierarchyConfigurationStatus {
            children: children.map(|it| format!("large-{it:04}")).collect(),
            ..Default::default()
        });
        steps.hierarchies(&name).create(&PostParams::default(), &object).await.unwrap();
    };
    stream::iter(0..NAMESPACES).map(create).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;

    let proxy = Proxy::start(still.cluster).unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    proxy.set_rule(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        None
    });
    let account =
        "create clusterrolebinding large --clusterrole=cluster-admin --serviceaccount=default:default";
    still.cluster.kubectl().args(account.split(' ')).ok().await.unwrap();
    let token =
        still.cluster.kubectl().args(["create", "token", "default", "-n", "default"]).ok().await.unwrap();
    let content = json!({
        "clusters": [{ "name": "c", "cluster": { "server": proxy.url() } }],
        "users": [{ "name": "u", "user": { "token": token.trim() } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content.to_string()).unwrap();

    let began = Instant::now();
    let tree = plugin(&format!("tree large-0000 --kubeconfig {}", file.path().display()), &[]).await.unwrap();
    let took = began.elapsed();
    assert_eq!((tree.code, &*tree.stderr), (Some(0), ""));
    assert_eq!(tree.stdout.lines().count(), NAMESPACES);
    let requests = requests.load(Ordering::SeqCst);
    assert!(requests <= 8, "{requests} requests");
    println!("a tree of {NAMESPACES} namespaces: {requests} requests, {took:.1?}");
}
