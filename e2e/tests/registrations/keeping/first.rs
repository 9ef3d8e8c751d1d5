//! The first seconds of an installation, and its end: registrations and policies come and go with the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hns_api::names;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Fault, Launch, Options, Product, Proxy, Steps, eventually, stays};
use http::Method;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::super::table::Users;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const ROOT: &str = "first-root";
const LEAF: &str = "first-leaf";
const COPY: &str = "/api/v1/namespaces/first-leaf/secrets/source";

/// How long the attack goes on after the first copy.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// All registrations and policies.
fn objects() -> Vec<String> {
    let policies = super::policies().into_iter().map(|object| format!("{GROUP}/{object}"));
    let webhooks = [
        format!("{GROUP}/validatingwebhookconfigurations/{}", names::VALIDATING_WEBHOOK_CONFIGURATION),
        format!("{GROUP}/mutatingwebhookconfigurations/{}", names::MUTATING_WEBHOOK_CONFIGURATION),
    ];
    policies.chain(webhooks).collect()
}

async fn exist(users: &Users<'_>, wanted: bool) {
    for object in objects() {
        eventually(&format!("{object} exists: {wanted}"), PATIENCE, async || {
            let found = users.send("operator", Method::GET, &object, &Value::Null).await;
            match found {
                Ok(found) if wanted => {
                    let owner = &found["metadata"]["ownerReferences"];
                    if owner[0]["kind"] == "ClusterRole" { Ok(()) } else { Err(found.to_string()) }
                }
                Err(kube::Error::Api(status)) if status.code == 404 && !wanted => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap();
    }
}

/// A hierarchy from before the installation, with a kind to propagate. While the controller cannot create registrations and policies, it
/// writes no copy. Once it can, users cannot write to a copy from its first moment on.
#[tokio::test]
async fn no_copy_is_written_before_it_is_guarded_and_all_goes_with_the_cluster_role() {
    let cluster = Cluster::start().await.unwrap();
    let product = Product::install(&cluster, Options::default()).await.unwrap();
    let users = Users::of(&cluster);
    let webhook = product.start_webhook().await.unwrap();
    plant(&cluster, &Steps::of(cluster.admin())).await;
    for object in objects() {
        users.send("operator", Method::DELETE, &object, &Value::Null).await.unwrap();
    }
    let proxy = Proxy::start(&cluster).unwrap();
    proxy.set_rule(|parts| {
        let is_write = parts.method != Method::GET && parts.uri.path().starts_with(GROUP);
        is_write.then_some(Fault::Answer(503))
    });
    let launch = Launch { server: Some(proxy.url()), ..Launch::default() };
    let attack = Attack::start(cluster.client_as("mallory", &["system:masters"]));
    let controller = product.start(Component::Controller, launch).await.unwrap();
    eventually("the controller reports that copies wait", PATIENCE, async || {
        if controller.log().contains("a copy waits") { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    assert!(attack.seen.load(Ordering::Relaxed) == 0, "a copy was written without a guard");
    proxy.reset();
    exist(&users, true).await;
    eventually("the copy is written", PATIENCE, async || {
        users
            .send("operator", Method::GET, COPY, &Value::Null)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    tokio::time::sleep(AFTERWARDS).await;
    let attempts = attack.end().await;
    println!(
        "  no copy was written for ten seconds without guards; then {attempts} attempts to write to it were refused"
    );

    // As in an uninstallation; the controller still runs, and may not create them again.
    let roles = Api::<ClusterRole>::all(cluster.admin());
    roles.delete(names::CONTROLLER_CLUSTER_ROLE, &DeleteParams::default()).await.unwrap();
    exist(&users, false).await;
    stays("they stay away", Duration::from_secs(3), async || {
        for object in objects() {
            if users.send("operator", Method::GET, &object, &Value::Null).await.is_ok() {
                return Err(object);
            }
        }
        Ok(())
    })
    .await
    .unwrap();
    println!("  the garbage collector deleted all of them with the ClusterRole of the controller");
    drop((controller, webhook));
}

/// A hierarchy with a Secret to propagate.
async fn plant(cluster: &Cluster, steps: &Steps) {
    steps.plant(&[(ROOT, ""), (LEAF, ROOT)]).await.unwrap();
    let objects = [
        json!({
            "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HNCConfiguration", "metadata": { "name": "config" },
            "spec": { "resources": [{ "resource": "secrets", "mode": "Propagate" }] },
        }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "source", "namespace": ROOT } }),
    ];
    for object in objects {
        cluster.kubectl().args(["create", "-f", "-"]).stdin(object.to_string()).ok().await.unwrap();
    }
}

/// A user with all rights who tries to write to the copy.
struct Attack {
    stop: Arc<AtomicBool>,
    /// Answers other than "not found".
    seen: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Attack {
    fn start(client: Client) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let edit = Patch::Merge(json!({ "data": { "stolen": "eQ==" } }));
            let mut wrong = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let request = kube::core::Request::new("/api/v1/namespaces/first-leaf/secrets");
                let request = request.patch("source", &PatchParams::default(), &edit).unwrap();
                match client.request_text(request).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(kube::Error::Api(status)) if status.code == 403 => {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    other => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        wrong.push(format!("{other:?}"));
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            wrong
        });
        Self { stop, seen, task }
    }

    /// How many attempts were refused. Fails if one was not.
    async fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let wrong = self.task.await.unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let seen = self.seen.load(Ordering::Relaxed);
        assert!(seen > 0, "the copy was never attacked");
        seen
    }
}
