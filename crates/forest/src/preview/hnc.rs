//! The writes of HNC's plans in a preview.

use std::collections::BTreeMap;

use serde_json::json;

use super::Preview;
use super::perform::Dialect;
use crate::core::change::Scope;
use crate::core::content::Canonical;
use crate::core::kind::{Kind, ObjectKey};
use crate::core::name::Name;
use crate::core::namespace::NamespaceFact;
use crate::core::object::{KnownContent, ObjectFact};
use crate::dialects::{Fact, Forest};
use crate::hnc;
use crate::hnc::fact::{AnchorFact, HierarchyFact, HierarchyStatus};
use crate::hnc::keys::{
    HIERARCHY_FINALIZER, INCLUDED, INITIAL_ADMIN, INITIAL_ADMIN_BINDING, SUBNAMESPACE_OF,
};
use crate::hnc::plan::{HncAction, Plan, SubnamespaceSpec, plan};
use crate::hnc::quota::{DerivedQuotaFact, QuotaFact};

impl Dialect for HncAction {
    fn plan(forest: &Forest, namespace: &str, scope: &Scope) -> Plan {
        plan(forest, namespace, scope)
    }

    fn perform(&self, preview: &mut Preview, namespace: &Name) {
        preview.perform_hnc(namespace, self);
    }

    fn marked(_: &Forest, _: &ObjectKey, copy: ObjectFact, source: &Name) -> ObjectFact {
        ObjectFact { inherited_from: Some(source.clone()), ..copy }
    }
}

impl Preview {
    fn perform_hnc(&mut self, namespace: &Name, action: &HncAction) {
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
                self.delete_namespace(child, version);
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

    /// Changes a `HierarchyConfiguration`, or creates one. An object that is deleted and has no finalizer is removed.
    pub(super) fn edit_hierarchy(&mut self, namespace: &Name, edit: impl FnOnce(&mut HierarchyFact)) {
        let known = self.forest.hierarchy_fact(namespace);
        let mut fact = known.unwrap_or_default();
        fact.version = self.version_after(fact.version);
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
        fact.version = self.version_after(fact.version);
        edit(&mut fact);
        self.ledger.anchor(&self.forest, parent, child);
        if fact.terminating && fact.finalizers.is_empty() {
            self.tell(Fact::Hnc(hnc::Fact::AnchorGone(parent.clone(), child.clone(), fact.version.uid)));
        } else {
            self.tell(Fact::Hnc(hnc::Fact::Anchor(parent.clone(), fact)));
        }
    }

    /// Removes the hierarchical quotas in a namespace.
    pub(super) fn remove_quotas(&mut self, namespace: &Name) {
        let quotas = self.forest.id(namespace).into_iter().flat_map(|id| self.forest.quotas_at(id));
        let quotas: Vec<_> = quotas.map(|it| (it.name.clone(), it.version.uid.clone())).collect();
        for (name, uid) in quotas {
            self.tell(hnc::Fact::QuotaGone(namespace.clone(), name, uid));
        }
    }

    fn create_subnamespace(&mut self, parent: &Name, child: &Name, initial_admin: Option<&str>) {
        let mut annotations = vec![(SUBNAMESPACE_OF, &**parent)];
        annotations.extend(initial_admin.map(|user| (INITIAL_ADMIN, user)));
        self.create_namespace(NamespaceFact {
            name: child.clone(),
            labels: [(INCLUDED, "true")].into_iter().collect(),
            annotations: annotations.into_iter().collect(),
            ..NamespaceFact::default()
        });
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
        let fact = ObjectFact::new(namespace.clone(), key.name.clone(), version);
        self.put(namespace, &key, ObjectFact { content: Some(KnownContent::whole(content)), ..fact });
    }
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
