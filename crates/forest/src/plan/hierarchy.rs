//! What a namespace's `HierarchyConfiguration` should say (section 6.1 of HNC's contract).
//!
//! The status is ours, and so are parent, labels and annotations of a subnamespace and one finalizer. Everything else in
//! the object is its owner's.

use super::conditions::conditions;
use super::{Action, SubnamespaceSpec};
use crate::anchor::finalizers;
use crate::fact::{AnchorFact, HierarchyFact};
use crate::keys::HIERARCHY_FINALIZER;
use crate::tree::{Id, Node};
use crate::{Condition, Forest, HierarchyStatus, Reason};

/// The write that makes the object right, if it is not. One is created only when there is something to say, and not in a
/// namespace that is going away.
pub(super) fn report(forest: &Forest, id: Id) -> Option<Action> {
    let node = forest.tree.node(id);
    let namespace = node.namespace.as_ref()?;
    let shown = node.hierarchy.as_deref();
    let status = status(forest, id, shown.map_or(&[], |seen| &seen.status.conditions));
    let spec = spec(forest, id, node, shown);
    let Some(seen) = shown else {
        let held = node.managed && !node.anchors.is_empty();
        let needed = held || spec.is_some() || !status.is_empty();
        return (needed && !namespace.terminating).then_some(Action::CreateHierarchy { spec, held, status });
    };
    // Somebody deletes the object and not its namespace: it may go, and a new one comes if one is needed.
    let let_go = seen.terminating && !namespace.terminating;
    let held = node.managed && !node.anchors.is_empty() && !let_go;
    change(seen, spec.filter(|_| !seen.terminating), held, Some(status).filter(|it| *it != seen.status))
}

fn change(
    seen: &HierarchyFact,
    spec: Option<SubnamespaceSpec>,
    held: bool,
    status: Option<HierarchyStatus>,
) -> Option<Action> {
    let finalizers = finalizers(&seen.finalizers, HIERARCHY_FINALIZER, held);
    let needed = spec.is_some() || finalizers.is_some() || status.is_some();
    needed.then(|| Action::ChangeHierarchy { version: seen.version.clone(), spec, finalizers, status })
}

/// A subnamespace's parent is what its annotation says, and its labels and annotations are its anchor's.
fn spec(forest: &Forest, id: Id, node: &Node, shown: Option<&HierarchyFact>) -> Option<SubnamespaceSpec> {
    let parent = node.subnamespace_of()?;
    let anchor = forest.anchor_of(id);
    let right = shown.is_some_and(|seen| {
        let says =
            |anchor: &AnchorFact| seen.labels == anchor.labels && seen.annotations == anchor.annotations;
        seen.parent.as_deref() == Some(parent) && anchor.is_none_or(says)
    });
    (!right).then(|| SubnamespaceSpec {
        parent: parent.into(),
        from_anchor: anchor.map(|anchor| (anchor.labels.clone(), anchor.annotations.clone())),
    })
}

fn status(forest: &Forest, id: Id, shown: &[Condition]) -> HierarchyStatus {
    if !forest.tree.node(id).exists() {
        return HierarchyStatus::default();
    }
    let children = forest.tree.children(id).iter().map(|child| forest.tree.name(*child).clone()).collect();
    let conditions = conditions(forest, id).into_iter().map(|it| it.since_shown(shown)).collect();
    HierarchyStatus { children, conditions }
}

/// While the definitions go: an object that is being deleted is let go, any other says what is happening.
pub(super) fn farewell(forest: &Forest, id: Id) -> Option<Action> {
    let seen = forest.tree.node(id).hierarchy.as_deref()?;
    if seen.terminating {
        return change(seen, None, false, None);
    }
    let condition = Condition::new(
        Reason::DeletingCRD,
        "The definitions of hnc.x-k8s.io are being deleted; nothing is propagated any more",
    );
    let conditions = vec![condition.since_shown(&seen.status.conditions)];
    let status = HierarchyStatus { children: seen.status.children.clone(), conditions };
    let held = seen.finalizers.iter().any(|it| **it == *HIERARCHY_FINALIZER);
    change(seen, None, held, Some(status).filter(|it| *it != seen.status))
}
