//! The writes of a preview: the effects of the requests of our controller and of the namespace controller, as facts.
//!
//! The ledger notes every write before it is made. Preconditions on versions are not checked: there is no other writer.

use super::Preview;
use crate::core::change::Scope;
use crate::core::kind::ObjectKey;
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::namespace::NamespaceFact;
use crate::core::object::{KnownContent, ObjectFact};
use crate::core::plan::{Action, CopyContent, Edit, Plan};
use crate::core::version::Version;
use crate::dialects::{Fact, Forest};

/// The label that the API server sets on every namespace: its name.
const METADATA_NAME: &str = "kubernetes.io/metadata.name";

/// What a preview must know of a dialect: its plans, and the effects of its own writes.
pub(super) trait Dialect: Sized {
    /// The writes that a namespace needs.
    fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan<Self>;

    /// Makes a write of the dialect's own.
    fn perform(&self, preview: &mut Preview, namespace: &Name);

    /// A copy of an object in the namespace `source`, with the dialect's marks.
    fn marked(forest: &Forest, key: &ObjectKey, copy: ObjectFact, source: &Name) -> ObjectFact;
}

impl Preview {
    /// A version of no real object; it does not count as older than any other.
    pub(super) fn new_version(&mut self) -> Version {
        self.clock += 1;
        Version { uid: format!("planned-{}", self.clock).into(), ..self.next_version(Box::default()) }
    }

    pub(super) fn next_version(&mut self, uid: Box<str>) -> Version {
        self.clock += 1;
        Version { uid, resource_version: format!("planned-{}", self.clock).into() }
    }

    /// The version of an object after a write; of a new object, if there was none.
    pub(super) fn version_after(&mut self, known: Version) -> Version {
        if known.uid.is_empty() { self.new_version() } else { self.next_version(known.uid) }
    }

    /// Makes a planned write in `namespace`.
    pub(super) fn perform<D: Dialect>(&mut self, namespace: &Name, action: &Action<D>) {
        match action {
            Action::PatchNamespace { labels, annotations, .. } => self.edit_namespace(namespace, |seen| {
                seen.foreign.labels.retain(|key| !labels.set.contains_key(&**key));
                seen.foreign.annotations.retain(|key| !annotations.set.contains_key(&**key));
                seen.labels = edited(&seen.labels, labels);
                seen.annotations = edited(&seen.annotations, annotations);
            }),
            Action::Dialect(own) => own.perform(self, namespace),
            Action::CreateCopy { key, source, content }
            | Action::ReplaceCopy { key, source, content, .. } => {
                self.copy::<D>(namespace, key, source, content);
            }
            Action::DeleteCopy { key, .. } => self.delete_object(namespace, key),
        }
    }

    /// Deletes a namespace, which ends as soon as it is empty.
    pub(super) fn terminate(&mut self, name: &Name) {
        self.edit_namespace(name, |seen| seen.terminating = true);
        self.terminating.insert(name.clone());
    }

    /// The same, if it is still this namespace, and not kept.
    pub(super) fn delete_namespace(&mut self, name: &Name, version: &Version) {
        let is_it = self.forest.namespace_version(name).is_some_and(|known| known.uid == version.uid);
        if is_it && !self.kept.contains(name) {
            self.terminate(name);
        }
    }

    /// Creates a namespace, unless one of this name exists.
    pub(super) fn create_namespace(&mut self, mut fact: NamespaceFact) {
        if self.forest.namespace_version(&fact.name).is_some() {
            return;
        }
        fact.version = self.new_version();
        fact.labels = fact.labels.iter().chain([(METADATA_NAME, &*fact.name)]).collect();
        self.ledger.namespace(&self.forest, &fact.name);
        self.tell(Fact::Namespace(fact));
    }

    /// A turn of the namespace controller: in every namespace that is being deleted, deletes the objects and, when all deletions
    /// are observed, the namespace. Returns whether there was anything to do.
    pub(super) fn clean_up(&mut self) -> bool {
        let before = self.clock;
        let terminating: Vec<Name> = self.terminating.iter().cloned().collect();
        for name in &terminating {
            self.empty(name);
        }
        if self.clock == before {
            for name in &terminating {
                self.remove_if_empty(name);
            }
        }
        self.clock > before
    }

