//! Which namespace may be the new parent (rows 9 and 10)?

use super::{Request, Review, Way};
use crate::core::name::{Name, is_namespace_name};
use crate::core::tree::Id;
use crate::core::verdict::Presence;
use crate::dialects::Forest;
use crate::hnc::rules::{Answer, Check, Denial, Question, all_answered, first_refused};

impl Review<'_> {
    /// Row 9. A user who may create the parent, and configure it, may name it before it exists: a whole tree can then be applied
    /// at once, in any order.
    pub(super) fn parent_exists(&self, parent: &Name) -> Check<Vec<String>> {
        if matches!(self.presence(parent)?, Presence::Here) {
            return Ok(self.is_ending(parent).into_iter().collect());
        }
        let absent = || {
            Err(Denial::forbidden(format!("the requested parent {parent:?} does not exist; create it first"))
                .into())
        };
        if !is_namespace_name(parent) {
            return Err(Denial::forbidden(format!(
                "the requested parent {parent:?} does not exist, and no namespace can have that name"
            ))
            .into());
        }
        let rights = [Question::MayCreateNamespace(parent.clone()), Question::MayConfigure(parent.clone())];
        all_answered(&rights, self.answers)?;
        if rights.iter().all(|right| self.answers[right] == Answer::Yes) {
            return Ok(vec![self.waits_for(parent)]);
        }
        absent()
    }

    fn waits_for(&self, parent: &Name) -> String {
        let Request { namespace, .. } = self.request;
        let place = self.root_above().map(|root| {
            format!("; until then it also keeps the tree labels and the hierarchical quotas of the tree of {root:?}")
        });
        format!(
            "the parent {parent:?} does not exist yet; until it does, {namespace:?} is halted: it keeps its copies, and nothing is \
             propagated to it{}",
            place.unwrap_or_default()
        )
    }

    /// A warning that the parent will not stay.
    fn is_ending(&self, parent: &Name) -> Option<String> {
        let namespace = &self.request.namespace;
        self.forest.is_terminating(parent).then(|| {
            format!(
                "the parent {parent:?} is being deleted; when it is gone, {namespace:?} is halted until it gets another parent, or \
                 {parent:?} is created again: it keeps its copies, and nothing is propagated to it"
            )
        })
    }

    /// A warning that nothing comes from a halted parent, and that row 5 then refuses to leave it.
    pub(super) fn is_frozen(&self, parent: &Name) -> Option<String> {
        let (forest, namespace) = (self.forest, &self.request.namespace);
        let root = forest.halted_at(forest.id(parent)?)?;
        let why = forest.own_halt(root)?.condition(forest.settings()).message;
        Some(format!(
            "the parent {parent:?} is halted, so nothing is propagated to {namespace:?}, and its parent cannot be changed, until {:?} \
             is repaired: {why}",
            forest.name(root)
        ))
    }

    /// The root of the tree that the namespace is in as a descendant.
    fn root_above(&self) -> Option<&Name> {
        let id = self.forest.id(&self.request.namespace)?;
        let exists = |at: &Id| *at != id && self.forest.namespace(*at).is_some();
        let root = self.forest.place(id).into_iter().rfind(exists)?;
        Some(self.forest.name(root))
    }

    /// An anchor that waits for the name of the new parent will create it, and then its namespace is above this one. So an admin of
    /// the anchor's namespace must set this parent. An anchor that shows `Conflict` creates nothing.
    pub(super) fn no_anchor_waits_for(&self, parent: &Name) -> Check {
        let holders = self.forest.holders_of_waiting(parent);
        holders.iter().try_for_each(|holder| self.no_cycle_through(parent, holder))?;
        let questions: Vec<Question> = holders.iter().cloned().map(Question::IsAdmin).collect();
        let Some(refused) = first_refused(&questions, self.answers)? else { return Ok(()) };
        let holder = &holders[refused];
        Err(if self.forest.exists(parent) {
            Denial::unavailable(format!(
                "an anchor in {holder:?} has the name of the requested parent {parent:?}, and does not show yet that it is in \
                 conflict; try again in a moment"
            ))
        } else {
            Denial::forbidden(format!(
                "the requested parent {parent:?} does not exist, and an anchor in {holder:?} will create it as a subnamespace; only \
                 an admin of {holder:?} may name it before that"
            ))
        }
        .into())
    }

    /// A `SubNamespace` with the name of the missing parent waits to create it in the hierarchy of Accurate's API. No user can consent to
    /// that: a namespace belongs to one hierarchy.
    pub(super) fn no_sub_namespace_waits_for(&self, parent: &Name) -> Check {
        let (forest, namespace) = (self.forest, &self.request.namespace);
        if forest.exists(parent) && !forest.is_terminating(parent) {
            return Ok(());
        }
        let Some(holder) = forest.accurate().holders_of_waiting(parent).next() else { return Ok(()) };
        Err(Denial::forbidden(format!(
            "the requested parent {parent:?} does not exist, and a SubNamespace of that name in {:?} waits to create it in a hierarchy \
             of accurate.cybozu.com; create the parent first, or choose another parent for {namespace:?}",
            forest.name(holder)
        ))
        .into())
    }

    /// Row 10, for a parent that an anchor in `holder` will create below `holder`.
    fn no_cycle_through(&self, parent: &Name, holder: &Name) -> Check {
        let (forest, namespace) = (self.forest, &self.request.namespace);
        let Some((id, child)) = forest.id(holder).zip(forest.id(namespace)) else { return Ok(()) };
        forest.may_join(id, child).map_err(|_| {
            Denial::conflict(format!(
                "illegal parent {parent:?}: an anchor in {holder:?} will create it as a subnamespace, and {holder:?} is {namespace:?} \
                 or below it: this would make a cycle"
            ))
            .into()
        })
    }

    /// Row 10.
    pub(super) fn no_cycle(&self, parent: &Name) -> Check {
        let forest = self.forest;
        let (Some(parent), Some(child)) = (forest.id(parent), forest.id(&self.request.namespace)) else {
            return Ok(());
        };
        forest.may_join(parent, child).map_err(|illegal| {
            Denial::conflict(format!("illegal parent {:?}: {illegal}", forest.name(parent))).into()
        })
    }

    /// A namespace of Accurate's may become a subnamespace of its parent there: so a tree can pass from one hierarchy to the other, from
    /// its leaves to its root. Meanwhile the namespaces that have not passed are halted, so nothing that is revoked above reaches
    /// those below them. So the user must be an admin of the namespace above all of them.
    pub(super) fn is_in_one_hierarchy(&self, parent: &Name) -> Check {
        let namespace = &self.request.namespace;
        let by_annotation = self.way == Way::Annotation;
        if let Some(top) = self.forest.accurate_top(namespace, parent).filter(|_| by_annotation) {
            let question = Question::IsAdmin(top.clone());
            all_answered(std::slice::from_ref(&question), self.answers)?;
            if self.answers[&question] == Answer::Yes {
                return Ok(());
            }
        }
        in_one_hierarchy(self.forest, [namespace, parent])
    }
}

