//! The desired `HierarchyConfiguration` of a namespace (section 6.1 of docs/compatibility.md).
//!
//! The controller writes the status, one finalizer, and the parent, labels and annotations of a subnamespace. Users own the rest of
//! the object.

use super::conditions::conditions;
use super::{Action, HncAction, SubnamespaceSpec, anchors};
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::anchor::finalizers;
use crate::hnc::condition::{Condition, Reason};
use crate::hnc::fact::AnchorFact;
use crate::hnc::fact::HierarchyStatus;
use crate::hnc::hierarchy::Hierarchy;
use crate::hnc::keys::HIERARCHY_FINALIZER;

/// The write that corrects the object, if it needs one. An object is created only if it has content, and not in a namespace that
/// is being deleted.
pub(super) fn report(forest: &Forest, id: Id) -> Option<Action> {
    let namespace = forest.namespace(id)?;
    let shown = forest.hierarchy(id);
    let has_anchors = forest.is_managed(id) && !forest.anchors(id).is_empty();
    let mut conditions = wanted_conditions(forest, id, shown.map_or(&[], |seen| seen.conditions()));
    let children = if forest.is_existing(id) { forest.downstream(id) } else { &[] };
    let spec = spec(forest, id, shown);
    let Some(seen) = shown else {
        let with_finalizer = has_anchors;
        let is_urgent = with_finalizer || spec.is_some();
        if is_urgent {
            leave_out_what_may_pass(&mut conditions, &[]);
        }
        let status = status(forest, children, conditions);
        let needed = is_urgent || !status.is_empty();
        return (needed && !namespace.terminating)
            .then_some(HncAction::CreateHierarchy { spec, with_finalizer, status }.into());
    };
    // While the namespace is being deleted, the object stays until its anchors are deleted. If a user deletes only the object, a
    // new one is created if needed.
    let with_finalizer = if namespace.terminating {
        has_anchors && anchors::has_pending(forest, id)
    } else {
        has_anchors && !seen.terminating
    };
    let spec = spec.filter(|_| !seen.terminating);
    let finalizers = finalizers(seen.finalizers(), HIERARCHY_FINALIZER, with_finalizer);
    if spec.is_some() || finalizers.is_some() {
        leave_out_what_may_pass(&mut conditions, seen.conditions());
    }
    let is_shown = seen.shows(children, &conditions);
    let status = (!is_shown).then(|| status(forest, children, conditions));
    change(seen, spec, finalizers, status)
}

/// A quota is usually in force after a moment, so its condition is shown later, and the initial admin is given up only then. A write
/// that cannot wait does not show it.
fn leave_out_what_may_pass(conditions: &mut Vec<Condition>, shown: &[Condition]) {
    let waits = |it: &Condition| *it.reason == *Reason::QuotaNotInForce.as_str();
    if !shown.iter().any(waits) {
        conditions.retain(|it| !waits(it));
    }
}

fn change(
    seen: &Hierarchy,
    spec: Option<SubnamespaceSpec>,
    finalizers: Option<Vec<Box<str>>>,
    status: Option<HierarchyStatus>,
) -> Option<Action> {
    let needed = spec.is_some() || finalizers.is_some() || status.is_some();
    needed
        .then(|| HncAction::UpdateHierarchy { version: seen.version.get(), spec, finalizers, status }.into())
}

/// The parent of a subnamespace comes from its annotation, its labels and annotations from its anchor.
fn spec(forest: &Forest, id: Id, shown: Option<&Hierarchy>) -> Option<SubnamespaceSpec> {
    let parent = forest.subnamespace_of(id)?;
    let anchor = forest.anchor_of(id);
    let right = shown.is_some_and(|seen| {
        let says = |anchor: &AnchorFact| {
            *seen.labels() == anchor.labels && *seen.annotations() == anchor.annotations
        };
        seen.parent().is_some_and(|id| **forest.name(id) == *parent) && anchor.is_none_or(says)
    });
    (!right).then(|| SubnamespaceSpec {
        parent: parent.into(),
        from_anchor: anchor.map(|anchor| (anchor.labels.clone(), anchor.annotations.clone())),
    })
}

fn wanted_conditions(forest: &Forest, id: Id, shown: &[Condition]) -> Vec<Condition> {
    if !forest.is_existing(id) {
        return Vec::new();
    }
    conditions(forest, id).into_iter().map(|it| it.since_shown(shown)).collect()
}

fn status(forest: &Forest, children: &[Id], conditions: Vec<Condition>) -> HierarchyStatus {
    let children = children.iter().map(|child| forest.name(*child).clone()).collect();
    HierarchyStatus { children, conditions }
}

/// While the CRDs are being deleted: an object that is being deleted loses our finalizer, any other gets a condition.
pub(super) fn while_crds_are_deleted(forest: &Forest, id: Id) -> Option<Action> {
    let seen = forest.hierarchy(id)?;
    let finalizers = |wanted| finalizers(seen.finalizers(), HIERARCHY_FINALIZER, wanted);
    if seen.terminating {
        return change(seen, None, finalizers(false), None);
    }
    let condition = Condition::new(
        Reason::DeletingCRD,
        "The definitions of hnc.x-k8s.io are being deleted; nothing is propagated any more",
    );
    let conditions = vec![condition.since_shown(seen.conditions())];
    let with_finalizer = seen.finalizers().iter().any(|it| **it == *HIERARCHY_FINALIZER);
    let is_shown = seen.shows(seen.children(), &conditions);
    let status = (!is_shown).then(|| status(forest, seen.children(), conditions));
    change(seen, None, finalizers(with_finalizer), status)
}
