//! The objects of a namespace, without fields that differ between runs; and the access that they grant. Judges nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use hns_api::accurate::KEY_PREFIX;
use hns_e2e::Steps;
use hns_e2e::steps::HIERARCHY;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde::Serialize;
use serde_json::{Value, json};

/// Everything that the controller keeps in some namespaces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State(pub(crate) BTreeMap<String, Contents>);

/// Everything that the controller keeps in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contents {
    labels: BTreeMap<String, String>,
    roles: BTreeMap<String, Value>,
    bindings: BTreeMap<String, Value>,
    pub(crate) quotas: BTreeMap<String, Value>,
    hierarchy: Option<Value>,
}

impl State {
    pub(crate) async fn read(steps: &Steps, namespaces: &[String]) -> Result<Self> {
        let mut state = BTreeMap::new();
        for namespace in namespaces {
            state.insert(namespace.clone(), Contents::read(steps, namespace).await?);
        }
        Ok(Self(state))
    }

    /// The differences from `other`, as text; empty if there are none.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let differs = |(name, here): (&String, &Contents)| {
            let there = other.0.get(name);
            (there != Some(here)).then(|| format!("{name}: {here:?} instead of {there:?}"))
        };
        self.0.iter().filter_map(differs).collect::<Vec<_>>().join("; ")
    }
}

impl Contents {
    async fn read(steps: &Steps, namespace: &str) -> Result<Self> {
        let namespaces: Api<Namespace> = Api::all(steps.client.clone());
        let list = ListParams::default();
        let hierarchy = steps.hierarchies(namespace).get_opt(HIERARCHY).await?;
        let quotas = Api::<ResourceQuota>::namespaced(steps.client.clone(), namespace);
        Ok(Self {
            labels: namespaces.get(namespace).await?.metadata.labels.unwrap_or_default(),
            roles: by_name(&steps.roles(namespace).list(&list).await?.items)?,
            bindings: by_name(&steps.bindings(namespace).list(&list).await?.items)?,
            quotas: by_name(&quotas.list(&list).await?.items)?,
            hierarchy: hierarchy.map(|it| lasting(&it)).transpose()?,
        })
    }

    /// The grants here: each rule with each subject, and the tree labels, which policies select by. A label of Accurate's is the
    /// user's own change.
    pub(crate) fn grants(&self) -> BTreeSet<String> {
        let labels = self.labels.iter().filter(|(key, _)| !key.starts_with(KEY_PREFIX));
        let labels = labels.map(|(key, value)| format!("label {key}={value}"));
        self.bindings.values().flat_map(|binding| self.granted(binding)).chain(labels).collect()
    }

    fn granted(&self, binding: &Value) -> Vec<String> {
        let role = &binding["roleRef"];
        let name = role["name"].as_str().unwrap_or_default();
        let rules = match role["kind"].as_str() {
            Some("Role") => self.roles.get(name).map(|role| role["rules"].clone()).unwrap_or_default(),
            _ => json!([format!("all of the ClusterRole {name}")]),
        };
        let pair = |subject: &Value, rule: &Value| format!("{} may {rule}", subject["name"]);
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let rules = || rules.as_array().into_iter().flatten();
        subjects.flat_map(|subject| rules().map(|rule| pair(subject, rule))).collect()
    }
}

fn by_name<T: Serialize>(objects: &[T]) -> Result<BTreeMap<String, Value>> {
    objects
        .iter()
        .map(|object| {
            let name = serde_json::to_value(object)?["metadata"]["name"].clone();
            Ok((name.as_str().unwrap_or_default().to_owned(), lasting(object)?))
        })
        .collect()
}

/// An object without its identity, versions and times.
fn lasting(object: &impl Serialize) -> Result<Value> {
    let mut value = serde_json::to_value(object)?;
    // Of a quota it is counted by somebody else.
    if value.get("spec").is_some_and(|spec| spec.get("hard").is_some()) {
        value["status"].take();
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|key, _| {
            ["name", "namespace", "labels", "annotations", "finalizers"].contains(&key.as_str())
        });
    }
    if let Some(conditions) = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
    }
    Ok(value)
}

/// What `user` may do in `namespace` according to the API server: `verb resource`, of those requested.
pub(crate) async fn allowed(
    steps: &Steps,
    namespace: &str,
    user: &str,
    asked: &[(&str, &str)],
) -> Result<BTreeSet<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(steps.client.clone());
    let mut allowed = BTreeSet::new();
    for (verb, resource) in asked {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some((*verb).to_owned()),
            resource: Some((*resource).to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = reviews.create(&PostParams::default(), &review).await?.status;
        if answer.is_some_and(|status| status.allowed) {
            allowed.insert(format!("{verb} {resource}"));
        }
    }
    Ok(allowed)
}
