//! A snapshot of the cluster, read without the product's code, and the difference of two.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use hns_api::accurate::SubNamespace;
use hns_api::accurate::annotations::FROM;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, labels};
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::Value;

/// Objects that the control plane creates in every namespace.
const FOREIGN: [&str; 1] = ["kube-root-ca.crt"];

/// An object of one of the kinds that are read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    uid: String,
    from: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    content: Value,
}

/// By resource, namespace and name.
type Place = (String, String, String);

/// The objects of the namespaces of one organization.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// Uid and labels.
    pub(crate) namespaces: BTreeMap<String, (String, BTreeMap<String, String>)>,
    /// Namespace, type, reason, message.
    conditions: BTreeSet<[String; 4]>,
    /// Namespace and name.
    pub(crate) anchors: BTreeSet<(String, String)>,
    /// The same of `SubNamespaces`, with why it has no namespace, if so.
    forms: BTreeMap<(String, String), Option<String>>,
    objects: BTreeMap<Place, Object>,
}

/// The effects between two snapshots, or those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Action and name.
    pub(crate) namespaces: BTreeSet<[String; 2]>,
    /// Namespace, key, value before and after.
    pub(crate) labels: BTreeSet<(String, String, Option<String>, Option<String>)>,
    /// Action, namespace, type, reason, message.
    pub(crate) conditions: BTreeSet<[String; 5]>,
    /// Action, namespace, name.
    pub(crate) anchors: BTreeSet<[String; 3]>,
    /// The same of `SubNamespaces`, with why it has no namespace afterwards.
    pub(crate) forms: BTreeSet<[String; 4]>,
    /// Action, resource, namespace, name, and whose copy it becomes.
    pub(crate) objects: BTreeSet<[String; 5]>,
}

