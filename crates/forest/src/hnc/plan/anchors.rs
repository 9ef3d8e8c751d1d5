//! The writes for the anchors in a namespace, and for their subnamespaces (sections 4.2 and 6.2 of docs/compatibility.md).

use super::{Action, HncAction};
use crate::core::name::PERMANENT;
use crate::core::tree::Id;
use crate::core::version::Version;
use crate::dialects::Forest;
use crate::hnc::anchor::AnchorState;
use crate::hnc::anchor::finalizers;
use crate::hnc::fact::AnchorFact;
use crate::hnc::keys::ANCHOR_FINALIZER;

/// The writes for anchors, in their order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// To the anchors themselves, before a child is created.
    pub(super) change: Vec<Action>,
    pub(super) create: Vec<Action>,
    pub(super) delete: Vec<Action>,
}

/// The writes that correct the anchors of this namespace.
pub(super) fn changes(forest: &Forest, id: Id) -> Changes {
    let mut changes = Changes::default();
    for anchor in forest.anchors(id).values() {
        if forest.is_managed(id) {
            changes.add(forest, id, anchor);
        } else {
            changes.change(anchor, false, None);
        }
    }
    changes
}

/// While the CRDs are being deleted, no namespace is deleted and no anchor keeps our finalizer.
pub(super) fn while_crds_are_deleted(forest: &Forest, id: Id) -> Vec<Action> {
    let mut changes = Changes::default();
    for anchor in forest.anchors(id).values() {
        changes.change(anchor, false, None);
    }
    changes.change
}

/// Whether a namespace that is being deleted has an anchor with work left: our finalizer is on it, or its subnamespace is not
/// being deleted yet.
pub(super) fn has_pending(forest: &Forest, id: Id) -> bool {
    let name = forest.name(id);
    forest.anchors(id).values().any(|anchor| {
        let child = subnamespace(forest, anchor, forest.anchor_state(name, &anchor.name));
        anchor.has_our_finalizer()
            || child.is_some_and(|(child, _)| forest.lasting_namespace(child).is_some())
    })
}

fn is_terminating(forest: &Forest, id: Id) -> bool {
    forest.namespace(id).is_some_and(|seen| seen.terminating)
}

/// Whether the subnamespace is deleted with its anchor. The rules refuse the deletion of the anchor of a namespace that Kubernetes never
/// deletes, but one that is deleted nevertheless must not wait forever.
fn takes_along(anchor: &AnchorFact) -> bool {
    anchor.has_our_finalizer() && !PERMANENT.contains(&&*anchor.name)
}

/// The subnamespace that the anchor stands for.
fn subnamespace(forest: &Forest, anchor: &AnchorFact, state: AnchorState) -> Option<(Id, Version)> {
    let child = forest.id(&anchor.name).filter(|_| state == AnchorState::Ok)?;
    Some((child, forest.namespace(child)?.version.get()))
}

impl Changes {
    fn add(&mut self, forest: &Forest, parent: Id, anchor: &AnchorFact) {
        let state = forest.shown_anchor_state(forest.name(parent), anchor);
        match state {
            AnchorState::Forbidden => self.change(anchor, false, Some(state)),
            _ if anchor.terminating => self.end(forest, parent, anchor, state),
            _ if is_terminating(forest, parent) => self.cascade(forest, parent, anchor, state),
            _ => {
                self.change(anchor, true, Some(state));
                // The namespace is deleted with its own anchor, so nothing is created below it.
                let stays = !forest.anchor_of(parent).is_some_and(|own| own.terminating);
                // Until the configuration is known, the limits of trees are not.
                let may_create =
                    forest.lasting_namespace(parent).is_some() && stays && forest.is_configured();
                if state == AnchorState::Missing && may_create {
                    let (child, initial_admin) = (anchor.name.clone(), anchor.initial_admin.clone());
                    // An anchor can be older than the deletion of its subnamespace. Its creator must not get rights in the
                    // namespaces that wait for the name. And where the anchor had to wait, the creator may have lost the right above.
                    let is_awaited = forest.id(&child).is_some_and(|id| !forest.downstream(id).is_empty());
                    let waited =
                        anchor.state.as_deref().is_some_and(|shown| shown != AnchorState::Missing.as_str());
                    let binds = forest.settings().initial_admin.is_some()
                        && !is_awaited
                        && !waited
                        && forest.halted_at(parent).is_none();
                    let initial_admin = initial_admin.filter(|_| binds);
                    self.create.push(HncAction::CreateSubnamespace { child, initial_admin }.into());
                }
            }
        }
    }

    /// If an anchor is being deleted, its subnamespace is deleted too, if it can be, and has no children or cascading deletion holds for it.
    /// The anchor then stays until the namespace is gone. Otherwise only the anchor is deleted.
    fn end(&mut self, forest: &Forest, parent: Id, anchor: &AnchorFact, state: AnchorState) {
        let Some((child, version)) = subnamespace(forest, anchor, state) else {
            return self.change(anchor, false, None);
        };
        if forest.lasting_namespace(child).is_none() {
            let done = is_terminating(forest, parent) && !has_pending(forest, child);
            return self.change(anchor, anchor.has_our_finalizer() && !done, None);
        }
        let may_go = forest.downstream(child).is_empty() || forest.allows_cascading_deletion(child);
        if may_go && takes_along(anchor) {
            self.delete(anchor, version);
        } else {
            self.change(anchor, false, None);
        }
    }

    /// The namespace of this anchor is being deleted, and the namespace controller will soon delete the anchor. If cascading
    /// deletion holds for the namespace, its subnamespaces are deleted now, and their anchors do not delay its deletion: a
    /// tree of any depth is deleted in the time of one namespace.
    fn cascade(&mut self, forest: &Forest, parent: Id, anchor: &AnchorFact, state: AnchorState) {
        match subnamespace(forest, anchor, state) {
            Some((child, version)) if forest.lasting_namespace(child).is_some() => {
                self.change(anchor, true, Some(state));
                if takes_along(anchor) && forest.allows_cascading_deletion(parent) {
                    self.delete(anchor, version);
                }
            }
            Some((child, _)) => self.change(anchor, has_pending(forest, child), Some(state)),
            None => self.change(anchor, false, Some(state)),
        }
    }

    fn delete(&mut self, anchor: &AnchorFact, version: Version) {
        let child = anchor.name.clone();
        self.delete.push(HncAction::DeleteSubnamespace { child, version }.into());
    }

    fn change(&mut self, anchor: &AnchorFact, held: bool, state: Option<AnchorState>) {
        let finalizers = finalizers(&anchor.finalizers, ANCHOR_FINALIZER, held);
        let state = state.filter(|state| !anchor.shows(*state));
        if finalizers.is_some() || state.is_some() {
            let (child, version) = (anchor.name.clone(), anchor.version.clone());
            self.change.push(HncAction::UpdateAnchor { child, version, finalizers, state }.into());
        }
    }
}
