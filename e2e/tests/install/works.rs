//! Whether an installation works: seen from its users, with nothing but requests.

use std::time::{Duration, Instant};

use hns_e2e::programs::Kubernetes;
use hns_e2e::{Cluster, Deployed, Steps, eventually};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Mutex;

/// On a busy machine without a node; what is measured is printed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// One installation at a time: names are fixed.
pub(crate) async fn turn() -> (tokio::sync::MutexGuard<'static, ()>, &'static Cluster) {
    static TURN: Mutex<()> = Mutex::const_new(());
    (TURN.lock().await, Cluster::shared().await)
}

/// A user with every right that RBAC can give.
pub(crate) fn alice(cluster: &Cluster) -> Client {
    cluster.client_as("alice", &["system:masters"])
}

/// A subnamespace comes, a role is copied there, the copy is read-only, and the root cannot be deleted: controller, policies
/// and webhook have each done their part. Follows the Deployments meanwhile. Returns how long it took since `began`.
pub(crate) async fn works(
    cluster: &Cluster,
    deployed: &mut Deployed<'_>,
    root: &str,
    began: Instant,
) -> anyhow::Result<Duration> {
    deployed.follow().await?;
    let steps = Steps::of(alice(cluster));
    let child = format!("{root}-child");
    eventually(&format!("{root} can be created"), PATIENCE, async || {
        match steps.create_namespace(root).await {
            Err(kube::Error::Api(status)) if status.code != 409 => Err(status.message),
            _ => Ok(()),
        }
    })
    .await?;
    eventually(&format!("{child} can be asked for"), PATIENCE, async || {
        match steps.create_anchor(root, &child).await {
            Err(kube::Error::Api(status)) if status.code != 409 => Err(status.message),
            Err(kube::Error::Api(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    let namespaces = steps.namespaces();
    let depth = format!("{root}.tree.hnc.x-k8s.io/depth");
    eventually(&format!("{child} is below {root}"), PATIENCE, async || {
        let found = namespaces.get_opt(&child).await.map_err(|error| error.to_string())?;
        let labels = found.and_then(|it| it.metadata.labels).unwrap_or_default();
        if labels.get(&depth).is_some_and(|it| it == "1") { Ok(()) } else { Err(format!("{labels:?}")) }
    })
    .await?;
    copies(&steps.client, root, &child).await?;
    eventually(&format!("{root} cannot be deleted"), PATIENCE, async || {
        let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
        let refused = steps.namespaces().delete(root, &dry_run).await;
        let Err(kube::Error::Api(status)) = refused else { return Err("it was allowed".to_owned()) };
        if status.message.contains("subnamespace") { Ok(()) } else { Err(status.message) }
    })
    .await?;
    Ok(began.elapsed())
}

async fn copies(client: &Client, root: &str, child: &str) -> anyhow::Result<()> {
    let roles = |namespace: &str| Api::<Role>::namespaced(client.clone(), namespace);
    let mut role = Role::default();
    role.metadata.name = Some("reader".to_owned());
    role.rules = Some(vec![PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["pods".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    }]);
    eventually(&format!("{root} gets a role"), PATIENCE, async || {
        match roles(root).create(&PostParams::default(), &role).await {
            Err(kube::Error::Api(status)) if status.code != 409 => Err(status.message),
            _ => Ok(()),
        }
    })
    .await?;
    eventually(&format!("{child} has a copy"), PATIENCE, async || {
        let found = roles(child).get_opt("reader").await.map_err(|error| error.to_string())?;
        found.map(drop).ok_or_else(|| "there is none".to_owned())
    })
    .await?;
    // The API server takes up new policies and registrations a moment after they were written.
    let edit = Patch::Merge(json!({ "rules": [] }));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    eventually(&format!("the copy in {child} cannot be changed"), PATIENCE, async || {
        match roles(child).patch("reader", &dry_run, &edit).await {
            Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("copy") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    Ok(())
}

/// Waits until the garbage collector has deleted registrations and policies, after the `ClusterRole` that owns them.
pub(crate) async fn collected(cluster: &Cluster) {
    let mut kinds =
        "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings"
            .to_owned();
    if Kubernetes::wanted().unwrap().has_mutating_policies() {
        kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    }
    let get = ["get", &kinds, "-o", "name"];
    eventually("registrations and policies are deleted", PATIENCE, async || {
        let left = cluster.kubectl().args(get).ok().await.map_err(|error| format!("{error:#}"))?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await
    .unwrap();
}

/// The namespace with all its labels.
pub(crate) async fn namespace(cluster: &Cluster, name: &str) -> Option<Namespace> {
    Steps::of(cluster.admin()).namespaces().get_opt(name).await.unwrap()
}
