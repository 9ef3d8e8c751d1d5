//! `subnamespaceanchors.hnc.x-k8s.io`: who may create and delete which subnamespace (section 7.4 of docs/compatibility.md).
//!
//! "Row N" is a row of the table in that section.
//!
//! RBAC on anchors decides who may create subnamespaces. An anchor that is being deleted is not judged again; a policy guards its
//! finalizer. The stored state of an anchor does not count, because users may write it, with one exception: `Conflict` stays until
//! the controller removes it.

use std::collections::BTreeSet;

use super::{Answer, Answers, Question, WaitFor, all_answered, first_refused};
use super::{Cause, Check, Denial, Operation, ParentChange, User, Verdict, hierarchy, managed_keys};
use crate::core::labels::Labels;
use crate::core::name::Name;
use crate::core::name::is_namespace_name;
use crate::core::stream::Stream;
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::anchor::AnchorState;
use crate::hnc::keys;
use crate::hnc::quota::exceeded_by_move;
use crate::hnc::words::listed;

#[cfg(test)]
mod tests;

/// A request that creates, changes or deletes an anchor.
#[derive(Debug, Clone)]
pub struct Request {
    /// Create, update or delete.
    pub operation: Operation,
    /// Its namespace: the parent.
    pub parent: Name,
    /// Its name: the child.
    pub child: Name,
    /// The requesting user.
    pub user: User,
    /// `spec.labels` afterwards.
    pub labels: Vec<(String, String)>,
    /// `spec.annotations` afterwards.
    pub annotations: Vec<(String, String)>,
    /// `spec.labels` and `spec.annotations` before; empty for a new anchor.
    pub old: (Labels, Labels),
    /// The annotation `hnc.x-k8s.io/initial-admin` before and after.
    pub initial_admin: (Option<String>, Option<String>),
    /// `status.status` before and after.
    pub state: (Option<String>, Option<String>),
    /// Whether the request adds an owner reference.
    pub adds_owner: bool,
    /// Whether the request removes the controller's finalizer from an anchor that is not being deleted.
    pub removes_finalizer: bool,
}

/// Judges `request` with the `answers` so far.
pub fn review(forest: &Forest, request: &Request, answers: &Answers) -> Verdict {
    let review = Review { forest, request, answers };
    let judged = match request.operation {
        Operation::Create => review.create(),
        Operation::Update => review.update(),
        Operation::Delete => review.delete().map(|()| Vec::new()),
    };
    let verdict = judged.map_or_else(|verdict| verdict, Verdict::warn);
    verdict.with_change(|| match request.operation {
        Operation::Create => Some(creation(forest, request)),
        Operation::Delete => {
            let depends_on_children = forest.id(&request.child).is_some_and(|id| {
                deletes_its_namespace(forest, request)
                    && !forest.is_terminating(&request.child)
                    && !forest.allows_cascading_deletion(id)
            });
            depends_on_children.then(|| ParentChange { deletes: true, ..creation(forest, request) })
        }
        Operation::Update => None,
    })
}

/// Whether the namespace is deleted with the anchor, by the state of the forest. The controller deletes none with an anchor in an
/// excluded namespace.
fn deletes_its_namespace(forest: &Forest, request: &Request) -> bool {
    forest.anchor_state(&request.parent, &request.child) == AnchorState::Ok
        && forest.settings().is_managed(&request.parent)
}

/// The anchor creates a namespace, so no other request may name that as its missing parent before the anchor is seen.
fn creation(forest: &Forest, request: &Request) -> ParentChange {
    let Request { parent, child, .. } = request;
    ParentChange {
        child: child.clone(),
        parent_is_in: Stream::ANCHORS,
        links: Vec::new(),
        missing_parent: None,
        added_to: Vec::new(),
        anchor_in: Some(parent.clone()),
        deletes: false,
        decides_below: false,
        consenting: forest.children(child),
    }
}

struct Review<'a> {
    forest: &'a Forest,
    request: &'a Request,
    answers: &'a Answers,
}

