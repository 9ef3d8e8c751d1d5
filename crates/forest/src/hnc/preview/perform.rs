//! The writes of a preview: the effects of the requests of our controller and of the namespace controller, as facts.
//!
//! The ledger notes every write before it is made. Preconditions on versions are not checked: there is no other writer.

use std::collections::BTreeMap;

use serde_json::json;

use super::Preview;
use crate::core::content::Canonical;
use crate::core::kind::{Kind, ObjectKey};
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::namespace::NamespaceFact;
use crate::core::object::{KnownContent, ObjectFact};
use crate::core::version::Version;
use crate::dialects::Fact;
use crate::hnc;
use crate::hnc::fact::{AnchorFact, HierarchyFact, HierarchyStatus};
use crate::hnc::keys::{
    HIERARCHY_FINALIZER, INCLUDED, INITIAL_ADMIN, INITIAL_ADMIN_BINDING, SUBNAMESPACE_OF,
};
use crate::hnc::plan::{Action, CopyContent, Edit, HncAction, SubnamespaceSpec};
use crate::hnc::quota::{DerivedQuotaFact, QuotaFact};

/// The label that the API server sets on every namespace: its name.
const METADATA_NAME: &str = "kubernetes.io/metadata.name";

impl Preview {
    /// A version of no real object; it does not count as older than any other.
    fn new_version(&mut self) -> Version {
        self.clock += 1;
        Version { uid: format!("planned-{}", self.clock).into(), ..self.next_version(Box::default()) }
    }

    fn next_version(&mut self, uid: Box<str>) -> Version {
        self.clock += 1;
        Version { uid, resource_version: format!("planned-{}", self.clock).into() }
    }

    /// Makes a planned write in `namespace`.
    pub(super) fn perform(&mut self, namespace: &Name, action: &Action) {
        match action {
            Action::PatchNamespace { labels, annotations, .. } => self.edit_namespace(namespace, |seen| {
                seen.foreign.labels.retain(|key| !labels.set.contains_key(&**key));
                seen.foreign.annotations.retain(|key| !annotations.set.contains_key(&**key));
                seen.labels = edited(&seen.labels, labels);
                seen.annotations = edited(&seen.annotations, annotations);
            }),
            Action::Dialect(own) => self.perform_own(namespace, own),
            Action::CreateCopy { key, source, content }
            | Action::ReplaceCopy { key, source, content, .. } => {
                self.copy(namespace, key, source, content);
            }
            Action::DeleteCopy { key, .. } => self.delete_object(namespace, key),
        }
    }

    fn perform_own(&mut self, namespace: &Name, action: &HncAction) {
        match action {
            HncAction::CreateHierarchy { spec, with_finalizer, status } => {
                let finalizers = with_finalizer.then(|| vec![HIERARCHY_FINALIZER.into()]);
                self.edit_hierarchy(namespace, |seen| write(seen, spec.as_ref(), finalizers, Some(status)));
            }
            HncAction::UpdateHierarchy { spec, finalizers, status, .. } => {
                let finalizers = finalizers.clone();
                self.edit_hierarchy(namespace, |seen| {
                    write(seen, spec.as_ref(), finalizers, status.as_ref());
                });
            }
            HncAction::UpdateAnchor { child, finalizers, state, .. } => {
                self.edit_anchor(namespace, child, |seen| {
                    seen.finalizers = finalizers.clone().unwrap_or(std::mem::take(&mut seen.finalizers));
                    seen.state = state.map(|it| it.as_str().into()).or(seen.state.take());
                });
            }
            HncAction::CreateSubnamespace { child, initial_admin } => {
                self.create_subnamespace(namespace, child, initial_admin.as_deref());
            }
            HncAction::BindInitialAdmin { user, cluster_role } => self.bind(namespace, user, cluster_role),
            HncAction::DeleteSubnamespace { child, version } => {
                let known = self.forest.namespace_version(child);
                if known.is_some_and(|known| known.uid == version.uid) {
                    self.terminate(child);
                }
            }
            HncAction::WriteDerivedQuota { .. }
            | HncAction::DeleteDerivedQuota { .. }
            | HncAction::FreeDerivedQuota { .. }
            | HncAction::UpdateQuotaStatus { .. } => self.perform_on_quotas(namespace, action),
        }
    }

