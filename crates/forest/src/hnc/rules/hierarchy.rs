//! `hierarchyconfigurations.hnc.x-k8s.io`: who may set which parent (section 7.3 of docs/compatibility.md).
//!
//! "Row N" is a row of the first table in that section, here and in the files of `hierarchy/`. The order of the checks is that of
//! `judge`. It differs from the table: row 8 comes before row 5, and authorization (row 12) before conflicts (row 11), because a
//! conflict names objects that an unauthorized user may not see. Checks without a row are this project's own. Deleting a
//! `HierarchyConfiguration` is judged as setting its parent to none.
//!
//! The present parent is the one in the old object of the request. If the object has changed since then, the API server repeats the
//! request. If the forest knows another parent, the rule asks the webhook to wait until the forest knows the same one, and denies
//! with 503 if that takes too long.

use super::{
    Answer, Answers, Check, Denial, Operation, Question, User, Verdict, WaitFor, all_answered, managed_keys,
    parent_change,
};
use crate::core::labels::Labels;
use crate::core::managed::Unmanaged;
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::core::tree::Id;
use crate::core::verdict::{Presence, presence, unreliable, wait_for};
use crate::dialects::Forest;
use crate::hnc::condition::Halt;
use crate::hnc::keys;
use crate::hnc::quota::exceeded_by_move;

mod authority;
mod conflict;
mod overriding;
mod parent;
#[cfg(test)]
mod tests;

pub(super) use self::authority::orphans_may_move;
pub(super) use self::conflict::no_conflicts;
pub(super) use self::parent::{in_one_hierarchy, not_below_one_that_ends, within_limits};

/// A request that creates, changes or deletes a `HierarchyConfiguration`.
#[derive(Debug, Clone)]
pub struct Request {
    /// Create, update or delete.
    pub operation: Operation,
    /// The namespace that it configures.
    pub namespace: Name,
    /// The requesting user.
    pub user: User,
    /// The `spec` before; the default for a new object.
    pub old: Spec,
    /// The `spec` afterwards; the default for a deleted object.
    pub new: Spec,
    /// Whether the object is already being deleted.
    pub terminating: bool,
}

/// The parts of `spec` that the rule reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// The parent; `None` for none, also if the field is an empty string.
    pub parent: Option<Name>,
    /// The pairs under `labels`.
    pub labels: Vec<(String, String)>,
    /// The pairs under `annotations`.
    pub annotations: Vec<(String, String)>,
    /// Whether the subnamespaces may be deleted with the namespace.
    pub allow_cascading_deletion: bool,
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    let review = Review { forest, request, answers, way: Way::Hierarchy };
    let verdict = review.judge().unwrap_or_else(|verdict| verdict);
    let verdict = match verdict {
        Verdict::Deny(denial) if request.operation == Operation::Delete => {
            review.deny_unless_terminating(denial)
        }
        verdict => verdict,
    };
    let parents = [request.old.parent.as_deref(), request.new.parent.as_deref()];
    verdict.with_change(|| {
        let change = || parent_change(forest, &request.namespace, Stream::HIERARCHIES, parents);
        (parents[0] != parents[1]).then(change)
    })
}

/// Judges a change of parent by the annotation `hnc.x-k8s.io/subnamespace-of`, on an existing or a new namespace: by the same
/// rows, except those about the object itself (3, 7 and 8).
pub(super) fn review_annotation(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    let way = if request.operation == Operation::Create { Way::NewNamespace } else { Way::Annotation };
    let review = Review { forest, request, answers, way };
    review.judge().unwrap_or_else(|verdict| verdict)
}

/// How a request sets a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a `HierarchyConfiguration`.
    Hierarchy,
    /// By the annotation of a subnamespace.
    Annotation,
    /// By the annotation of a namespace that does not exist yet, and so has no objects in conflict.
    NewNamespace,
}

/// A request with everything that the rule reads.
struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request,
    answers: &'a Answers,
    way: Way,
}

