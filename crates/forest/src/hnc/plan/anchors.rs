//! What should become of the anchors in a namespace, and of the subnamespaces they stand for (sections 4.2 and 6.2 of
//! docs/compatibility.md).

use super::Action;
use crate::anchor::finalizers;
use crate::keys::ANCHOR_FINALIZER;
use crate::tree::Id;
use crate::{AnchorFact, AnchorState, Forest};

/// The writes about anchors, by when they may be made.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// To the anchors themselves, before a child is created.
    pub(super) change: Vec<Action>,
    pub(super) create: Vec<Action>,
    pub(super) delete: Vec<Action>,
}

/// What must be written so that the anchors of this namespace are right.
pub(super) fn changes(forest: &Forest, id: Id) -> Changes {
    let node = forest.tree.node(id);
    let mut changes = Changes::default();
    for anchor in node.anchors().values() {
        if node.managed {
            changes.add(forest, id, anchor);
        } else {
            changes.change(anchor, false, None);
        }
    }
    changes
}

/// While the definitions go, no namespace is deleted and no anchor is held.
pub(super) fn farewell(forest: &Forest, id: Id) -> Vec<Action> {
    let mut changes = Changes::default();
    for anchor in forest.tree.node(id).anchors().values() {
        changes.change(anchor, false, None);
    }
    changes.change
}

impl Changes {
    fn add(&mut self, forest: &Forest, parent: Id, anchor: &AnchorFact) {
        let state = forest.shown_anchor_state(forest.tree.name(parent), anchor);
        match state {
            AnchorState::Forbidden => self.change(anchor, false, Some(state)),
            _ if anchor.terminating => self.end(forest, anchor, state),
            _ => {
                self.change(anchor, true, Some(state));
                let parent = forest.tree.node(parent);
                let stays = parent.namespace.as_ref().is_some_and(|seen| !seen.terminating);
                if state == AnchorState::Missing && stays {
                    let (child, initial_admin) = (anchor.name.clone(), anchor.initial_admin.clone());
                    let initial_admin = initial_admin.filter(|_| forest.settings().initial_admin.is_some());
                    self.create.push(Action::CreateSubnamespace { child, initial_admin });
                }
            }
        }
    }

    /// A deleted anchor takes its subnamespace along, if that is a leaf or may take its own along, and stays until the
    /// namespace is gone. Otherwise only the anchor goes.
    fn end(&mut self, forest: &Forest, anchor: &AnchorFact, state: AnchorState) {
        let child = forest.tree.id(&anchor.name).filter(|_| state == AnchorState::Ok);
        let Some((child, namespace)) =
            child.and_then(|id| Some((id, forest.tree.node(id).namespace.as_ref()?)))
        else {
            return self.change(anchor, false, None);
        };
        if namespace.terminating {
            return;
        }
        let may_go = forest.tree.children(child).is_empty() || forest.tree.allows_cascading_deletion(child);
        if may_go && anchor.is_held() {
            let (child, version) = (anchor.name.clone(), namespace.version.get());
            self.delete.push(Action::DeleteSubnamespace { child, version });
        } else {
            self.change(anchor, false, None);
        }
    }

    fn change(&mut self, anchor: &AnchorFact, held: bool, state: Option<AnchorState>) {
        let finalizers = finalizers(&anchor.finalizers, ANCHOR_FINALIZER, held);
        let state = state.filter(|state| !anchor.shows(*state));
        if finalizers.is_some() || state.is_some() {
            let (child, version) = (anchor.name.clone(), anchor.version.clone());
            self.change.push(Action::ChangeAnchor { child, version, finalizers, state });
        }
    }
}
