//! `namespaces.hnc.x-k8s.io`: which changes of a namespace are allowed (section 7.6 of docs/compatibility.md).
//!
//! "Row x" is a row of the table in that section, here and in the files of `namespace/`.
//!
//! Serves requests for `namespaces`, `namespaces/status` and `namespaces/finalize` alike: labels and annotations can be written
//! through all three. `namespace/own_keys.rs` judges changes of the project's own keys one by one, and
//! `namespace/managed_values.rs` those of keys that the hierarchy sets; other labels and annotations are not judged.

mod managed_values;
mod own_keys;
#[cfg(test)]
mod tests;

use super::{
    Answer, Answers, Check, Denial, Operation, Pairs, Question, User, Verdict, anchor, hierarchy,
    parent_change,
};
use crate::core::name::Name;
use crate::core::stream::Stream;
use crate::dialects::Forest;
use crate::hnc::hierarchy::Hierarchy;
use crate::hnc::keys;

/// A request that creates, changes or deletes a namespace.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Create, update or delete.
    pub operation: Operation,
    /// Its name.
    pub name: Name,
    /// The requesting user.
    pub user: User,
    /// The state before; empty for a new namespace.
    pub old: Marks<'a>,
    /// The state afterwards; empty for a deleted namespace.
    pub new: Marks<'a>,
}

/// The parts of a namespace that the rule reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks<'a> {
    /// All its labels.
    pub labels: Pairs<'a>,
    /// All its annotations.
    pub annotations: Pairs<'a>,
}

impl Marks<'_> {
    pub(super) fn subnamespace_of(&self) -> Option<&str> {
        self.annotations.get(keys::SUBNAMESPACE_OF).filter(|parent| !parent.is_empty())
    }

    fn external_manager(&self) -> Option<&str> {
        let manager = self.annotations.get(keys::EXTERNALLY_MANAGED_BY);
        manager.filter(|manager| !manager.is_empty() && *manager != keys::GROUP)
    }
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request<'_>, answers: &Answers) -> Verdict {
    let review = Review { forest, request, answers };
    let judged = match request.operation {
        Operation::Create => review.create(),
        Operation::Update => review.update(),
        Operation::Delete => review.delete(),
    };
    let verdict = judged.err().unwrap_or_else(Verdict::allow);
    verdict.with_change(|| {
        let new = request.new.subnamespace_of();
        let parent = new.filter(|_| new != request.old.subnamespace_of())?;
        let parents = [forest.parent(&request.name).map(|present| &**present), Some(parent)];
        Some(parent_change(forest, &request.name, Stream::NAMESPACES, parents))
    })
}

struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request<'a>,
    answers: &'a Answers,
}