impl Review<'_> {
    /// What was there before does not keep anyone from changing the rest: the settings may have changed since.
    fn added_keys_are_managed(&self) -> Check {
        let Request { old, new, .. } = self.request;
        let before = [&*old.labels, &old.annotations];
        managed_keys::check(self.forest.settings(), [&new.labels, &new.annotations], before)
    }

    fn judge(&self) -> Check<Verdict> {
        if self.request.operation == Operation::Delete && self.request.old.parent.is_none() {
            self.user_may_change_the_rest()?;
            self.no_deletion_relies_on_it()?;
            return Ok(Verdict::allow());
        }
        self.both_are_managed()?;
        self.added_keys_are_managed()?;
        if self.is_restored() {
            return Ok(Verdict::allow());
        }
        self.structure_is_known()?;
        self.is_there_to_stay()?;
        if self.way != Way::NewNamespace {
            self.namespace_is_known()?;
            if self.parent_is_that_of_the_annotation()? {
                return self.concluded(Vec::new());
            }
            self.forest_agrees_on_the_present_parent()?;
            self.no_ancestor_is_halted()?;
            self.is_not_external()?;
        }
        if self.request.old.parent == self.request.new.parent && self.way == Way::Hierarchy {
            return self.concluded(Vec::new());
        }
        let mut warnings = match &self.request.new.parent {
            None => Vec::new(),
            Some(parent) => {
                let warnings = self.parent_exists(parent)?;
                self.no_cycle(parent)?;
                warnings
            }
        };
        self.user_has_authority()?;
        self.is_there_to_move()?;
        if let Some(parent) = &self.request.new.parent {
            if self.request.old.parent.as_ref() != Some(parent) {
                not_below_one_that_ends(self.forest, parent)?;
            }
            self.is_in_one_hierarchy(parent)?;
            self.no_sub_namespace_waits_for(parent)?;
            self.no_anchor_waits_for(parent)?;
            within_limits(self.forest, parent, &self.request.namespace)?;
            let both = (self.forest, self.answers);
            warnings.extend(no_conflicts(both, parent, &self.request.namespace)?);
            warnings.extend(exceeded_by_move(self.forest, parent, &self.request.namespace));
            warnings.extend(self.is_frozen(parent));
        }
        self.concluded(warnings)
    }

    /// The controller writes no tree labels of a namespace that is being deleted. After its `HierarchyConfiguration` is deleted, they decide
    /// its place, and that of all namespaces below. So its parent must not change. If it has children, a live read shows whether it is
    /// being deleted; if not, the cache does.
    fn is_there_to_move(&self) -> Check {
        let Request { operation, namespace, .. } = self.request;
        let Some(id) = self.forest.id(namespace) else { return Ok(()) };
        if self.way == Way::NewNamespace || *operation == Operation::Delete {
            return Ok(());
        }
        if !self.forest.is_terminating(namespace) {
            if self.forest.downstream(id).is_empty() {
                return Ok(());
            }
            let question = Question::Namespace(namespace.clone());
            all_answered(std::slice::from_ref(&question), self.answers)?;
            if self.answers[&question] != Answer::Terminating {
                return Ok(());
            }
        }
        Err(Denial::conflict(format!(
            "namespace {namespace:?} is being deleted, so its parent cannot change any more; to keep the namespaces below it elsewhere, give \
             each of them another parent"
        ))
        .into())
    }

    /// An identity that restores backups creates objects as they were, in any order; the controller reports what is out of date.
    fn is_restored(&self) -> bool {
        let Request { operation, user, .. } = self.request;
        *operation == Operation::Create && user.is_any_of(&self.forest.settings().restore_identities)
    }

    fn concluded(&self, mut warnings: Vec<String>) -> Check<Verdict> {
        self.user_may_change_the_rest()?;
        self.sets_nothing_of_accurates()?;
        self.overrides_nothing_below()?;
        self.no_deletion_relies_on_it()?;
        warnings.extend(self.is_reverted());
        warnings.extend(managed_keys::repeated(&self.request.new.labels, "spec.labels"));
        warnings.extend(managed_keys::repeated(&self.request.new.annotations, "spec.annotations"));
        Ok(Verdict::warn(warnings))
    }

    /// Everyone may delete this object in a namespace that is being deleted, otherwise the deletion could never end. Only a live
    /// read shows that the namespace is being deleted; the cache is not enough.
    fn deny_unless_terminating(&self, denial: Denial) -> Verdict {
        let question = Question::Namespace(self.request.namespace.clone());
        match self.answers.get(&question) {
            None => Verdict::Ask(vec![question]),
            Some(Answer::No | Answer::Terminating) => Verdict::allow(),
            Some(Answer::Yes | Answer::Failed(_)) => denial.into(),
        }
    }

    /// Rows 1 and 2.
    fn both_are_managed(&self) -> Check {
        let Request { namespace, old, new, .. } = self.request;
        if let Some(why) = self.forest.settings().unmanaged(namespace) {
            let is_given_a_parent = new.parent.is_some() && new.parent != old.parent;
            let consequence = match why {
                _ if is_given_a_parent || self.way != Way::Hierarchy => {
                    "it cannot be a child of another namespace"
                }
                Unmanaged::Own => "its HierarchyConfiguration cannot be changed",
                Unmanaged::Excluded | Unmanaged::NotIncluded(_) => {
                    "its HierarchyConfiguration cannot be changed; include it first"
                }
            };
            return Err(unmanaged(namespace, &why, consequence));
        }
        if let Some(parent) = &new.parent
            && let Some(why) = self.forest.settings().unmanaged(parent)
        {
            return Err(unmanaged(parent, &why, "it cannot be the parent of another namespace"));
        }
        Ok(())
    }

    /// Denies with 503 while the structure is not completely known.
    fn structure_is_known(&self) -> Check {
        structure_is_known(self.forest)
    }

    /// The deletion of an object without a parent is not judged, so it must not get a parent while it is being deleted.
    fn is_there_to_stay(&self) -> Check {
        let Request { namespace, old, new, terminating, .. } = self.request;
        if !terminating || new.parent.is_none() || new.parent == old.parent {
            return Ok(());
        }
        Err(Denial::conflict(format!(
            "the HierarchyConfiguration of {namespace:?} is being deleted, so it cannot get a parent; wait until it is gone, or \
             remove its finalizers, and create it again"
        ))
        .into())
    }

    /// Row 4.
    fn namespace_is_known(&self) -> Check {
        let namespace = &self.request.namespace;
        match self.presence(namespace)? {
            Presence::Here => Ok(()),
            Presence::Absent => Err(Denial::unavailable(format!(
                "namespace {namespace:?} has not been reconciled yet; try again in a moment"
            ))
            .into()),
        }
    }

    /// Row 8: the annotation of a subnamespace decides its parent. Returns `true` if the request names this parent, or does not
    /// change the parent; then the rows about a change of parent do not apply. Returns `false` if the namespace is no subnamespace.
    fn parent_is_that_of_the_annotation(&self) -> Check<bool> {
        let Request { namespace, old, new, .. } = self.request;
        let id = self.forest.id(namespace).filter(|_| self.way == Way::Hierarchy);
        let Some(parent) = id.and_then(|id| self.forest.subnamespace_of(id)) else {
            return Ok(false);
        };
        if new.parent.as_deref() == Some(parent) || new.parent == old.parent {
            return Ok(true);
        }
        Err(Denial::conflict(format!(
            "illegal parent {:?}: {namespace:?} is a subnamespace of {parent:?}, and its parent follows its annotation {}",
            new.parent.as_deref().unwrap_or_default(),
            keys::SUBNAMESPACE_OF
        ))
        .into())
    }

    /// An external namespace has no parent in force, even if its object names one.
    fn forest_agrees_on_the_present_parent(&self) -> Check {
        let Request { namespace, old, .. } = self.request;
        let forest = self.forest;
        let is_external = forest.id(namespace).is_some_and(|id| forest.is_external(id));
        if is_external || self.forest.parent(namespace) == old.parent.as_ref() {
            return Ok(());
        }
        let waited = wait_for(self.answers, WaitFor::Parent(namespace.clone(), old.parent.clone()), || {
            format!(
                "the webhook does not know the present parent of namespace {namespace:?} yet; try again in a moment"
            )
        });
        // The API server refuses a second object of that name only after this review.
        let is_new = self.way == Way::Hierarchy && self.request.operation == Operation::Create;
        match waited {
            Err(Verdict::Deny(_)) if is_new => {
                Err(Denial::already_exists("the object already exists").into())
            }
            waited => waited,
        }
    }

    /// Row 5. A namespace that is halted itself may be repaired; namespaces below a halted one may not be changed. If the missing
    /// parent exists by now, the rule waits until the forest knows it.
    fn no_ancestor_is_halted(&self) -> Check {
        let forest = self.forest;
        let halted = forest.id(&self.request.namespace).and_then(|id| forest.halted_at(id));
        let Some(root) = halted.filter(|root| *forest.name(*root) != self.request.namespace) else {
            return Ok(());
        };
        let halt = forest.own_halt(root);
        if let Some(Halt::ParentMissing(missing)) = &halt {
            self.presence(missing)?;
        }
        let name = forest.name(root);
        let why = halt.map(|halt| halt.condition(forest.settings()).message).unwrap_or_default();
        let Request { namespace, old, new, .. } = self.request;
        let what = if new.parent == old.parent { "HierarchyConfiguration" } else { "parent" };
        Err(Denial::forbidden(if forest.is_terminating(name) {
            // Its parent cannot be changed any more.
            format!(
                "the ancestor {name:?} is halted and is being deleted, so the {what} of namespace {namespace:?} cannot be changed until {name:?} is gone"
            )
        } else {
            format!("the ancestor {name:?} is halted, so the {what} of namespace {namespace:?} cannot be changed; repair {name:?} first: {why}")
        })
        .into())
    }

    /// Row 6.
    fn is_not_external(&self) -> Check {
        let Request { namespace, new, .. } = self.request;
        let seen = self.forest.id(namespace).and_then(|id| self.forest.namespace(id));
        let manager = seen.and_then(|seen| seen.external_manager());
        match manager.filter(|_| new.parent.is_some()) {
            None => Ok(()),
            Some(manager) => Err(Denial::forbidden(format!(
                "namespace {namespace:?} is managed by {manager:?} (annotation {}), so it can have no parent here",
                keys::EXTERNALLY_MANAGED_BY
            ))
            .into()),
        }
    }

    /// A warning that an anchor decides the labels and annotations.
    fn is_reverted(&self) -> Option<String> {
        let Request { old, new, .. } = self.request;
        let (holder, anchor) = self.forest.deciding_anchor(self.forest.id(&self.request.namespace)?)?;
        let is_changed = old.labels != new.labels || old.annotations != new.annotations;
        let pairs = |of: &[(String, String)]| of.iter().cloned().collect::<Labels>();
        let is_right = pairs(&new.labels) == anchor.labels && pairs(&new.annotations) == anchor.annotations;
        (is_changed && !is_right).then(|| {
            format!(
                "the anchor {:?} in namespace {holder:?} decides spec.labels and spec.annotations of this HierarchyConfiguration, so \
                 the change is reverted; change them there",
                anchor.name
            )
        })
    }

    /// An anchor is being deleted, and its namespace has children. Without cascading deletion the anchor would be deleted alone, and no quota
    /// on anchors would count the namespace.
    fn no_deletion_relies_on_it(&self) -> Check {
        let (forest, Request { namespace, old, new, .. }) = (self.forest, self.request);
        if !old.allow_cascading_deletion || new.allow_cascading_deletion {
            return Ok(());
        }
        let ends = |id: &Id| {
            forest.anchor_of(*id).is_some_and(|anchor| anchor.terminating)
                && !forest.downstream(*id).is_empty()
        };
        let below = forest.id(namespace).map(|id| forest.at_and_below(id)).unwrap_or_default();
        let Some(ending) = below.into_iter().find(ends) else { return Ok(()) };
        Err(Denial::conflict(format!(
            "allowCascadingDeletion of {namespace:?} cannot be withdrawn while the anchor of {:?} is being deleted; wait until that namespace is \
             gone",
            forest.name(ending)
        ))
        .into())
    }

    /// Accurate sets the labels and annotations of the namespaces in its hierarchy. What is there already may be removed.
    fn sets_nothing_of_accurates(&self) -> Check {
        let Request { namespace, old, new, .. } = self.request;
        let adds = |old: &[_], new: &[_]| new.iter().any(|pair| !old.contains(pair));
        let is_added = adds(&old.labels, &new.labels) || adds(&old.annotations, &new.annotations);
        if !is_added || !self.forest.is_in_accurate(namespace) {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "namespace {namespace:?} is in a hierarchy of accurate.cybozu.com, which sets its labels and annotations, so they cannot be \
             set in spec.labels and spec.annotations here; set them on the root or the template of that hierarchy, or in the \
             SubNamespace"
        ))
        .into())
    }

    fn presence(&self, name: &Name) -> Check<Presence> {
        presence(self.forest, name, self.answers)
    }
}

/// 503 while the structure streams are incomplete.
pub(super) fn structure_is_known(forest: &Forest) -> Check {
    match forest.structure_gap() {
        None => Ok(()),
        Some((stream, state)) => Err(unreliable(stream, &state)),
    }
}

fn unmanaged(namespace: &str, why: &Unmanaged, consequence: &str) -> Verdict {
    Denial::forbidden(format!("namespace {namespace:?} {why}, so {consequence}")).into()
}
