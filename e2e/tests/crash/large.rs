//! A tree with two thousand copies of several kinds, and one conflict, which a condition reports.

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use hns_api::labels::INHERITED_FROM;
use hns_api::{ConflictPolicy, HNCConfiguration, HNCConfigurationSpec, ResourceSpec};
use hns_e2e::{Steps, eventually};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const ROOT: &str = "big-root";
pub(crate) const CHILDREN: usize = 40;
/// Group, plural, kind, and how many sources there are of it.
const KINDS: [(&str, &str, &str, usize); 6] = [
    ("", "configmaps", "ConfigMap", 20),
    ("", "secrets", "Secret", 20),
    ("", "limitranges", "LimitRange", 2),
    ("networking.k8s.io", "networkpolicies", "NetworkPolicy", 4),
    ("rbac.authorization.k8s.io", "roles", "Role", 2),
    ("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", 3),
];
/// Concurrent requests.
const AT_ONCE: usize = 16;
const LONG: Duration = Duration::from_secs(120);

pub(crate) fn child(number: usize) -> String {
    format!("big-{number:02}")
}

/// Creates it, and waits until every copy exists. One child holds its own Secret with a source's name, which stays. Returns the
/// number of copies.
pub(crate) async fn plant(steps: &Steps) -> Result<usize> {
    configure(steps, true).await?;
    steps.create_namespace(ROOT).await?;
    let children: Vec<String> = (0..CHILDREN).map(child).collect();
    let plant = async |child: &String| {
        steps.create_namespace(child).await?;
        if *child == children[0] {
            create(steps, child, (KINDS[1], 0), "own").await?;
        }
        steps.set_parent(child, ROOT).await?;
        anyhow::Ok(())
    };
    at_once(children.iter().map(plant)).await?;
    let sources = KINDS.into_iter().flat_map(|kind| (0..kind.3).map(move |number| (kind, number)));
    at_once(sources.map(|source| create(steps, ROOT, source, "source"))).await?;
    let wanted = CHILDREN * KINDS.iter().map(|kind| kind.3).sum::<usize>() - 1;
    ensure!(wanted >= 2000);
    eventually("every copy is there", LONG, async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let count = count(steps).await.map_err(|error| error.to_string())?;
        if count == wanted { Ok(()) } else { Err(format!("{count} of {wanted}")) }
    })
    .await?;
    Ok(wanted)
}

/// Configures all these kinds, or only those that are always propagated. Conflicts are only reported.
pub(crate) async fn configure(steps: &Steps, all: bool) -> Result<()> {
    let configured = KINDS.into_iter().filter(|(group, ..)| all && !group.starts_with("rbac"));
    let entry = |(group, resource, ..): (&str, &str, &str, usize)| ResourceSpec {
        group: Some(group.to_owned()),
        resource: resource.to_owned(),
        on_conflict: Some(ConflictPolicy::Report),
        ..ResourceSpec::default()
    };
    let spec = HNCConfigurationSpec { resources: Some(configured.map(entry).collect()), trees: None };
    let api: Api<HNCConfiguration> = Api::all(steps.client.clone());
    let patch = Patch::Apply(HNCConfiguration::new("config", spec));
    api.patch("config", &PatchParams::apply("test").force(), &patch).await?;
    Ok(())
}

async fn at_once<F: Future<Output = Result<()>>>(work: impl Iterator<Item = F>) -> Result<()> {
    stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await
}

fn resource((group, plural, kind, _): (&str, &str, &str, usize)) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
}

async fn create(
    steps: &Steps,
    namespace: &str,
    (kind, number): ((&str, &str, &str, usize), usize),
    value: &str,
) -> Result<()> {
    let resource = resource(kind);
    let mut manifest = body(kind.2, value);
    manifest["apiVersion"] = json!(resource.api_version);
    manifest["kind"] = json!(resource.kind);
    manifest["metadata"] = json!({ "name": format!("source-{number}"), "labels": { "of": "the-source" } });
    let api: Api<DynamicObject> = Api::namespaced_with(steps.client.clone(), namespace, &resource);
    api.create(&PostParams::default(), &serde_json::from_value(manifest)?).await?;
    Ok(())
}

/// The API server sets defaults for some fields.
fn body(kind: &str, value: &str) -> Value {
    match kind {
        "ConfigMap" => json!({ "data": { "value": value } }),
        "Secret" => json!({ "stringData": { "value": value } }),
        "LimitRange" => json!({ "spec": { "limits": [{ "type": "Container", "max": { "cpu": "1000m" } }] } }),
        "NetworkPolicy" => json!({ "spec": { "podSelector": {}, "ingress": [{}] } }),
        "Role" => json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }),
        _ => json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "source-0" },
            "subjects": [{ "kind": "User", "name": "alice" }],
        }),
    }
}

async fn count(steps: &Steps) -> Result<usize> {
    let copies = ListParams::default().labels(&format!("{INHERITED_FROM}={ROOT}"));
    let mut count = 0;
    for kind in KINDS {
        let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), &resource(kind));
        count += api.list_metadata(&copies).await?.items.len();
    }
    Ok(count)
}

/// Deletes the sources, and waits until no copy is left: other tests need none.
pub(crate) async fn clear(steps: &Steps) -> Result<()> {
    for kind in KINDS {
        let api: Api<DynamicObject> = Api::namespaced_with(steps.client.clone(), ROOT, &resource(kind));
        let ours = ListParams::default().labels("of=the-source");
        api.delete_collection(&kube::api::DeleteParams::default(), &ours).await?;
    }
    eventually("every copy is gone", LONG, async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        match count(steps).await {
            Ok(0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    configure(steps, false).await
}
