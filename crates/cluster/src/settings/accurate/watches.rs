//! The watched kinds: which resources they are, and the rights that they need. Sends no requests.

use forest::Kind;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::core::discovery::v2::APIGroupDiscovery;
use serde::{Deserialize, Serialize};

use super::or_default;

/// A watched kind as configured: exactly this version of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// The group; empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The version.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// The kind, as in an object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
}

/// Checks the entries without a cluster.
///
/// # Errors
/// The index of the first that is wrong, and why.
pub(super) fn check(watches: &[Watch]) -> Result<(), (usize, String)> {
    for (index, watch) in watches.iter().enumerate() {
        let Watch { group, version, kind } = watch;
        if version.is_empty() || kind.is_empty() {
            return Err((index, "expected version and kind".to_owned()));
        }
        // Copied twice, each object would have two sources.
        let before = watches[..index].iter().find(|it| (&it.group, &it.kind) == (group, kind));
        if let Some(before) = before {
            return Err((index, format!("{kind} is in the list already, in version {}", before.version)));
        }
    }
    Ok(())
}

impl Watch {
    /// The kind that this entry means, in what the API server serves.
    ///
    /// # Errors
    /// There is none, it is not known at the moment, or it is not namespaced.
    pub fn resolve(&self, served: &[APIGroupDiscovery]) -> Result<Kind, String> {
        let Self { group, version, kind } = self;
        let shown = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        let is_it = |it: &&APIGroupDiscovery| {
            it.metadata.as_ref().and_then(|it| it.name.as_deref()).unwrap_or_default() == group
        };
        let versions = served.iter().filter(is_it).flat_map(|it| &it.versions);
        let mut versions = versions.filter(|it| it.version.as_deref() == Some(version)).peekable();
        let is_stale = versions.peek().is_some_and(|it| it.freshness.as_deref() == Some("Stale"));
        let mut resources = versions.flat_map(|it| &it.resources);
        let found = resources.find(|it| {
            it.response_kind.as_ref().and_then(|it| it.kind.as_deref()) == Some(kind) && it.resource.is_some()
        });
        match found {
            None if is_stale => Err(format!("the server of {shown} does not answer")),
            None => Err(format!("the API server does not serve {kind} in {shown}")),
            Some(found) if found.scope.as_deref() != Some("Namespaced") => {
                Err(format!("{kind} in {shown} is not namespaced"))
            }
            Some(found) => Ok(self.kind(found.resource.clone().unwrap_or_default())),
        }
    }

    /// The kind with this plural.
    pub(super) fn kind(&self, resource: String) -> Kind {
        let Self { group, version, kind } = self.clone();
        Kind { group, version, kind, resource }
    }
}