impl Review<'_> {
    fn create(&self) -> Check<Vec<String>> {
        self.well_formed()?;
        self.both_are_managed()?;
        if self.request.user.is_any_of(&self.forest.settings().restore_identities) {
            return Ok(Vec::new());
        }
        self.initial_admin_is_the_creator()?;
        hierarchy::structure_is_known(self.forest)?;
        hierarchy::in_one_hierarchy(self.forest, [&self.request.parent, &self.request.child])?;
        hierarchy::not_below_one_that_ends(self.forest, &self.request.parent)?;
        self.child_is_free_or_below_this_parent()?;
        self.parent_is_not_below()?;
        hierarchy::within_limits(self.forest, &self.request.parent, &self.request.child)?;
        self.keys_stay(self.configured())?;
        self.only_an_admin_adds_an_owner()?;
        let mut warnings = self.orphans_join()?;
        warnings.extend(self.creates_nothing().into_iter().chain(self.lost_keys()));
        Ok(warnings)
    }

    /// A manifest may contain the status of the anchor that it was made from.
    fn creates_nothing(&self) -> Option<String> {
        let is_in_conflict = self.request.state.1.as_deref() == Some(AnchorState::Conflict.as_str());
        is_in_conflict.then(|| {
            format!(
                "the new anchor {:?} has the status Conflict already, so it creates no namespace; delete it, and create it without \
                 `status`",
                self.request.child
            )
        })
    }

    /// Who creates a lost anchor again may not know that it replaces what the first one has set.
    fn lost_keys(&self) -> Option<String> {
        let (labels, annotations) = self.configured()?;
        let Request { child, labels: new_labels, annotations: new_annotations, .. } = self.request;
        let mut lost: BTreeSet<Name> = BTreeSet::new();
        for (before, after) in [(&labels, new_labels), (&annotations, new_annotations)] {
            let stays = |pair: &(&str, &str)| after.iter().any(|(key, value)| (&**key, &**value) == *pair);
            lost.extend(before.iter().filter(|pair| !stays(pair)).map(|(key, _)| Name::from(key)));
        }
        (!lost.is_empty()).then(|| {
            format!(
                "the new anchor has not all labels and annotations that the HierarchyConfiguration in {child:?} has; it removes or \
                 changes {}",
                listed(&lost.iter().collect())
            )
        })
    }

    fn update(&self) -> Check<Vec<String>> {
        self.well_formed()?;
        self.initial_admin_stays()?;
        self.conflict_stays()?;
        self.no_update_before_conflict_is_shown()?;
        self.only_an_admin_adds_an_owner()?;
        self.only_an_admin_removes_the_finalizer()?;
        self.keys_stay(Some(self.request.old.clone()))?;
        // The controller may not have been able to act on the anchor before this change.
        self.orphans_join()
    }

    /// The garbage collector deletes an anchor whose owner is deleted, and then the subnamespace is deleted too. The garbage
    /// collector may delete everything, so the rule judges the user who adds the owner reference. Otherwise a user with the
    /// right to write anchors could delete namespaces.
    fn only_an_admin_adds_an_owner(&self) -> Check {
        if !self.request.adds_owner {
            return Ok(());
        }
        self.only_an_admin_may(
            "add an owner reference to",
            "the subnamespace would be deleted with the owner",
        )
    }

    /// Without the finalizer, an anchor can be deleted without its subnamespace, which no quota on anchors would count then.
    fn only_an_admin_removes_the_finalizer(&self) -> Check {
        if !self.request.removes_finalizer {
            return Ok(());
        }
        let why = "the anchor could be deleted without its subnamespace; leave the finalizer, and delete the anchor if you do \
                   not need the subnamespace";
        self.only_an_admin_may("remove the finalizer of", why)
    }

    fn only_an_admin_may(&self, change: &str, why: &str) -> Check {
        let Request { parent, child, user, .. } = self.request;
        let question = Question::IsAdmin(parent.clone());
        all_answered(std::slice::from_ref(&question), self.answers)?;
        if self.answers[&question] == Answer::Yes {
            return Ok(());
        }
        Err(Denial::unauthorized(format!(
            "user {:?} is not authorized to {change} the anchor {child:?}: {why}; admin rights (update on \
             hierarchyconfigurations.hnc.x-k8s.io) are needed in namespace {parent:?}",
            user.name
        ))
        .into())
    }

    /// The labels and annotations of an existing subnamespace whose lost anchor is created again.
    fn configured(&self) -> Option<(Labels, Labels)> {
        let forest = self.forest;
        let seen = forest.hierarchy(forest.existing(&self.request.child)?);
        Some(seen.map(|seen| (seen.labels().clone(), seen.annotations().clone())).unwrap_or_default())
    }

    /// The labels and annotations of an anchor replace those of its subnamespace. Only an admin of the subnamespace or of its
    /// parent may change them.
    fn keys_stay(&self, before: Option<(Labels, Labels)>) -> Check {
        let Request { parent, child, user, labels, annotations, .. } = self.request;
        let listed = |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| (key, value)).collect();
        let after: (Labels, Labels) = (listed(labels), listed(annotations));
        if before.is_none_or(|before| before == after) {
            return Ok(());
        }
        let questions = [Question::IsAdmin(child.clone()), Question::IsAdmin(parent.clone())];
        if questions.iter().any(|question| self.answers.get(question) == Some(&Answer::Yes)) {
            return Ok(());
        }
        all_answered(&questions, self.answers)?;
        Err(Denial::unauthorized(format!(
            "user {:?} is not authorized to change the labels and annotations that {child:?} gets from its anchor: admin rights \
             (update on hierarchyconfigurations.hnc.x-k8s.io) are needed in namespace {child:?} or in its parent {parent:?}; \
             an anchor that is created again must have the labels and annotations of the HierarchyConfiguration in {child:?}",
            user.name
        ))
        .into())
    }

    /// Rows 1 and 2.
    fn well_formed(&self) -> Check {
        let Request { child, labels, annotations, .. } = self.request;
        if !is_namespace_name(child) {
            return Err(Denial::invalid(vec![Cause::invalid(
                "metadata.name",
                child,
                "becomes the name of a namespace, so it must be a DNS label: at most 63 lower-case letters, digits and \
                 '-', the first and last a letter or a digit",
            )])
            .into());
        }
        managed_keys::check(self.forest.settings(), [labels, annotations], [&[], &[]])
    }

    /// Rows 3 and 4.
    fn both_are_managed(&self) -> Check {
        let Request { parent, child, .. } = self.request;
        let places = [(parent, "it can have no subnamespaces"), (child, "it cannot be a subnamespace")];
        for (name, consequence) in places {
            if let Some(why) = self.forest.settings().unmanaged(name) {
                return Err(Denial::forbidden(format!("namespace {name:?} {why}, so {consequence}")).into());
            }
        }
        Ok(())
    }

    /// Row 5. A lost anchor of a subnamespace may be created again.
    fn child_is_free_or_below_this_parent(&self) -> Check {
        let Request { parent, child, .. } = self.request;
        match self.forest.anchor_state(parent, child) {
            AnchorState::Ok | AnchorState::Forbidden => Ok(()),
            AnchorState::Missing => self.is_really_missing(child),
            AnchorState::Conflict => Err(self.name_is_taken()),
        }
    }

    /// The child does not exist yet, but namespaces can already be below it.
    fn parent_is_not_below(&self) -> Check {
        let (forest, Request { parent, child, .. }) = (self.forest, self.request);
        let Some((parent, child)) = forest.id(parent).zip(forest.id(child)) else { return Ok(()) };
        forest.may_join(parent, child).map_err(|illegal| {
            Denial::conflict(format!("{:?} cannot be a subnamespace here: {illegal}", forest.name(child)))
                .into()
        })
    }

    fn name_is_taken(&self) -> Verdict {
        let Request { parent, child, .. } = self.request;
        Denial::conflict(format!(
            "namespace {child:?} exists already and is not a subnamespace of {parent:?}; choose another name"
        ))
        .into()
    }

    /// If the forest does not know the child, the rule reads it live.
    fn is_really_missing(&self, child: &Name) -> Check {
        let question = Question::Namespace(child.clone());
        match self.answers.get(&question) {
            None => Err(Verdict::Ask(vec![question])),
            Some(Answer::No) => Ok(()),
            Some(Answer::Failed(why)) => {
                Err(Denial::internal(format!("could not check whether {child:?} exists: {why}")).into())
            }
            Some(Answer::Yes | Answer::Terminating) => {
                let question = Question::Await(WaitFor::Namespace(child.clone()));
                if !self.answers.contains_key(&question) {
                    return Err(Verdict::Ask(vec![question]));
                }
                Err(Denial::unavailable(format!(
                    "namespace {child:?} is being created or deleted; try again in a moment"
                ))
                .into())
            }
        }
    }

    /// The creator of a missing parent gains power over the namespaces that name it as their parent. So the admins of these
    /// namespaces must consent, and nothing in them may be overwritten.
    fn orphans_join(&self) -> Check<Vec<String>> {
        let (forest, answers, Request { parent, child, .. }) = (self.forest, self.answers, self.request);
        orphans_consent(forest, child, Some(parent), answers)?;
        if forest.exists(child) || forest.children(child).is_empty() {
            return Ok(Vec::new());
        }
        let kept = hierarchy::no_conflicts((forest, answers), parent, child)?;
        Ok(kept.into_iter().chain(exceeded_by_move(forest, parent, child)).collect())
    }

    /// Row 6. The forest decides, not the stored state of the anchor.
    fn delete(&self) -> Check {
        let Request { parent, child, .. } = self.request;
        hierarchy::structure_is_known(self.forest)?;
        if !deletes_its_namespace(self.forest, self.request) {
            return Ok(());
        }
        let Some(id) = self.forest.id(child) else { return Ok(()) };
        // The namespace controller deletes the anchors in a namespace that is being deleted.
        if !self.forest.is_terminating(parent) {
            can_be_deleted(self.forest, id)?;
        }
        // The deletion of a namespace that is being deleted is not judged again. The namespace controller deletes its anchor.
        if self.forest.is_terminating(child)
            || self.forest.allows_cascading_deletion(id)
            || self.forest.downstream(id).is_empty() && !self.forest.has_waiting_anchors(id)
        {
            return Ok(());
        }
        let is_going = |it: &&Id| self.forest.is_terminating(self.forest.name(**it));
        let (going, children): (Vec<&Id>, Vec<&Id>) = self.forest.downstream(id).iter().partition(is_going);
        let is_sub = |it: &&Id| self.forest.subnamespace_of(**it).is_some();
        let (subs, full): (Vec<&Id>, Vec<&Id>) = children.iter().copied().partition(is_sub);
        let listed = |ids: &[&Id]| listed(&ids.iter().map(|id| self.forest.name(**id)).collect());
        if children.is_empty() && !self.forest.has_waiting_anchors(id) {
            return Err(Denial::forbidden(format!(
                "the subnamespace {child:?} has children, which are being deleted: {}; try again when they are gone",
                listed(&going)
            ))
            .into());
        }
        let with = match (&*subs, &*full) {
            ([], []) => " with its subnamespaces".to_owned(),
            ([], _) => String::new(),
            _ => format!(" with these subnamespaces: {}", listed(&subs)),
        };
        let orphans = if full.is_empty() {
            String::new()
        } else {
            format!(
                "; these full namespaces would stay and lose their parent, unless you give them another one first (kubectl hns set \
                 NAME --parent PARENT): {}",
                listed(&full)
            )
        };
        Err(Denial::forbidden(format!(
            "the subnamespace {child:?} has children; set spec.allowCascadingDeletion of its HierarchyConfiguration, or of \
             one above it, to delete it{with}{orphans}"
        ))
        .into())
    }

    fn initial_admin_is_the_creator(&self) -> Check {
        match &self.request.initial_admin.1 {
            Some(named) if *named != self.request.user.name => Err(initial_admin_is_fixed()),
            _ => Ok(()),
        }
    }

    /// An anchor in conflict creates nothing, even if the name becomes free. Otherwise its user could wait until the other
    /// namespace is deleted, and take over its name.
    fn conflict_stays(&self) -> Check {
        let conflict = |state: &Option<String>| state.as_deref() == Some(AnchorState::Conflict.as_str());
        let (old, new) = &self.request.state;
        if !conflict(old) || conflict(new) {
            return Ok(());
        }
        Err(Denial::forbidden(format!(
            "the anchor {:?} is in conflict, and only the controller may change that; delete the anchor and create it again",
            self.request.child
        ))
        .into())
    }

    /// Row 5 on UPDATE: an anchor whose name is taken may be updated only after it shows the state `Conflict`. Otherwise a user
    /// could create an anchor that is too large for the controller to update, make it smaller, and wait until the name is free.
    fn no_update_before_conflict_is_shown(&self) -> Check {
        let Request { parent, child, state: (old, new), .. } = self.request;
        let is_shown = [old, new].into_iter().flatten().any(|state| state == AnchorState::Conflict.as_str());
        if is_shown || self.forest.anchor_state(parent, child) != AnchorState::Conflict {
            return Ok(());
        }
        Err(self.name_is_taken())
    }

    fn initial_admin_stays(&self) -> Check {
        let (old, new) = &self.request.initial_admin;
        if old == new { Ok(()) } else { Err(initial_admin_is_fixed()) }
    }
}

