//! Reviews that the API server has not sent: they are answered but change nothing, and delay users' requests no longer than a
//! failed change does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use hns_api::names::paths;
use hns_api::{HierarchyConfiguration, annotations};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::HIERARCHY;
use hns_e2e::{Cluster, Options, Product, Steps};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::client::{Client, Sent, Session};
use super::fixture::unharmed;

const REVIEWS: usize = 10_000;
const AT_A_TIME: usize = 64;
/// A change whose end is not observed is dropped after this time.
const LONGEST: Duration = Duration::from_secs(60);
/// For the request that finds it dropped.
const SLACK: Duration = Duration::from_secs(10);

/// The namespaces of the users.
const NAMES: [&str; 4] = ["fair-a", "fair-b", "fair-c", "fair-d"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_forged_reviews_change_nothing_and_delay_users_briefly() -> Result<()> {
    let cluster = Cluster::start().await?;
    let product = Product::install(&cluster, Options::default()).await?;
    let webhook = product.start_webhook().await?;
    let admin = Steps::of(cluster.admin());
    for name in NAMES {
        admin.create_namespace(name).await?;
        admin.make_admin(name, "alice").await?;
        admin.set_parent(name, "").await?;
    }
    let before = stored(&cluster).await?;
    let alice = Steps::of(cluster.client_as("alice", &[]));
    let versions = versions(&cluster).await?;

    let is_over = AtomicBool::new(false);
    let flood = async {
        let answers = flood(&product, &versions).await;
        is_over.store(true, Ordering::Relaxed);
        answers.map(|answers| (answers, Instant::now()))
    };
    let began = Instant::now();
    let ((answers, ended), honest) = tokio::try_join!(flood, honest(&alice, &is_over))?;
    println!("{REVIEWS} forged reviews in {:.1?}: {answers:?}", ended - began);
    println!("meanwhile, honest changes were answered {honest:?}");
    let without_rights: Vec<_> = answers.keys().filter(|(who, _)| *who == WITHOUT_RIGHTS).collect();
    ensure!(
        !without_rights.is_empty() && without_rights.iter().all(|(_, code)| *code != 200),
        "{without_rights:?}"
    );
    ensure!(answers.contains_key(&(ADMINISTRATOR, 200)), "none was of the kind that is remembered");

    // All changes that they have left are dropped in time. At least two of these four are changes.
    let mut held = 0;
    for parent in ["fair-b", "", "fair-b", ""] {
        while change(&alice, "fair-a", parent).await? != 200 {
            held += 1;
            ensure!(ended.elapsed() < LONGEST + SLACK, "held up {:?} after the end", ended.elapsed());
        }
    }
    println!("after the last one, honest changes were held up {held} times, for {:.1?}", ended.elapsed());
    // On a busy machine the first ones are dropped before the last one is sent.
    let held_meanwhile = honest.get(&503).copied().unwrap_or_default();
    ensure!(held + held_meanwhile > 0, "the forged ones were not in the way, so this has shown nothing");
    let after = stored(&cluster).await?;
    ensure!(before == after, "something has come of it:\n{before:?}\n{after:?}");
    unharmed(&webhook)
}

/// Allowed, or to be repeated; a user's request must have no other result.
async fn change(steps: &Steps, child: &str, parent: &str) -> Result<u16> {
    match steps.set_parent(child, parent).await {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) if status.code == 503 => Ok(503),
        other => bail!("an honest request is answered {other:?}"),
    }
}

/// Moves back and forth while the attack runs.
async fn honest(steps: &Steps, is_over: &AtomicBool) -> Result<BTreeMap<u16, usize>> {
    let mut answers = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        for parent in ["fair-b", ""] {
            *answers.entry(change(steps, "fair-a", parent).await?).or_default() += 1;
        }
    }
    Ok(answers)
}

/// The stored hierarchy: the parent that each object names.
async fn stored(cluster: &Cluster) -> Result<BTreeMap<String, Option<String>>> {
    let hierarchies: Api<HierarchyConfiguration> = Api::all(cluster.admin());
    let hierarchies = hierarchies.list(&ListParams::default()).await?.items.into_iter();
    let of_hierarchies = hierarchies.map(|it| {
        let parent = it.spec.parent.clone().filter(|parent| !parent.is_empty());
        (format!("hierarchy of {}", it.namespace().unwrap_or_default()), parent)
    });
    let namespaces: Api<Namespace> = Api::all(cluster.admin());
    let of_namespaces = namespaces.list(&ListParams::default()).await?.items.into_iter().map(|it| {
        (format!("namespace {}", it.name_any()), it.annotations().get(annotations::SUBNAMESPACE_OF).cloned())
    });
    Ok(of_hierarchies.chain(of_namespaces).collect())
}