    /// Written limits count as in force: the quota controller takes them up before all is settled.
    fn perform_on_quotas(&mut self, namespace: &Name, action: &HncAction) {
        let known = self.forest.id(namespace).and_then(|id| self.forest.derived_quota(id)).cloned();
        match action {
            HncAction::WriteDerivedQuota { hard, sources, limits, .. } => {
                let version = match &known {
                    Some(known) => self.next_version(known.version.uid.clone()),
                    None => self.new_version(),
                };
                let fact = DerivedQuotaFact {
                    version,
                    hard: hard.clone(),
                    hard_in_force: hard.clone(),
                    sources: sources.clone(),
                    limits: limits.clone(),
                    is_marked: true,
                    ..known.unwrap_or_default()
                };
                self.tell(Fact::Hnc(hnc::Fact::DerivedQuotaWritten(namespace.clone(), fact)));
            }
            HncAction::DeleteDerivedQuota { version } | HncAction::FreeDerivedQuota { version } => {
                let uid = version.uid.clone();
                self.tell(Fact::Hnc(hnc::Fact::DerivedQuotaGone(namespace.clone(), uid, 0)));
            }
            HncAction::UpdateQuotaStatus { name, version, status, .. } => {
                let quota = self
                    .forest
                    .id(namespace)
                    .and_then(|id| self.forest.quotas_at(id).find(|it| it.name == *name));
                let Some(quota) = quota.cloned() else { return };
                self.ledger.quota(&self.forest, namespace, name);
                let version = self.next_version(version.uid.clone());
                let fact = QuotaFact { version, status: status.clone(), ..quota };
                self.tell(Fact::Hnc(hnc::Fact::Quota(namespace.clone(), fact)));
            }
            _ => {}
        }
    }

    /// Deletes a namespace, which ends as soon as it is empty.
    pub(super) fn terminate(&mut self, name: &Name) {
        self.edit_namespace(name, |seen| seen.terminating = true);
        self.terminating.insert(name.clone());
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
    }

    fn remove_if_empty(&mut self, name: &Name) {
        let Some(id) = self.forest.id(name) else { return };
        if self.forest.hierarchy(id).is_some() || !self.forest.anchors(id).is_empty() {
            return;
        }
        let Some(uid) = self.forest.namespace(id).map(|seen| seen.version.uid()) else { return };
        self.ledger.namespace(&self.forest, name);
        self.clock += 1;
        self.terminating.remove(name);
        self.tell(Fact::NamespaceGone(name.clone(), uid));
    }

    /// Changes an existing namespace.
    pub(super) fn edit_namespace(&mut self, name: &Name, edit: impl FnOnce(&mut NamespaceFact)) {
        let seen =
            self.forest.id(name).and_then(|id| Some((self.forest.namespace(id)?, self.forest.labels(id)?)));
        let Some((seen, labels)) = seen else { return };
        let mut fact = NamespaceFact {
            name: name.clone(),
            version: seen.version.get(),
            labels: labels.all(),
            annotations: seen.annotations.clone(),
            foreign: seen.foreign().clone(),
            terminating: seen.terminating,
            ..NamespaceFact::default()
        };
        fact.version = self.next_version(fact.version.uid);
        edit(&mut fact);
        self.ledger.namespace(&self.forest, name);
        self.tell(Fact::Namespace(fact));
    }

    /// Changes a `HierarchyConfiguration`, or creates one. An object that is deleted and has no finalizer is removed.
    pub(super) fn edit_hierarchy(&mut self, namespace: &Name, edit: impl FnOnce(&mut HierarchyFact)) {
        let known = self.forest.hierarchy_fact(namespace);
        let mut fact = known.unwrap_or_default();
        fact.version = if fact.version.uid.is_empty() {
            self.new_version()
        } else {
            self.next_version(fact.version.uid)
        };
        edit(&mut fact);
        self.ledger.namespace(&self.forest, namespace);
        if fact.terminating && fact.finalizers.is_empty() {
            self.tell(Fact::Hnc(hnc::Fact::HierarchyGone(namespace.clone(), fact.version.uid)));
        } else {
            self.tell(Fact::Hnc(hnc::Fact::Hierarchy(namespace.clone(), fact)));
        }
    }