fn resources() -> [(&'static str, ApiResource); 5] {
    fn of<K: Resource<DynamicType = ()>>() -> ApiResource {
        ApiResource::erase::<K>(&())
    }
    [
        ("roles.rbac.authorization.k8s.io", of::<Role>()),
        ("rolebindings.rbac.authorization.k8s.io", of::<RoleBinding>()),
        ("configmaps", of::<ConfigMap>()),
        ("limitranges", of::<LimitRange>()),
        ("secrets", of::<Secret>()),
    ]
}

impl Snapshot {
    /// Reads all namespaces with this prefix.
    pub(crate) async fn look(client: &Client, prefix: &str) -> Result<Self> {
        let params = ListParams::default();
        let is_ours = |name: &Option<String>| name.as_ref().is_some_and(|it| it.starts_with(prefix));
        let mut snapshot = Self::default();
        for namespace in Api::<Namespace>::all(client.clone()).list(&params).await?.items {
            let metadata = namespace.metadata;
            if is_ours(&metadata.name) {
                let state = (metadata.uid.unwrap_or_default(), metadata.labels.unwrap_or_default());
                snapshot.namespaces.insert(metadata.name.unwrap_or_default(), state);
            }
        }
        for hierarchy in Api::<HierarchyConfiguration>::all(client.clone()).list(&params).await?.items {
            let namespace = hierarchy.metadata.namespace.filter(|it| it.starts_with(prefix));
            let shown = hierarchy.status.unwrap_or_default().conditions;
            let shown = shown
                .into_iter()
                .filter_map(|it| Some([namespace.clone()?, it.type_, it.reason, it.message]));
            snapshot.conditions.extend(shown);
        }
        for anchor in Api::<SubnamespaceAnchor>::all(client.clone()).list(&params).await?.items {
            if is_ours(&anchor.metadata.namespace) {
                let metadata = anchor.metadata;
                snapshot
                    .anchors
                    .insert((metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()));
            }
        }
        snapshot.forms = forms(client).await?;
        snapshot.forms.retain(|(namespace, _), _| namespace.starts_with(prefix));
        for (name, resource) in resources() {
            for object in Api::<DynamicObject>::all_with(client.clone(), &resource).list(&params).await? {
                let metadata = object.metadata;
                let own = metadata.name.clone().unwrap_or_default();
                if is_ours(&metadata.namespace) && !FOREIGN.contains(&&*own) {
                    let from = metadata.labels.as_ref().and_then(|it| it.get(labels::INHERITED_FROM));
                    let from = from.or(metadata.annotations.as_ref().and_then(|it| it.get(FROM)));
                    let seen = Object {
                        uid: metadata.uid.unwrap_or_default(),
                        from: from.cloned(),
                        labels: metadata.labels,
                        annotations: metadata.annotations,
                        content: object.data,
                    };
                    let place = (name.to_owned(), metadata.namespace.unwrap_or_default(), own);
                    snapshot.objects.insert(place, seen);
                }
            }
        }
        Ok(snapshot)
    }

    /// The namespaces that others name as their parent, by tree labels.
    pub(crate) fn parents(&self) -> Vec<String> {
        let labels = self.namespaces.values().flat_map(|(_, labels)| labels);
        let nearest = labels.filter(|(_, depth)| *depth == "1");
        let parents = nearest.filter_map(|(key, _)| labels::tree_label_namespace(key));
        let there = parents.filter(|it| self.namespaces.contains_key(*it)).map(str::to_owned);
        there.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The effects from this snapshot to `after`. Of the objects of deleted namespaces, only those of `known` kinds are included.
    pub(crate) fn became(&self, after: &Self, known: &BTreeSet<String>) -> Effects {
        let mut effects = Effects::default();
        let uid = |snapshot: &Self, name: &str| snapshot.namespaces.get(name).map(|it| it.0.clone());
        // Where there is another namespace of that name, all of the first one is deleted.
        let goes = |name: &str| uid(self, name).is_some_and(|it| Some(it) != uid(after, name));
        let comes = |name: &str| uid(after, name).is_some_and(|it| Some(it) != uid(self, name));
        for name in self.namespaces.keys().chain(after.namespaces.keys()) {
            let actions = [("delete", goes(name)), ("create", comes(name))];
            for (action, _) in actions.into_iter().filter(|(_, happens)| *happens) {
                effects.namespaces.insert([action.to_owned(), name.clone()]);
            }
        }
        for (name, (_, labels)) in &after.namespaces {
            let none = BTreeMap::new();
            let before = self.namespaces.get(name).filter(|_| !comes(name)).map_or(&none, |it| &it.1);
            for key in labels.keys().chain(before.keys()) {
                let (old, new) = (before.get(key), labels.get(key));
                if old != new {
                    effects.labels.insert((name.clone(), key.clone(), old.cloned(), new.cloned()));
                }
            }
        }
        let stays = |it: &&[String; 4]| after.namespaces.contains_key(&it[0]);
        for (action, one, other) in [("comes", after, self), ("goes", self, after)] {
            for [namespace, type_, reason, message] in
                one.conditions.difference(&other.conditions).filter(stays).cloned()
            {
                effects.conditions.insert([action.to_owned(), namespace, type_, reason, message]);
            }
        }
        for (action, one, other) in [("create", after, self), ("delete", self, after)] {
            for (namespace, name) in one.anchors.difference(&other.anchors).cloned() {
                effects.anchors.insert([action.to_owned(), namespace, name]);
            }
        }
        for place in self.forms.keys().chain(after.forms.keys()) {
            let action = match (self.forms.get(place), after.forms.get(place)) {
                (None, _) => "create",
                (_, None) => "delete",
                (before, now) if before == now => continue,
                _ => "change",
            };
            let ((namespace, name), stalled) = (place.clone(), after.forms.get(place).cloned().flatten());
            effects.forms.insert([action.to_owned(), namespace, name, stalled.unwrap_or_default()]);
        }
        for place in self.objects.keys().chain(after.objects.keys()) {
            let (resource, namespace, name) = place;
            let (before, now) = (self.objects.get(place), after.objects.get(place));
            let is_another = goes(namespace) && comes(namespace);
            let states = if is_another { vec![(before, None), (None, now)] } else { vec![(before, now)] };
            for (before, now) in states {
                let action = match (before, now) {
                    (Some(_), None) if goes(namespace) && !known.contains(resource) => continue,
                    (before, now) if before == now => continue,
                    (None, _) => "create",
                    (_, None) => "delete",
                    (Some(before), Some(_)) if before.from.is_none() => "overwrite",
                    _ => "update",
                };
                let from = now.and_then(|it| it.from.clone()).unwrap_or_default();
                effects.objects.insert([action, resource, namespace, name, &from].map(str::to_owned));
            }
        }
        effects
    }

    /// Fails unless each new copy has the content of its source.
    pub(crate) fn holds(&self, effects: &Effects) {
        for [action, resource, namespace, name, from] in effects.objects.iter().filter(|it| it[0] != "delete")
        {
            let at = |namespace: &String| {
                &self.objects[&(resource.clone(), namespace.clone(), name.clone())].content
            };
            assert_eq!(at(namespace), at(from), "{action} {resource} {name} in {namespace}");
        }
    }
}

/// All `SubNamespaces`; none where the API server does not serve them.
async fn forms(client: &Client) -> Result<BTreeMap<(String, String), Option<String>>> {
    let found = match Api::<SubNamespace>::all(client.clone()).list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(BTreeMap::new()),
        found => found?,
    };
    let stalled = |form: &SubNamespace| {
        let mut conditions = form.status.iter().flat_map(|it| it.conditions.iter().flatten());
        conditions.find(|it| it.type_ == "Stalled").map(|it| it.message.clone())
    };
    let place = |form: &SubNamespace| {
        let metadata = &form.metadata;
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
    };
    Ok(found.items.iter().map(|form| (place(form), stalled(form))).collect())
}

impl Effects {
    /// The effects of a plan in `-o json`.
    pub(crate) fn foretold(plan: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let maybe = |value: &Value| value.as_str().map(str::to_owned);
        let mut effects = Self::default();
        for it in list(&plan["namespaces"]) {
            let name = text(&it["name"]);
            if it["action"] != "change" {
                effects.namespaces.insert([text(&it["action"]), name.clone()]);
            }
            for pair in list(&it["labels"]) {
                let values = (maybe(&pair["before"]), maybe(&pair["after"]));
                effects.labels.insert((name.clone(), text(&pair["key"]), values.0, values.1));
            }
            for seen in list(&it["conditions"]) {
                effects.conditions.insert([
                    text(&seen["action"]),
                    name.clone(),
                    text(&seen["type"]),
                    text(&seen["reason"]),
                    text(&seen["message"]),
                ]);
            }
        }
        for it in list(&plan["anchors"]) {
            effects.anchors.insert([text(&it["action"]), text(&it["namespace"]), text(&it["name"])]);
        }
        for it in list(&plan["subNamespaces"]) {
            effects.forms.insert(["action", "namespace", "name", "stalled"].map(|word| text(&it[word])));
        }
        for it in list(&plan["objects"]).iter().filter(|it| !FOREIGN.iter().any(|name| it["name"] == *name)) {
            let words = ["action", "resource", "namespace", "name", "source"];
            effects.objects.insert(words.map(|word| text(&it[word])));
        }
        effects
    }

    /// The number of effects of each type.
    pub(crate) fn sizes(&self) -> [usize; 5] {
        let Self { namespaces, labels, conditions, anchors, objects, .. } = self;
        [namespaces.len(), labels.len(), conditions.len(), anchors.len(), objects.len()]
    }
}
