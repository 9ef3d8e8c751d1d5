//! `hierarchyconfigurations.hnc.x-k8s.io`: who may give a namespace which parent (section 7.3 of HNC's contract).
//!
//! The rows of that section are the functions below, in its order, but for one: authorization (row 12) comes before
//! conflicts (row 11), because a conflict names objects that an unauthorized user may not see. Deleting a
//! `HierarchyConfiguration` is judged as setting its parent to none.
//!
//! The present parent is the one in the request's old object, which the API server repeats the request on if it has
//! changed meanwhile; a forest that disagrees is waited for and never overrules it.

use super::question::{Answer, Answers, Awaited, Question};
use super::{Cause, Check, Denial, Operation, Verdict};
use crate::condition::Halt;
use crate::{Forest, Name, Unmanaged};

mod authority;
mod conflict;
#[cfg(test)]
mod tests;

/// A `HierarchyConfiguration` that is to be created, changed or deleted.
#[derive(Debug, Clone)]
pub struct Request {
    /// Create, update or delete.
    pub operation: Operation,
    /// The namespace that it configures.
    pub namespace: Name,
    /// The name of the requesting user, for messages.
    pub user: String,
    /// The `spec` so far; the default one when it is created.
    pub old: Spec,
    /// The `spec` afterwards; the default one when it is deleted.
    pub new: Spec,
}

/// What a rule needs of `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// The parent; `None` for none, also where the object has an empty string.
    pub parent: Option<Name>,
    /// The keys under `labels`.
    pub labels: Vec<String>,
    /// The keys under `annotations`.
    pub annotations: Vec<String>,
}

/// Judges `request` as far as `answers` go.
pub fn review(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    let asked = Asked { forest, request, answers };
    let verdict = asked.judge().unwrap_or_else(|verdict| verdict);
    match verdict {
        Verdict::Deny(denial) if request.operation == Operation::Delete => asked.unless_it_is_going(denial),
        verdict => verdict,
    }
}

/// A request with all that it is judged by.
struct Asked<'a> {
    forest: &'a Forest,
    request: &'a Request,
    answers: &'a Answers,
}

