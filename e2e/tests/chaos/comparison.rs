//! The objects in the cluster, and their differences from the specification.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use hns_api::{HierarchyConfiguration, labels};
use hns_e2e::Steps;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, ListParams};

use super::history::History;
use super::kind::{Form, Kind};
use super::specification::{Key, World, inherited_from};
use crate::cluster::Cluster;

/// The one object that the cluster itself puts into every namespace.
const OF_THE_CLUSTER: &str = "kube-root-ca.crt";

/// What was read.
pub(crate) struct Found {
    /// Everything in the namespaces of the test, and copies anywhere.
    pub(crate) objects: BTreeMap<(Kind, String, String), Form>,
    /// The tree labels of all namespaces.
    labels: BTreeMap<String, BTreeMap<String, String>>,
    children: BTreeMap<String, Vec<String>>,
}

impl Found {
    pub(crate) async fn read(steps: &Steps, world: &World) -> Result<Self> {
        let all = ListParams::default();
        let mut objects = BTreeMap::new();
        for kind in Kind::ALL {
            let api: Api<DynamicObject> = Api::all_with(steps.client.clone(), &kind.resource());
            for object in api.list(&all).await? {
                let form = Form::of(&object);
                let metadata = object.metadata;
                let (namespace, name) =
                    (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
                let ours = world.parents.contains_key(&namespace) && name != OF_THE_CLUSTER;
                if ours || inherited_from(&form).is_some() {
                    objects.insert((kind, namespace, name), form);
                }
            }
        }
        let namespaces = Api::<Namespace>::all(steps.client.clone()).list(&all).await?;
        let labels = namespaces.into_iter().map(|namespace| {
            let metadata = namespace.metadata;
            (metadata.name.unwrap_or_default(), of_trees(metadata.labels.unwrap_or_default()))
        });
        let labels = labels.collect();
        let hierarchies = Api::<HierarchyConfiguration>::all(steps.client.clone()).list(&all).await?;
        let children = hierarchies.into_iter().map(|hierarchy| {
            let children = hierarchy.status.unwrap_or_default().children;
            (hierarchy.metadata.namespace.unwrap_or_default(), children)
        });
        Ok(Self { objects, labels, children: children.collect() })
    }

    /// Every copy of a name that is known.
    pub(crate) fn copies(&self, names: &BTreeSet<&'static str>) -> BTreeMap<Key, Form> {
        let copies = self.objects.iter().filter(|(_, form)| inherited_from(form).is_some());
        let keyed = copies.filter_map(|((kind, namespace, name), form)| {
            let name = names.get(name.as_str())?;
            Some((Key { kind: *kind, namespace: namespace.clone(), name }, form.clone()))
        });
        keyed.collect()
    }

    /// The differences from `world`, one line each.
    pub(crate) fn differences(
        &self,
        world: &World,
        history: &History,
        names: &BTreeSet<&'static str>,
    ) -> Vec<String> {
        let mut lines = self.of_trees(world);
        let wanted = world.wanted();
        for kind in Kind::ALL {
            for namespace in world.parents.keys() {
                for name in names {
                    let key = Key { kind, namespace: namespace.clone(), name };
                    let found = self.objects.get(&(kind, namespace.clone(), (*name).to_owned()));
                    let own = world.own.get(&key).map(|own| own.form(kind));
                    let copy = wanted.get(&key).map(|wanted| &wanted.form);
                    let right = match &own {
                        Some(own) => found == Some(own),
                        None if world.is_frozen(kind) => history.may_be(&key, found),
                        None => found == copy,
                    };
                    if !right {
                        lines.push(format!("{key}: {found:?}, not {:?}", own.as_ref().or(copy)));
                    }
                }
            }
        }
        let strange = |(_, namespace, name): &&(Kind, String, String)| {
            !world.parents.contains_key(namespace) || !names.contains(name.as_str())
        };
        lines.extend(self.objects.keys().filter(strange).map(|key| format!("left over: {key:?}")));
        lines
    }

    fn of_trees(&self, world: &World) -> Vec<String> {
        let mut model = world.model();
        // The tree labels of an orphan stay if they are those of its place.
        let missing = |parent: &Option<String>| {
            parent.as_ref().is_some_and(|parent| !world.parents.contains_key(parent))
        };
        for (orphan, _) in world.parents.iter().filter(|(_, parent)| missing(parent)) {
            let found = self.labels.get(orphan).into_iter().flatten();
            let found: Vec<_> = found.map(|(key, value)| (key.as_str(), value.as_str())).collect();
            model.label(orphan, &found);
        }
        let mut lines = Vec::new();
        for namespace in world.parents.keys() {
            let labels = self.labels.get(namespace).cloned().unwrap_or_default();
            if labels != tree_labels(&model, namespace) {
                lines.push(format!("{namespace} bears the tree labels {labels:?}"));
            }
            let children = self.children.get(namespace).cloned().unwrap_or_default();
            if children != model.children(namespace).iter().map(ToString::to_string).collect::<Vec<_>>() {
                lines.push(format!("{namespace} shows the children {children:?}"));
            }
        }
        lines
    }

    pub(crate) fn number_of_copies(&self) -> usize {
        self.objects.values().filter(|form| inherited_from(form).is_some()).count()
    }
}

/// The labels that namespaces bear for the sake of the tree.
fn of_trees(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|key, _| labels::tree_label_namespace(key).is_some() || key == labels::HAS_CHILDREN);
    labels
}

/// Those that a namespace should bear.
fn tree_labels(model: &Cluster, namespace: &str) -> BTreeMap<String, String> {
    of_trees(model.wanted_labels(namespace))
}