/// 403 if Kubernetes never deletes the namespace, or a subnamespace that would be deleted with it.
pub(super) fn can_be_deleted(forest: &Forest, id: Id) -> Check {
    let above = |id| forest.ancestry_of(id).path;
    let goes_along = |id| forest.subnamespace_of(id).is_some();
    forest.permanent_with(id, above, goes_along).map_or(Ok(()), |kept| {
        Err(Denial::forbidden(format!(
            "namespace {kept:?} would have to be deleted, too, but Kubernetes never deletes it; make it a full namespace first: \
             kubectl hns convert {kept} --to full"
        ))
        .into())
    })
}

/// If existing namespaces name a missing namespace as their parent, only an admin of all of them may create it. If it is created
/// elsewhere, and not below `parent`, this moves them to another place, which needs the same consent as any other move. A namespace
/// that is being deleted counts as missing: it may be gone before the new one is stored.
pub(super) fn orphans_consent(
    forest: &Forest,
    name: &Name,
    parent: Option<&Name>,
    answers: &Answers,
) -> Check {
    // A webhook that has just started knows no orphans yet.
    hierarchy::structure_is_known(forest)?;
    if forest.exists(name) && !forest.is_terminating(name) {
        return Ok(());
    }
    let orphans = forest.children(name);
    let questions: Vec<Question> = orphans.iter().cloned().map(Question::IsAdmin).collect();
    if first_refused(&questions, answers)?.is_none() {
        return hierarchy::orphans_may_move(forest, &orphans, parent, answers);
    }
    let is_refused = |question| answers.get(question).is_some_and(|answer| *answer != Answer::Yes);
    let asked = orphans.iter().zip(&questions);
    let refusing: Vec<String> =
        asked.filter(|(_, question)| is_refused(question)).map(|(orphan, _)| format!("{orphan:?}")).collect();
    Err(Denial::forbidden(format!(
        "{name:?} is the missing parent of existing namespaces, so only an admin of all of them may create it; you are not \
         admin of: {}",
        refusing.join(", ")
    ))
    .into())
}

pub(super) fn initial_admin_is_fixed() -> Verdict {
    Denial::forbidden(format!(
        "the annotation {} names the creator, is recorded when the object is created, and cannot be changed; leave it out of the request",
        keys::INITIAL_ADMIN
    ))
    .into()
}