/// The metadata of the users' hierarchies, which any user may read.
async fn versions(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    let mut versions = BTreeMap::new();
    for name in NAMES {
        let metadata = Steps::of(cluster.admin()).hierarchies(name).get(HIERARCHY).await?.metadata;
        versions.insert(name.to_owned(), serde_json::to_value(metadata)?);
    }
    Ok(versions)
}

/// The user of a forged review: one without rights, …
const WITHOUT_RIGHTS: &str = "nobody";
/// … a cluster administrator, …
const ADMINISTRATOR: &str = "a cluster administrator";
/// … or the controller, who is not judged.
const CONTROLLER: &str = "the controller";

/// How often each user got each answer.
type Answers = BTreeMap<(&'static str, u64), usize>;

async fn flood(product: &Product<'_>, versions: &BTreeMap<String, Value>) -> Result<Answers> {
    let session = Session::new(Client::new(product)?);
    futures::stream::iter(0..REVIEWS)
        .map(|number| send(session.clone(), number, versions))
        .buffer_unordered(AT_A_TIME)
        .try_fold(Answers::new(), async |mut answers, answer| {
            *answers.entry(answer).or_default() += 1;
            Ok(answers)
        })
        .await
}

async fn send(
    session: Session,
    number: usize,
    versions: &BTreeMap<String, Value>,
) -> Result<(&'static str, u64)> {
    let (child, parent) = (NAMES[number / 4 % NAMES.len()], NAMES[(number / 16 + 1) % NAMES.len()]);
    let (who, path, review) = match number % 4 {
        0 => (WITHOUT_RIGHTS, paths::HIERARCHY_CONFIGURATIONS, hierarchy(child, parent, versions)),
        1 => (ADMINISTRATOR, paths::HIERARCHY_CONFIGURATIONS, hierarchy(child, parent, versions)),
        2 => (ADMINISTRATOR, paths::NAMESPACES, creation_below(&format!("forged-{number}"), parent)),
        _ => (CONTROLLER, paths::HIERARCHY_CONFIGURATIONS, hierarchy(child, parent, versions)),
    };
    let mut review = review;
    let user = &mut review["request"]["userInfo"];
    *user = match who {
        WITHOUT_RIGHTS => json!({ "username": "mallory", "groups": ["system:authenticated"] }),
        ADMINISTRATOR => administrator(),
        _ => json!({ "username": CONTROLLER_USER, "groups": ["system:serviceaccounts"] }),
    };
    review["request"]["uid"] = json!(format!("forged-{number}"));
    let sent = Sent::json(&format!("{path}?timeout=5s"), review.to_string());
    let (status, body) = session.ask(sent).await?;
    ensure!(status.is_success(), "{status} {body}");
    let response = &serde_json::from_str::<Value>(&body)?["response"];
    let code = if response["allowed"] == true { Some(200) } else { response["status"]["code"].as_u64() };
    Ok((who, code.unwrap_or_default()))
}

/// A user with all rights.
pub(super) fn administrator() -> Value {
    json!({ "username": "root", "groups": ["system:masters", "system:authenticated"] })
}

/// A parent for an existing namespace, over a present or former state of its object.
fn hierarchy(child: &str, parent: &str, versions: &BTreeMap<String, Value>) -> Value {
    let object = |parent: &str| {
        json!({
            "kind": "HierarchyConfiguration", "apiVersion": hns_api::API_VERSION,
            "metadata": versions[child], "spec": { "parent": parent },
        })
    };
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "kind": { "group": hns_api::GROUP, "version": "v1alpha2", "kind": "HierarchyConfiguration" },
            "resource": { "group": hns_api::GROUP, "version": "v1alpha2", "resource": "hierarchyconfigurations" },
            "name": HIERARCHY, "namespace": child, "operation": "UPDATE",
            "object": object(parent), "oldObject": object(""), "dryRun": false,
        },
    })
}

/// A subnamespace that is just being created: each is a change about an object of its own.
pub(super) fn creation_below(name: &str, parent: &str) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "kind": { "group": "", "version": "v1", "kind": "Namespace" },
            "resource": { "group": "", "version": "v1", "resource": "namespaces" },
            "name": name, "namespace": name, "operation": "CREATE",
            "object": {
                "kind": "Namespace", "apiVersion": "v1",
                "metadata": { "name": name, "annotations": { annotations::SUBNAMESPACE_OF: parent } },
            },
            "oldObject": null, "dryRun": false,
        },
    })
}