impl Review<'_> {
    /// An identity that restores backups creates namespaces as they were; the controller corrects what is out of date.
    fn create(&self) -> Check {
        let Request { user, name, new, .. } = self.request;
        if user.is_any_of(&self.forest.settings().restore_identities) {
            return Ok(());
        }
        self.keys()?;
        self.initial_admin_is_the_creator()?;
        self.name_is_free()?;
        anchor::orphans_consent(
            self.forest,
            name,
            new.subnamespace_of().map(Name::from).as_ref(),
            self.answers,
        )?;
        match new.subnamespace_of() {
            None => Ok(()),
            Some(parent) => self.becomes_child_of(None, parent),
        }
    }

    /// The API server checks this too. But if the namespace is deleted meanwhile, its children would get a new parent without
    /// consent.
    fn name_is_free(&self) -> Check {
        let name = &self.request.name;
        let remains = self.forest.exists(name) && !self.forest.is_terminating(name);
        if !remains || self.forest.children(name).is_empty() {
            return Ok(());
        }
        Err(Denial::already_exists(format!("namespaces {name:?} already exists")).into())
    }

    fn update(&self) -> Check {
        let Request { old, new, .. } = self.request;
        self.keys()?;
        self.managed_values()?;
        self.is_not_given_away()?;
        if old.annotations.get(keys::INITIAL_ADMIN) != new.annotations.get(keys::INITIAL_ADMIN) {
            return Err(anchor::initial_admin_is_fixed());
        }
        match (old.subnamespace_of(), new.subnamespace_of()) {
            (old, new) if old == new => Ok(()),
            (Some(old), None) => self.is_released_by(old),
            (old, Some(new)) => self.becomes_child_of(old.or_else(|| self.present_parent()), new),
            (None, None) => Ok(()),
        }
    }

    fn present_parent(&self) -> Option<&str> {
        self.forest.parent(&self.request.name).map(|parent| &**parent)
    }

    /// The annotation sets the parent, so the rules of a parent judge it, including warnings. Nothing is judged after it.
    fn becomes_child_of(&self, old: Option<&str>, new: &str) -> Check {
        let Request { operation, name, user, .. } = self.request;
        let spec =
            |parent: Option<&str>| hierarchy::Spec { parent: parent.map(Name::from), ..Default::default() };
        let request = hierarchy::Request {
            operation: *operation,
            namespace: name.clone(),
            user: user.clone(),
            old: spec(old),
            new: spec(Some(new)),
            terminating: false,
        };
        match hierarchy::review_annotation(self.forest, &request, self.answers) {
            Verdict::Allow { warnings, .. } if warnings.is_empty() => Ok(()),
            verdict => Err(verdict),
        }
    }

    /// A namespace that loses the annotation keeps its parent, but is no longer a subnamespace of it.
    fn is_released_by(&self, parent: &str) -> Check {
        let question = Question::IsAdmin(parent.into());
        match self.answers.get(&question) {
            None => Err(Verdict::Ask(vec![question])),
            Some(Answer::Yes) => self.keeps_its_parent(parent),
            Some(Answer::Failed(why)) => Err(Denial::internal(format!(
                "could not check whether you are an admin of {parent:?}: {why}"
            ))
            .into()),
            Some(Answer::No | Answer::Terminating) => Err(Denial::unauthorized(format!(
                "user {:?} is not authorized to remove the annotation {} of {:?}: admin rights (update on \
                 hierarchyconfigurations.hnc.x-k8s.io) are needed in namespace {parent:?}, which is its parent",
                self.request.user.name,
                keys::SUBNAMESPACE_OF,
                self.request.name
            ))
            .into()),
        }
    }

    /// Without the annotation the `HierarchyConfiguration` names the parent. If it names another one, or is being deleted, the
    /// namespace would leave its tree without the consent of its root.
    fn keeps_its_parent(&self, parent: &str) -> Check {
        let Request { name, .. } = self.request;
        let forest = self.forest;
        let Some(id) = forest.existing(name).filter(|id| !forest.is_external(*id)) else { return Ok(()) };
        let seen = forest.hierarchy(id);
        if seen.is_some_and(|seen| seen.terminating) {
            return Err(Denial::conflict(format!(
                "the HierarchyConfiguration of {name:?} is being deleted, so {name:?} would lose its parent {parent:?}; wait until it \
                 is gone, or remove its finalizers"
            ))
            .into());
        }
        if seen.and_then(Hierarchy::parent).is_some_and(|said| **forest.name(said) == *parent) {
            return Ok(());
        }
        Err(Denial::unavailable(format!(
            "the HierarchyConfiguration of {name:?} does not name its parent {parent:?} yet; try again in a moment"
        ))
        .into())
    }

    /// Row d.
    fn is_not_given_away(&self) -> Check {
        let Request { name, old, new, .. } = self.request;
        let manager = new.external_manager().filter(|manager| old.external_manager() != Some(*manager));
        match manager.zip(self.present_parent()) {
            None => Ok(()),
            Some((manager, parent)) => Err(Denial::forbidden(format!(
                "namespace {name:?} is a child of {parent:?}, so it cannot be managed by {manager:?}; make it a root first"
            ))
            .into()),
        }
    }

    fn initial_admin_is_the_creator(&self) -> Check {
        let Request { new, user, .. } = self.request;
        match new.annotations.get(keys::INITIAL_ADMIN) {
            Some(named) if named != user.name => Err(anchor::initial_admin_is_fixed()),
            Some(_) if new.subnamespace_of().is_none() => Err(Denial::forbidden(format!(
                "the annotation {} is for subnamespaces, and this namespace has no annotation {}",
                keys::INITIAL_ADMIN,
                keys::SUBNAMESPACE_OF
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// Rows e and f. While the structure is not known, a namespace may be deleted if it is marked neither as a parent nor as a
    /// subnamespace: a namespace outside all trees must not wait.
    fn delete(&self) -> Check {
        let Request { name, old, .. } = self.request;
        let marked = old.labels.get(keys::HAS_CHILDREN).is_some() || old.subnamespace_of().is_some();
        if let Err(unknown) = hierarchy::structure_is_known(self.forest) {
            return if marked { Err(unknown) } else { Ok(()) };
        }
        self.has_no_anchor()?;
        let Some(id) = self.forest.existing(name) else { return Ok(()) };
        anchor::can_be_deleted(self.forest, id)?;
        let subnamespaces: Vec<&str> =
            self.forest.obstructing_subnamespaces(id).into_iter().map(|it| &**it).collect();
        if subnamespaces.is_empty() {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "namespace {name:?} has subnamespaces, which would be deleted with it: {}; set spec.allowCascadingDeletion of its \
             HierarchyConfiguration, or of one above it, to allow that",
            subnamespaces.join(", ")
        ))
        .into())
    }

    fn has_no_anchor(&self) -> Check {
        let Request { name, old, .. } = self.request;
        let Some(parent) = old.subnamespace_of() else { return Ok(()) };
        let forest = self.forest;
        // An anchor does not act on excluded namespaces, so its deletion would not delete this one.
        let acts = [&**name, parent].iter().all(|it| forest.settings().is_managed(it));
        let anchored = acts && forest.id(parent).is_some_and(|id| forest.anchors(id).contains_key(name));
        if !anchored {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "namespace {name:?} is a subnamespace of {parent:?}; delete its anchor there instead: kubectl delete subns {name} \
             -n {parent}"
        ))
        .into())
    }
}