impl Asked<'_> {
    fn judge(&self) -> Check<Verdict> {
        if self.request.operation == Operation::Delete && self.request.old.parent.is_none() {
            return Ok(Verdict::allow());
        }
        self.both_are_managed()?;
        self.keys_are_managed()?;
        self.namespace_is_known()?;
        self.forest_agrees_on_the_present_parent()?;
        self.no_ancestor_is_halted()?;
        if self.request.old.parent == self.request.new.parent {
            return Ok(Verdict::allow());
        }
        if let Some(parent) = &self.request.new.parent {
            self.parent_exists(parent)?;
            self.no_cycle(parent)?;
        }
        self.user_has_authority()?;
        if let Some(parent) = &self.request.new.parent {
            self.no_conflicts(parent)?;
        }
        Ok(Verdict::allow())
    }

    /// The contents of a namespace that is going away, this object among them, are anyone's to delete, or it could never
    /// go. The cache is not enough to know it.
    fn unless_it_is_going(&self, denial: Denial) -> Verdict {
        let question = Question::Namespace(self.request.namespace.clone());
        match self.answers.get(&question) {
            None => Verdict::Ask(vec![question]),
            Some(Answer::No | Answer::Terminating) => Verdict::allow(),
            Some(Answer::Yes | Answer::Failed(_)) => denial.into(),
        }
    }

    /// Rows 1 and 2.
    fn both_are_managed(&self) -> Check {
        let namespace = &self.request.namespace;
        if let Some(why) = self.forest.settings().unmanaged(namespace) {
            return Err(unmanaged(namespace, &why, "it cannot be a child of another namespace"));
        }
        if let Some(parent) = &self.request.new.parent
            && let Some(why) = self.forest.settings().unmanaged(parent)
        {
            return Err(unmanaged(parent, &why, "it cannot be the parent of another namespace"));
        }
        Ok(())
    }

    /// Row 3.
    fn keys_are_managed(&self) -> Check {
        let Spec { labels, annotations, .. } = &self.request.new;
        let causes = [("labels", labels), ("annotations", annotations)]
            .into_iter()
            .flat_map(|(field, keys)| keys.iter().map(move |key| (field, key)))
            .map(|(field, key)| Cause {
                field: format!("spec.{field}[{key}]"),
                message: format!("Invalid value: {key:?}: not one of the managed {field} of this cluster"),
            })
            .collect::<Vec<_>>();
        if causes.is_empty() { Ok(()) } else { Err(Denial::invalid(causes).into()) }
    }

    /// Row 4, and as much for the forest as a whole: from an incomplete picture nothing is concluded.
    fn namespace_is_known(&self) -> Check {
        if let Some((stream, state)) = self.forest.structure_gap() {
            return Err(Denial::unavailable(format!(
                "the hierarchy cannot be relied on ({stream}: {state}); try again in a moment"
            ))
            .into());
        }
        let namespace = &self.request.namespace;
        match self.presence(namespace)? {
            Presence::Here => Ok(()),
            Presence::Absent => Err(Denial::unavailable(format!(
                "namespace {namespace:?} has not been reconciled yet; try again in a moment"
            ))
            .into()),
        }
    }

    fn forest_agrees_on_the_present_parent(&self) -> Check {
        let Request { namespace, old, .. } = self.request;
        if self.forest.parent(namespace) == old.parent.as_ref() {
            return Ok(());
        }
        self.wait_for(Awaited::Parent(namespace.clone(), old.parent.clone()), || {
            format!("the parent of namespace {namespace:?} is just changing; try again in a moment")
        })
    }

    /// Row 5. A namespace that is halted itself may be repaired; what hangs below a halted one may not be changed. A
    /// missing parent that exists by now is waited for.
    fn no_ancestor_is_halted(&self) -> Check {
        let tree = &self.forest.tree;
        let halted = tree.id(&self.request.namespace).and_then(|id| tree.halted_root(id));
        let Some(root) = halted.filter(|root| *tree.name(*root) != self.request.namespace) else {
            return Ok(());
        };
        let halt = tree.own_halt(root);
        if let Some(Halt::ParentMissing(missing)) = &halt {
            self.presence(missing)?;
        }
        let name = tree.name(root);
        let why = halt.map(|halt| halt.condition().message).unwrap_or_default();
        Err(Denial::forbidden(format!(
            "the ancestor {name:?} is halted, so nothing below it can be changed; repair it first: {why}"
        ))
        .into())
    }

    /// Row 9.
    fn parent_exists(&self, parent: &Name) -> Check {
        match self.presence(parent)? {
            Presence::Here => Ok(()),
            Presence::Absent => Err(Denial::forbidden(format!(
                "the requested parent {parent:?} does not exist; create it first"
            ))
            .into()),
        }
    }

    /// Row 10.
    fn no_cycle(&self, parent: &Name) -> Check {
        let tree = &self.forest.tree;
        let (Some(parent), Some(child)) = (tree.id(parent), tree.id(&self.request.namespace)) else {
            return Ok(());
        };
        tree.may_adopt(parent, child).map_err(|illegal| {
            Denial::conflict(format!("illegal parent {:?}: {illegal}", tree.name(parent))).into()
        })
    }

    /// Whether a namespace is there, looked up live and waited for where the forest does not know it.
    fn presence(&self, name: &Name) -> Check<Presence> {
        if self.forest.exists(name) {
            return Ok(Presence::Here);
        }
        let question = Question::Namespace(name.clone());
        match self.answers.get(&question) {
            None => Err(Verdict::Ask(vec![question])),
            Some(Answer::No) => Ok(Presence::Absent),
            Some(Answer::Failed(why)) => Err(Denial::internal(format!(
                "it could not be found out whether namespace {name:?} exists: {why}"
            ))
            .into()),
            Some(Answer::Yes | Answer::Terminating) => self
                .wait_for(Awaited::Namespace(name.clone()), || {
                    format!("namespace {name:?} is too new to be judged by; try again in a moment")
                })
                .map(|()| Presence::Here),
        }
    }

    /// Has the forest given time to come to know something that it does not know now; refuses when that was in vain.
    fn wait_for(&self, awaited: Awaited, otherwise: impl FnOnce() -> String) -> Check {
        let question = Question::Await(awaited);
        if self.answers.contains_key(&question) {
            Err(Denial::unavailable(otherwise()).into())
        } else {
            Err(Verdict::Ask(vec![question]))
        }
    }
}

enum Presence {
    Here,
    Absent,
}

fn unmanaged(namespace: &str, why: &Unmanaged, consequence: &str) -> Verdict {
    Denial::forbidden(format!("namespace {namespace:?} {why}, so {consequence}")).into()
}
