//! The writes of Accurate's plans in a preview.

use std::collections::{BTreeMap, BTreeSet};

use super::Preview;
use super::perform::Dialect;
use crate::accurate::content::{hop, manifest};
use crate::accurate::fact::{Fact as AccurateFact, SubNamespaceFact};
use crate::accurate::plan::{Plan, plan};
use crate::accurate::{AccurateAction, keys};
use crate::core::change::Scope;
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::namespace::{Foreign, NamespaceFact};
use crate::core::object::ObjectFact;
use crate::dialects::Forest;
use crate::hnc::keys::{INCLUDED, TREE_LABEL};

type Pairs = BTreeMap<String, String>;

impl Dialect for AccurateAction {
    fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
        plan(forest, namespace, scope)
    }

    fn perform(&self, preview: &mut Preview, namespace: &Name) {
        match self {
            Self::ApplyNamespace { labels, annotations, .. } => {
                preview.edit_namespace(namespace, |seen| apply(seen, labels, annotations));
            }
            Self::CreateNamespace { child } => {
                let depth = format!("{child}{TREE_LABEL}");
                let own = [(keys::CREATED_BY, keys::CREATOR), (keys::PARENT, &**namespace)];
                let of_managed = [(INCLUDED, "true"), (&*depth, "0")];
                let foreign = own.iter().map(|(key, _)| (*key).into()).collect();
                preview.create_namespace(NamespaceFact {
                    name: child.clone(),
                    labels: own.into_iter().chain(of_managed).collect(),
                    foreign: Foreign { labels: foreign, ..Foreign::default() },
                    ..NamespaceFact::default()
                });
            }
            Self::DeleteNamespace { child, version } => preview.delete_namespace(child, version),
            Self::UpdateSubNamespace { child, finalizers, status, .. } => {
                preview.edit_sub_namespace(namespace, child, |seen| {
                    seen.finalizers = finalizers.clone().unwrap_or(std::mem::take(&mut seen.finalizers));
                    seen.status = status.clone().unwrap_or(std::mem::take(&mut seen.status));
                });
            }
        }
    }

    /// A copy is a source for the next namespaces, so what it says is read as from an API object.
    fn marked(forest: &Forest, key: &ObjectKey, copy: ObjectFact, source: &Name) -> ObjectFact {
        let (Some(settings), Some(content)) =
            (forest.accurate_settings(), copy.content.as_ref().and_then(|it| it.canonical.as_deref()))
        else {
            return copy;
        };
        let kind = forest.kind(key.kind);
        let object = manifest(content, kind, [&copy.namespace, &copy.name, source], None);
        let pairs = |field: &str| -> Pairs {
            serde_json::from_value(object["metadata"][field].clone()).unwrap_or_default()
        };
        let said = hop(settings, kind, &pairs("labels"), &pairs("annotations"), object.as_object());
        let role = &object["roleRef"];
        let role = role["name"].as_str().filter(|_| kind.binds_subjects() && role["kind"] != "ClusterRole");
        ObjectFact { hop: said, role: role.map(Name::from), ..copy }
    }
}

impl Preview {
    /// Changes a `SubNamespace`, or creates one. An object that is deleted and has no finalizer is removed.
    pub(super) fn edit_sub_namespace(
        &mut self,
        parent: &Name,
        child: &Name,
        edit: impl FnOnce(&mut SubNamespaceFact),
    ) {
        let all = self.forest.id(parent).map(|id| self.forest.accurate().sub_namespaces(id));
        let known = all.and_then(|all| all.get(child)).cloned();
        let mut fact =
            known.unwrap_or_else(|| SubNamespaceFact { name: child.clone(), ..SubNamespaceFact::default() });
        fact.version = self.version_after(fact.version);
        edit(&mut fact);
        self.ledger.sub_namespace(&self.forest, parent, child);
        self.tell(if fact.terminating && fact.finalizers.is_empty() {
            AccurateFact::SubNamespaceGone(parent.clone(), child.clone(), fact.version.uid)
        } else {
            AccurateFact::SubNamespace(parent.clone(), fact)
        });
    }

    /// Begins the deletion of all `SubNamespaces` in a namespace.
    pub(super) fn empty_of_sub_namespaces(&mut self, name: &Name) {
        let Some(id) = self.forest.id(name) else { return };
        let all = self.forest.accurate().sub_namespaces(id).values();
        let children: Vec<Name> = all.filter(|it| !it.terminating).map(|it| it.name.clone()).collect();
        for child in children {
            self.edit_sub_namespace(name, &child, |seen| seen.terminating = true);
        }
    }
}

/// What the API server makes of a namespace to which Accurate's field manager applies these: what this manager has applied before
/// and does not apply again goes, unless others have set it too. For the other hierarchy, they are another manager's.
fn apply(seen: &mut NamespaceFact, labels: &Pairs, annotations: &Pairs) {
    type Keys = BTreeSet<Box<str>>;
    let applied = |pairs: &mut Labels, [foreign, keys, shared]: [&mut Keys; 3], wanted: &Pairs| {
        let stays = |key: &str| !keys.contains(key) || shared.contains(key);
        // Who sets another value takes the key from all others.
        let is_shared = |(key, value): &(&String, &String)| pairs.get(key) == Some(value) && stays(key);
        let now_shared = wanted.iter().filter(is_shared).map(|(key, _)| key.as_str().into()).collect();
        let kept = pairs.iter().filter(|(key, _)| stays(key) && !wanted.contains_key(*key));
        *pairs = kept.chain(wanted.iter().map(|(key, value)| (&**key, &**value))).collect();
        foreign.retain(|key| stays(key));
        *keys = wanted.keys().map(|key| key.as_str().into()).collect();
        *shared = now_shared;
        foreign.extend(keys.iter().cloned());
    };
    let NamespaceFact { foreign, applied: by_us, .. } = seen;
    let keys = [&mut foreign.labels, &mut by_us.labels, &mut by_us.shared_labels];
    applied(&mut seen.labels, keys, labels);
    let keys = [&mut foreign.annotations, &mut by_us.annotations, &mut by_us.shared_annotations];
    applied(&mut seen.annotations, keys, annotations);
}
