//! Discovery: which resources the API server serves, read with two requests.
//!
//! If the extension server of a group does not answer, the group is reported as unavailable.

use std::time::Duration;

use forest::Kind;
use forest::configuration::{Served, ServedKind};
use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

use crate::error_text::error_text;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the served resources, each in the version that the API server prefers.
///
/// # Errors
/// Discovery failed.
pub async fn discover(client: &Client) -> Result<Served, String> {
    Ok(served(discover_groups(client).await?))
}

/// Reads all versions of the served resources.
///
/// # Errors
/// Discovery failed.
pub async fn discover_groups(client: &Client) -> Result<Vec<APIGroupDiscovery>, String> {
    let asked = async {
        let groups = client.list_api_groups_aggregated().await?.items;
        let core = client.list_core_api_versions_aggregated().await?.items;
        Ok::<_, kube::Error>(core.into_iter().chain(groups).collect::<Vec<_>>())
    };
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(groups)) => {
            let has_any = groups.iter().flat_map(|it| &it.versions).any(|it| !it.resources.is_empty());
            has_any.then_some(groups).ok_or_else(|| "the API server did not answer with its resources".into())
        }
        Ok(Err(error)) => Err(error_text(&error)),
        Err(_) => Err("the API server did not answer in time".into()),
    }
}

/// For each resource, the first version that has it is used: versions are in the API server's order of preference.
pub(super) fn served(groups: impl IntoIterator<Item = APIGroupDiscovery>) -> Served {
    let mut served = Served::default();
    for group in groups {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        let first = served.kinds.len();
        for version in group.versions {
            if version.freshness.as_deref() == Some("Stale") {
                served.unavailable.insert(name.clone());
            }
            let version_name = version.version.unwrap_or_default();
            for resource in version.resources {
                if let Some(kind) = served_kind(&name, &version_name, resource)
                    && !served.kinds[first..].iter().any(|known| known.kind.resource == kind.kind.resource)
                {
                    served.kinds.push(kind);
                }
            }
        }
    }
    served
}

fn served_kind(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<ServedKind> {
    let kind = Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: resource.response_kind?.kind?,
        resource: resource.resource?,
    };
    Some(ServedKind {
        kind,
        singular: resource.singular_resource.unwrap_or_default(),
        short_names: resource.short_names,
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: resource.verbs,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_preferred_version_is_used_and_stale_groups_are_reported() {
        let resource = |plural: &str, kind: &str, scope: &str| {
            json!({
                "resource": plural, "responseKind": { "kind": kind }, "scope": scope, "verbs": ["list"],
                "singularResource": kind.to_lowercase(), "shortNames": ["x"],
                "subresources": [{ "subresource": "status", "responseKind": { "kind": kind }, "verbs": ["get"] }],
            })
        };
        let version = |name: &str, freshness: &str, resources: serde_json::Value| json!({ "version": name, "freshness": freshness, "resources": resources });
        let groups = json!([
            { "metadata": {}, "versions": [version("v1", "Current", json!([resource("nodes", "Node", "Cluster")]))] },
            { "metadata": { "name": "apps" }, "versions": [
                version("v2", "Current", json!([resource("jobs", "Job", "Namespaced")])),
                version("v1", "Current", json!([
                    resource("jobs", "Job", "Namespaced"),
                    resource("tasks", "Task", "Namespaced"),
                ])),
            ] },
            { "metadata": { "name": "metrics" }, "versions": [version("v1", "Stale", json!([]))] },
        ]);
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(groups).unwrap();
        let served = served(groups);
        let shown: Vec<String> =
            served.kinds.iter().map(|it| format!("{} {}", it.kind, it.namespaced)).collect();
        assert_eq!(shown, ["v1, Kind=Node false", "apps/v2, Kind=Job true", "apps/v1, Kind=Task true"]);
        assert_eq!(served.unavailable.iter().collect::<Vec<_>>(), ["metrics"]);
        let job = &served.kinds[1];
        assert_eq!((job.kind.resource.as_str(), job.singular.as_str()), ("jobs", "job"));
        assert_eq!((&job.short_names[..], &job.verbs[..]), (&["x".to_owned()][..], &["list".to_owned()][..]));
    }
}