    fn empty(&mut self, name: &Name) {
        let keys: Vec<ObjectKey> = self.forest.objects_in(name).cloned().collect();
        for key in &keys {
            self.delete_object(name, key);
        }
        let Some(id) = self.forest.id(name) else { return };
        let anchors: Vec<Name> =
            self.forest.anchors(id).values().filter(|it| !it.terminating).map(|it| it.name.clone()).collect();
        let has_hierarchy = self.forest.hierarchy(id).is_some_and(|seen| !seen.terminating);
        for child in anchors {
            self.edit_anchor(name, &child, |seen| seen.terminating = true);
        }
        if has_hierarchy {
            self.edit_hierarchy(name, |seen| seen.terminating = true);
        }
        self.empty_of_sub_namespaces(name);
    }

    fn remove_if_empty(&mut self, name: &Name) {
        let Some(id) = self.forest.id(name) else { return };
        let has_own = self.forest.hierarchy(id).is_some()
            || !self.forest.anchors(id).is_empty()
            || !self.forest.accurate().sub_namespaces(id).is_empty();
        if has_own {
            return;
        }
        let Some(uid) = self.forest.namespace(id).map(|seen| seen.version.uid()) else { return };
        self.ledger.namespace(&self.forest, name);
        self.clock += 1;
        self.terminating.remove(name);
        self.remove_quotas(name);
        self.tell(Fact::NamespaceGone(name.clone(), uid));
    }

    /// Changes an existing namespace.
    pub(super) fn edit_namespace(&mut self, name: &Name, edit: impl FnOnce(&mut NamespaceFact)) {
        let Some(id) = self.forest.id(name) else { return };
        let (Some(seen), Some(labels)) = (self.forest.namespace(id), self.forest.labels(id)) else { return };
        let mut fact = NamespaceFact {
            name: name.clone(),
            version: seen.version.get(),
            labels: labels.all(),
            annotations: seen.annotations.clone(),
            foreign: seen.foreign().clone(),
            applied: self.forest.accurate().applied(id).cloned().unwrap_or_default(),
            terminating: seen.terminating,
        };
        fact.version = self.next_version(fact.version.uid);
        edit(&mut fact);
        self.ledger.namespace(&self.forest, name);
        self.tell(Fact::Namespace(fact));
    }

    fn copy<D: Dialect>(&mut self, namespace: &Name, key: &ObjectKey, source: &Name, content: &CopyContent) {
        let known = self.forest.object_version(namespace, key).unwrap_or_default();
        let content = KnownContent {
            digest: content.digest(),
            body_digest: content.0.body_digest(),
            canonical: Some(content.0.clone()),
            in_force: true,
        };
        let version = self.version_after(known);
        let copy = ObjectFact {
            content: Some(content),
            ..ObjectFact::new(namespace.clone(), key.name.clone(), version)
        };
        let copy = D::marked(&self.forest, key, copy, source);
        self.put(namespace, key, copy);
    }

    pub(super) fn put(&mut self, namespace: &Name, key: &ObjectKey, fact: ObjectFact) {
        self.ledger.object(&self.forest, namespace, key);
        self.tell(Fact::Object(key.kind, fact));
    }

    fn delete_object(&mut self, namespace: &Name, key: &ObjectKey) {
        let known = self.forest.object_version(namespace, key).map(|known| known.uid);
        let Some(uid) = known else { return };
        self.clock += 1;
        self.ledger.object(&self.forest, namespace, key);
        self.tell(Fact::ObjectGone(key.kind, namespace.clone(), key.name.clone(), uid));
    }
}

fn edited(pairs: &Labels, edit: &Edit) -> Labels {
    let kept = pairs.iter().filter(|(key, _)| !edit.remove.contains(*key) && !edit.set.contains_key(*key));
    kept.chain(edit.set.iter().map(|(key, value)| (key.as_str(), value.as_str()))).collect()
}
