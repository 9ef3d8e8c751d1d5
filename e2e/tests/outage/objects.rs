//! Objects of any kind by name, as the tests of this suite need them.

use anyhow::Result;
use hns_api::labels::INHERITED_FROM;
use hns_api::{HNCConfiguration, HNCConfigurationSpec, ResourceSpec};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Group, plural and kind; the version is `v1`.
pub(super) type Kind = (&'static str, &'static str, &'static str);

pub(super) const CONFIG_MAP: Kind = ("", "configmaps", "ConfigMap");
pub(super) const SECRET: Kind = ("", "secrets", "Secret");

/// Says that exactly these kinds are propagated besides roles and bindings.
pub(super) async fn configure(steps: &Steps, kinds: &[Kind]) -> Result<()> {
    let entry = |(group, resource, _): &Kind| ResourceSpec {
        group: Some((*group).to_owned()),
        resource: (*resource).to_owned(),
        ..ResourceSpec::default()
    };
    let spec = HNCConfigurationSpec { resources: Some(kinds.iter().map(entry).collect()), trees: None };
    let api: Api<HNCConfiguration> = Api::all(steps.client.clone());
    let patch = Patch::Apply(HNCConfiguration::new("config", spec));
    eventually("the configuration is accepted", PATIENCE, async || {
        let answer = api.patch("config", &PatchParams::apply("test").force(), &patch).await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// What the configuration says of itself: type, reason and message.
pub(super) async fn conditions(steps: &Steps) -> Result<Vec<(String, String, String)>, kube::Error> {
    let api: Api<HNCConfiguration> = Api::all(steps.client.clone());
    let status = api.get_opt("config").await?.and_then(|config| config.status).unwrap_or_default();
    Ok(status.conditions.into_iter().map(|it| (it.type_, it.reason, it.message)).collect())
}

/// Waits until the configuration says so, in a message with all these words; gives the message.
pub(super) async fn says(steps: &Steps, (type_, reason): (&str, &str), words: &[&str]) -> Result<String> {
    eventually(&format!("config says {type_}, {reason} and {words:?}"), PATIENCE, async || {
        let all = conditions(steps).await.map_err(|error| error.to_string())?;
        let found = all.iter().find(|(shown_type, shown_reason, message)| {
            shown_type == type_ && shown_reason == reason && words.iter().all(|word| message.contains(word))
        });
        found.map(|(_, _, message)| message.clone()).ok_or_else(|| format!("{all:?}"))
    })
    .await
}

/// Waits until the configuration has nothing of these types to say.
pub(super) async fn says_no_more(steps: &Steps, types: &[&str]) -> Result<()> {
    eventually(&format!("config has no conditions {types:?}"), PATIENCE, async || {
        let mut all = conditions(steps).await.map_err(|error| error.to_string())?;
        all.retain(|(type_, ..)| types.contains(&type_.as_str()));
        if all.is_empty() { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await
}

pub(super) fn api(steps: &Steps, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.0, "v1", kind.2);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.1);
    Api::namespaced_with(steps.client.clone(), namespace, &resource)
}

/// The field that holds the value.
fn field((_, _, kind): Kind) -> &'static str {
    match kind {
        "Secret" => "stringData",
        "ConfigMap" => "data",
        _ => "spec",
    }
}

fn body(kind: Kind, value: &str) -> Value {
    json!({ field(kind): { "value": value } })
}

pub(super) async fn create(
    steps: &Steps,
    kind: Kind,
    namespace: &str,
    name: &str,
    value: &str,
) -> Result<()> {
    let gvk = GroupVersionKind::gvk(kind.0, "v1", kind.2);
    let mut manifest = body(kind, value);
    manifest["apiVersion"] = json!(ApiResource::from_gvk_with_plural(&gvk, kind.1).api_version);
    manifest["kind"] = json!(kind.2);
    manifest["metadata"] = json!({ "name": name });
    let object: DynamicObject = serde_json::from_value(manifest)?;
    let api = api(steps, kind, namespace);
    eventually(&format!("{} {name} is created in {namespace}", kind.2), PATIENCE, async || {
        api.create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
    })
    .await
}

pub(super) async fn change(
    steps: &Steps,
    kind: Kind,
    namespace: &str,
    name: &str,
    value: &str,
) -> Result<()> {
    let patch = Patch::Merge(body(kind, value));
    api(steps, kind, namespace).patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

pub(super) async fn delete(steps: &Steps, kind: Kind, namespace: &str, name: &str) -> Result<()> {
    api(steps, kind, namespace).delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Whether the object is a copy with this value; none must be there for `None`.
pub(super) async fn is(
    steps: &Steps,
    kind: Kind,
    (namespace, name): (&str, &str),
    wanted: Option<&str>,
) -> Result<(), String> {
    let found = api(steps, kind, namespace).get_opt(name).await.map_err(|error| error.to_string())?;
    let Some(found) = found else {
        return if wanted.is_none() {
            Ok(())
        } else {
            Err(format!("{} {name} is not in {namespace}", kind.2))
        };
    };
    let is_copy = found.metadata.labels.iter().flatten().any(|(key, _)| key == INHERITED_FROM);
    let value = match kind {
        SECRET => serde_json::from_value::<k8s_openapi::ByteString>(found.data["data"]["value"].clone())
            .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
            .ok(),
        _ => found.data[field(kind)]["value"].as_str().map(str::to_owned),
    };
    if is_copy && value.as_deref() == wanted { Ok(()) } else { Err(format!("{found:?}")) }
}

/// Waits until the object is a copy with this value, or until it is gone.
pub(super) async fn becomes(
    steps: &Steps,
    kind: Kind,
    place: (&str, &str),
    wanted: Option<&str>,
) -> Result<()> {
    let what = format!("{} {} in {} becomes {wanted:?}", kind.2, place.1, place.0);
    eventually(&what, PATIENCE, async || is(steps, kind, place, wanted).await).await
}