/// The verbs that are needed for each watched kind, in all namespaces.
pub const VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// The question to the API server whether the program itself has the right to `verb` for this kind.
pub fn self_review(kind: &Kind, verb: &str) -> SelfSubjectAccessReview {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(kind.group.clone()),
        version: Some(kind.version.clone()),
        resource: Some(kind.resource.clone()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

/// The rights that are missing, in Accurate's words: one text for each right that `has` denies.
pub fn missing_rights<'a>(
    kinds: impl IntoIterator<Item = &'a Kind>,
    has: impl Fn(&Kind, &str) -> bool,
) -> Vec<String> {
    let needed = kinds.into_iter().flat_map(|kind| VERBS.map(|verb| (kind, verb)));
    let missing = needed.filter(|(kind, verb)| !has(kind, verb));
    missing
        .map(|(Kind { group, version, resource, .. }, verb)| {
            format!("missing permission to {verb} {group}/{version}, Resource={resource}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn watch(group: &str, version: &str, kind: &str) -> Watch {
        Watch { group: group.into(), version: version.into(), kind: kind.into() }
    }

    fn served() -> Vec<APIGroupDiscovery> {
        let resource = |plural: &str, kind: &str, scope: &str| json!({ "resource": plural, "responseKind": { "kind": kind }, "scope": scope, "verbs": ["list"] });
        let version = |name: &str, resources: Value| json!({ "version": name, "resources": resources });
        let groups = json!([
            { "metadata": {}, "versions": [version("v1", json!([
                resource("secrets", "Secret", "Namespaced"),
                resource("namespaces", "Namespace", "Cluster"),
            ]))] },
            { "metadata": { "name": "apps" }, "versions": [
                version("v2", json!([resource("jobs", "Job", "Namespaced")])),
                version("v1", json!([resource("oldjobs", "Job", "Namespaced")])),
            ] },
            { "metadata": { "name": "metrics" }, "versions": [
                { "version": "v1", "freshness": "Stale", "resources": [] },
            ] },
        ]);
        serde_json::from_value(groups).expect("groups")
    }

    #[test]
    fn a_kind_is_found_at_exactly_its_version() {
        let served = served();
        for (group, version, kind, expected) in [
            ("", "v1", "Secret", Ok("secrets")),
            ("apps", "v2", "Job", Ok("jobs")),
            ("apps", "v1", "Job", Ok("oldjobs")),
            ("apps", "v3", "Job", Err("the API server does not serve Job in apps/v3")),
            ("", "v1", "Job", Err("the API server does not serve Job in v1")),
            ("", "v1", "secrets", Err("the API server does not serve secrets in v1")),
            ("", "v1", "Namespace", Err("Namespace in v1 is not namespaced")),
            ("metrics", "v1", "PodMetrics", Err("the server of metrics/v1 does not answer")),
            ("other", "v1", "Secret", Err("the API server does not serve Secret in other/v1")),
        ] {
            let found = watch(group, version, kind).resolve(&served);
            let expected = expected.map(|resource: &str| Kind {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                resource: resource.into(),
            });
            assert_eq!(found, expected.map_err(str::to_owned), "{group} {version} {kind}");
        }
    }

    /// Accurate cannot watch kinds of the same name in different groups (section 15.17 of its contract).
    #[test]
    fn kinds_of_one_name_may_be_in_several_groups_but_a_kind_only_once() {
        assert_eq!(
            check(&[watch("a", "v1", "Job"), watch("b", "v1", "Job"), watch("a", "v1", "Task")]),
            Ok(())
        );
        for (list, index, reason) in [
            (
                vec![watch("a", "v1", "Job"), watch("a", "v2", "Job")],
                1,
                "Job is in the list already, in version v1",
            ),
            (vec![watch("a", "v1", "Job"), watch("a", "", "Task")], 1, "expected version and kind"),
            (vec![watch("a", "v1", "")], 0, "expected version and kind"),
        ] {
            assert_eq!(check(&list), Err((index, reason.to_owned())));
        }
    }

    #[test]
    fn all_missing_rights_are_named() {
        let kind = |group: &str, resource: &str| Kind {
            group: group.into(),
            version: "v1".into(),
            kind: String::new(),
            resource: resource.into(),
        };
        let kinds = [kind("", "secrets"), kind("apps", "deployments")];
        let has = |kind: &Kind, verb: &str| match kind.resource.as_str() {
            "secrets" => verb != "patch",
            _ => ["get", "list", "watch"].contains(&verb),
        };
        assert_eq!(
            missing_rights(&kinds, has),
            [
                "missing permission to patch /v1, Resource=secrets",
                "missing permission to create apps/v1, Resource=deployments",
                "missing permission to patch apps/v1, Resource=deployments",
                "missing permission to delete apps/v1, Resource=deployments",
            ]
        );
        assert!(missing_rights(&kinds, |_, _| true).is_empty());
        let review = serde_json::to_value(self_review(&kinds[1], "patch")).unwrap();
        let attributes =
            json!({ "group": "apps", "resource": "deployments", "verb": "patch", "version": "v1" });
        assert_eq!(review["spec"], json!({ "resourceAttributes": attributes }));
    }
}
