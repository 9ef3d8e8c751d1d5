//! What HNC's rules and plans read of a forest, beside its store.

use std::sync::Arc;

use super::anchor::AnchorState;
use super::condition::Condition;
use super::fact::HierarchyFact;
use super::hierarchy::Hierarchy;
use super::keys::TREE_LABEL;
use super::settings::Settings;
use super::state::{Anchors, is_external, subnamespace_of};
use crate::core::kind::{KindId, OnConflict};
use crate::core::name::{Name, PERMANENT};
use crate::core::tree::{Ancestry, Id};
use crate::core::version::Version;
use crate::dialects::Forest;

/// By name.
impl Forest {
    /// The settings of the operator.
    pub fn settings(&self) -> &Settings {
        self.hnc().settings()
    }

    /// The same, shared.
    pub fn shared_settings(&self) -> Arc<Settings> {
        self.hnc().settings().clone()
    }

    /// Whether it is unclear if objects were deleted by users or with their CRD. Until the CRDs are read, nothing may be planned.
    pub fn is_in_doubt(&self) -> bool {
        self.hnc().is_in_doubt()
    }

    /// Whether the CRDs are being deleted, so that nothing may be concluded from missing objects.
    pub fn crds_are_being_deleted(&self) -> bool {
        self.hnc().crds_are_being_deleted()
    }

    /// Whether `name` is a subnamespace: its annotation names its parent.
    pub fn is_subnamespace(&self, name: &str) -> bool {
        self.id(name).is_some_and(|id| self.subnamespace_of(id).is_some())
    }

    /// The known version of its `HierarchyConfiguration`.
    pub fn hierarchy_version(&self, name: &str) -> Option<Version> {
        Some(self.hierarchy(self.id(name)?)?.version.get())
    }

    /// The known version of an anchor.
    pub fn anchor_version(&self, parent: &str, child: &str) -> Option<Version> {
        Some(self.anchors(self.id(parent)?).get(child)?.version.clone())
    }

    /// Whether the tree labels of a namespace name its parent in force. They tell where it belongs when its `HierarchyConfiguration` is
    /// gone.
    pub(crate) fn shows_its_parent(&self, id: Id) -> bool {
        self.tree.upstream(id).is_none_or(|parent| {
            let key = format!("{}{TREE_LABEL}", self.name(parent));
            self.labels(id).and_then(|labels| labels.get(&key)) == Some("1")
        })
    }

    /// Whether `parent` holds an anchor of this name.
    pub fn has_anchor(&self, parent: &str, child: &str) -> bool {
        self.id(parent).is_some_and(|id| self.anchors(id).contains_key(child))
    }

    /// The conditions in the status of all managed namespaces, as last written.
    pub fn shown_conditions(&self) -> impl Iterator<Item = &Condition> {
        self.conditions_by_namespace().flat_map(|(_, conditions)| conditions)
    }

    /// The same by namespace; namespaces without conditions are left out.
    pub fn conditions_by_namespace(&self) -> impl Iterator<Item = (&Name, &[Condition])> {
        let shown = self.hnc().conditioned().filter(|id| self.is_existing(*id));
        shown.filter_map(|id| Some((self.name(id), self.hierarchy(id)?.conditions())))
    }

    /// The conditions in the status of a namespace, as last written.
    pub fn conditions_shown(&self, namespace: &str) -> &[Condition] {
        let seen = self.id(namespace).and_then(|id| self.hierarchy(id));
        seen.map_or(&[], |seen| seen.conditions())
    }

    /// How conflicts of a kind are treated.
    pub fn on_conflict(&self, id: KindId) -> OnConflict {
        self.kind_settings(id).map(|kind| self.settings().on_conflict(kind)).unwrap_or_default()
    }

    /// The ancestry of a subnamespace with children whose anchor is being deleted, and whether cascading deletion is allowed for it.
    /// If it is not, the anchor leaves it behind.
    pub fn fate_without_anchor(&self, parent: &str, child: &str) -> Option<(Vec<Name>, bool)> {
        let (above, id) = (self.id(parent)?, self.id(child)?);
        let anchor = self.anchors(above).get(child)?;
        let ends = anchor.terminating
            && self.lasting_namespace(above).is_some()
            && self.lasting_namespace(id).is_some()
            && self.anchor_state(self.name(above), &anchor.name) == AnchorState::Ok
            && !self.downstream(id).is_empty()
            && !PERMANENT.contains(&child)
            && !self.crds_are_being_deleted();
        ends.then(|| (self.ancestry(child), self.allows_cascading_deletion(id)))
    }

    /// The `HierarchyConfiguration` of a namespace, as a fact.
    pub(crate) fn hierarchy_fact(&self, name: &str) -> Option<HierarchyFact> {
        Some(self.hierarchy(self.id(name)?)?.fact(self))
    }
}

/// By id.
impl Forest {
    pub(crate) fn hierarchy(&self, id: Id) -> Option<&Hierarchy> {
        self.hnc().hierarchy(id)
    }

    /// The anchors in a namespace, by the name of the child.
    pub(crate) fn anchors(&self, id: Id) -> &Anchors {
        self.hnc().anchors(id)
    }

    /// Whether another tool manages the place of this namespace.
    pub(crate) fn is_external(&self, id: Id) -> bool {
        is_external(self, id)
    }

    /// The parent of a subnamespace.
    pub(crate) fn subnamespace_of(&self, id: Id) -> Option<&str> {
        subnamespace_of(self, id)
    }

    /// The subnamespaces below that keep this namespace from being deleted: none if cascading deletion is allowed.
    pub(crate) fn obstructing_subnamespaces(&self, id: Id) -> Vec<&Name> {
        let below = self.downstream(id).iter().filter(|child| self.subnamespace_of(**child).is_some());
        let names: Vec<&Name> = below.map(|child| self.name(*child)).collect();
        if names.is_empty() || self.allows_cascading_deletion(id) { Vec::new() } else { names }
    }

    /// Whether deleting this namespace may delete the subnamespaces below: it or an ancestor allows it. In a cycle only the
    /// namespace itself counts.
    pub(crate) fn allows_cascading_deletion(&self, id: Id) -> bool {
        let allows = |id: &Id| self.hierarchy(*id).is_some_and(|seen| seen.allow_cascading_deletion);
        let Ancestry { path, repeats_at } = self.ancestry_of(id);
        let counting = if repeats_at == Some(0) { &path[..1] } else { &path[..] };
        counting.iter().any(allows)
    }
}