/// A subnamespace is deleted with its anchor, unless it has children. So it gets none while its anchor is being deleted: it would stay
/// without an anchor, and no quota on anchors would count it.
pub(in crate::hnc::rules) fn not_below_one_that_ends(forest: &Forest, parent: &Name) -> Check {
    let holder = forest.id(parent).and_then(|id| forest.ending_holder(id));
    holder.map_or(Ok(()), |holder| {
        Err(Denial::conflict(format!(
            "the anchor {parent:?} in namespace {holder:?} is being deleted, and its subnamespace {parent:?} with it, so nothing can come \
             to be below {parent:?}; wait until it is gone, or choose another parent"
        ))
        .into())
    })
}

/// No namespace of Accurate's gets a parent or a child here.
pub(in crate::hnc::rules) fn in_one_hierarchy(forest: &Forest, names: [&Name; 2]) -> Check {
    let other = names.into_iter().find(|name| forest.is_in_accurate(name));
    other.map_or(Ok(()), |name| {
        Err(Denial::forbidden(format!(
            "namespace {name:?} is in a hierarchy of accurate.cybozu.com, and can be in one hierarchy only; remove its labels \
             accurate.cybozu.com/…, and those of the namespaces that name it, first"
        ))
        .into())
    })
}

/// The limits of trees hold for every way to set a parent.
pub(in crate::hnc::rules) fn within_limits(forest: &Forest, parent: &Name, child: &Name) -> Check {
    let exceeded = forest.exceeded(parent, child, u64::MAX);
    exceeded.map_or(Ok(()), |exceeded| Err(Denial::forbidden(exceeded.to_string()).into()))
}