    /// Changes an anchor, or creates one. An object that is deleted and has no finalizer is removed.
    pub(super) fn edit_anchor(&mut self, parent: &Name, child: &Name, edit: impl FnOnce(&mut AnchorFact)) {
        let anchors = self.forest.id(parent).map(|id| self.forest.anchors(id));
        let known = anchors.and_then(|anchors| anchors.get(child)).cloned();
        let mut fact = known.unwrap_or_else(|| AnchorFact { name: child.clone(), ..AnchorFact::default() });
        fact.version = if fact.version.uid.is_empty() {
            self.new_version()
        } else {
            self.next_version(fact.version.uid)
        };
        edit(&mut fact);
        self.ledger.anchor(&self.forest, parent, child);
        if fact.terminating && fact.finalizers.is_empty() {
            self.tell(Fact::Hnc(hnc::Fact::AnchorGone(parent.clone(), child.clone(), fact.version.uid)));
        } else {
            self.tell(Fact::Hnc(hnc::Fact::Anchor(parent.clone(), fact)));
        }
    }

    fn create_subnamespace(&mut self, parent: &Name, child: &Name, initial_admin: Option<&str>) {
        if self.forest.namespace_version(child).is_some() {
            return;
        }
        let mut annotations = vec![(SUBNAMESPACE_OF, &**parent)];
        annotations.extend(initial_admin.map(|user| (INITIAL_ADMIN, user)));
        let fact = NamespaceFact {
            name: child.clone(),
            version: self.new_version(),
            labels: [(INCLUDED, "true"), (METADATA_NAME, &**child)].into_iter().collect(),
            annotations: annotations.into_iter().collect(),
            ..NamespaceFact::default()
        };
        self.ledger.namespace(&self.forest, child);
        self.tell(Fact::Namespace(fact));
    }

    fn copy(&mut self, namespace: &Name, key: &ObjectKey, source: &Name, content: &CopyContent) {
        let known = self.forest.object_version(namespace, key).map(|known| known.uid);
        let version = match known {
            Some(uid) => self.next_version(uid),
            None => self.new_version(),
        };
        let content = KnownContent {
            digest: content.digest(),
            body_digest: content.0.body_digest(),
            canonical: Some(content.0.clone()),
            in_force: true,
        };
        self.put(
            namespace,
            key,
            ObjectFact {
                inherited_from: Some(source.clone()),
                content: Some(content),
                ..object(namespace, key, version)
            },
        );
    }

    /// An existing binding of this name counts as success.
    fn bind(&mut self, namespace: &Name, user: &str, cluster_role: &str) {
        let kind = Kind::role_binding();
        let Some(kind) = self.forest.kind_named(&kind.group, &kind.kind) else { return };
        let key = ObjectKey { kind, name: format!("{INITIAL_ADMIN_BINDING}{namespace}").into() };
        if self.forest.object_version(namespace, &key).is_some() {
            return;
        }
        let body = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        });
        let body = body.as_object().cloned().unwrap_or_default();
        let content = Canonical::new(BTreeMap::new(), BTreeMap::new(), body).as_copy();
        let version = self.new_version();
        let fact = object(namespace, &key, version);
        self.put(namespace, &key, ObjectFact { content: Some(KnownContent::whole(content)), ..fact });
    }

    fn put(&mut self, namespace: &Name, key: &ObjectKey, fact: ObjectFact) {
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

fn object(namespace: &Name, key: &ObjectKey, version: Version) -> ObjectFact {
    ObjectFact::new(namespace.clone(), key.name.clone(), version)
}

fn edited(pairs: &Labels, edit: &Edit) -> Labels {
    let kept = pairs.iter().filter(|(key, _)| !edit.remove.contains(*key) && !edit.set.contains_key(*key));
    kept.chain(edit.set.iter().map(|(key, value)| (key.as_str(), value.as_str()))).collect()
}

fn write(
    seen: &mut HierarchyFact,
    spec: Option<&SubnamespaceSpec>,
    finalizers: Option<Vec<Box<str>>>,
    status: Option<&HierarchyStatus>,
) {
    if let Some(SubnamespaceSpec { parent, from_anchor }) = spec {
        seen.parent = Some(parent.clone());
        if let Some((labels, annotations)) = from_anchor {
            (seen.labels, seen.annotations) = (labels.clone(), annotations.clone());
        }
    }
    seen.finalizers = finalizers.unwrap_or(std::mem::take(&mut seen.finalizers));
    if let Some(status) = status {
        seen.status = status.clone();
    }
}
