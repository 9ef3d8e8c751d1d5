//! Row 12: whose consent a change of parent needs.
//!
//! Authority is inherited: the admin of a namespace is admin of all namespaces below, and joining a tree needs the consent of its
//! admin. "Admin of N" is a right on `N`'s `HierarchyConfiguration`, which the API server checks.

use super::super::{Answer, Answers, Question, WaitFor, all_answered, first_refused};
use super::{Request, Review, Spec, Way};
use crate::core::name::Name;
use crate::core::tree::Id;
use crate::core::verdict::{Presence, wait_for};
use crate::dialects::Forest;
use crate::hnc::rules::{Check, Denial, Verdict};

/// The garbage collector. It may update everything, and it deletes objects because of owner references that users write. So its
/// rights do not show whether the user behind the change has the authority.
const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// A namespace of which the user must be admin, and its role in the change.
struct Consent {
    namespace: Name,
    role: &'static str,
}

impl Review<'_> {
    pub(super) fn user_has_authority(&self) -> Check {
        let needed = self.consents()?;
        if let Some(consent) = needed.first().filter(|_| self.request.user.name == GARBAGE_COLLECTOR) {
            return self.conclude(consent, &Answer::No);
        }
        let questions: Vec<Question> =
            needed.iter().map(|consent| Question::IsAdmin(consent.namespace.clone())).collect();
        let open: Vec<Question> =
            questions.iter().filter(|it| !self.answers.contains_key(it)).cloned().collect();
        if !open.is_empty() {
            return Err(Verdict::Ask(open));
        }
        needed
            .iter()
            .zip(&questions)
            .try_for_each(|(consent, question)| self.conclude(consent, &self.answers[question]))
    }

    fn conclude(&self, Consent { namespace, role }: &Consent, answer: &Answer) -> Check {
        match answer {
            Answer::Yes => Ok(()),
            Answer::Failed(why) => Err(Denial::internal(format!(
                "could not check whether you are an admin of {namespace:?}: {why}"
            ))
            .into()),
            Answer::No | Answer::Terminating => Err(Denial::unauthorized(format!(
                "user {:?} is not authorized to change the parent of {:?}: admin rights (update on \
                 hierarchyconfigurations.hnc.x-k8s.io) are needed in namespace {namespace:?}, which is {role}",
                self.request.user.name, self.request.namespace
            ))
            .into()),
        }
    }

    /// A change of the other fields needs an admin of the namespace: labels and annotations count in all namespaces below, and cascading
    /// deletion lets editors delete them. The right to `create`, `patch` or `delete` the object is not enough.
    pub(super) fn user_may_change_the_rest(&self) -> Check {
        let Request { namespace, user, old, new, .. } = self.request;
        let Spec { parent: _, labels, annotations, allow_cascading_deletion } = old;
        let is_unchanged = (labels, annotations, allow_cascading_deletion)
            == (&new.labels, &new.annotations, &new.allow_cascading_deletion);
        if self.way != Way::Hierarchy || is_unchanged {
            return Ok(());
        }
        let question = Question::IsAdmin(namespace.clone());
        let is_collector = user.name == GARBAGE_COLLECTOR;
        if !is_collector {
            all_answered(std::slice::from_ref(&question), self.answers)?;
        }
        if !is_collector && self.answers[&question] == Answer::Yes {
            return Ok(());
        }
        Err(Denial::unauthorized(format!(
            "user {:?} is not authorized to change the labels, the annotations or allowCascadingDeletion of {namespace:?}: admin \
             rights (update on hierarchyconfigurations.hnc.x-k8s.io) are needed in this namespace",
            user.name
        ))
        .into())
    }

    /// The new parent's admins get rights in the namespace, so its own admin must consent. RBAC on namespaces does not cover that,
    /// nor does the right to `create` or `patch` its `HierarchyConfiguration`, which users may have in all namespaces.
    fn consents(&self) -> Check<Vec<Consent>> {
        let above = self.consents_above()?;
        let namespace = self.request.namespace.clone();
        // In a cycle, the root is the namespace itself.
        if self.way == Way::NewNamespace || above.iter().any(|consent| consent.namespace == namespace) {
            return Ok(above);
        }
        Ok(if self.way == Way::Annotation {
            let itself = Consent { namespace, role: "the namespace that would become a subnamespace" };
            std::iter::once(itself).chain(above).collect()
        } else {
            let itself = Consent { namespace, role: "the namespace whose parent would change" };
            above.into_iter().chain([itself]).collect()
        })
    }

    /// The table of section 7.3. If the present parent is missing, the namespace still belongs where its tree labels say: otherwise
    /// a user could leave a tree by way of a parent that they delete. If that place is missing too, no consent of an old tree is
    /// needed, but the consent of the new parent still is. HNC lets an orphan join any tree.
    fn consents_above(&self) -> Check<Vec<Consent>> {
        let Some(current) = self.managed_current_parent() else {
            return Ok(self.joining());
        };
        let place = if matches!(self.presence(current)?, Presence::Absent) {
            former_place(self.forest, &self.request.namespace)
        } else {
            Some(current)
        };
        let Some(place) = place else { return Ok(self.joining()) };
        self.stays_where_labels_say(place)?;
        Ok(moving(self.forest, place, self.request.new.parent.as_ref()))
    }

    /// If the namespace stays in its tree, the consent of the root is not needed. So a user could place it below a namespace that has
    /// just joined the tree, and is then deleted: what remains of that one are its tree labels. So these must say that it has joined.
    fn stays_where_labels_say(&self, place: &Name) -> Check {
        let (forest, Request { namespace, new, .. }) = (self.forest, self.request);
        let ids = forest.id(place).zip(new.parent.as_ref().and_then(|parent| forest.id(parent)));
        let Some((common, parent)) =
            ids.and_then(|(place, parent)| Some((forest.common_ancestor(place, parent)?, parent)))
        else {
            return Ok(());
        };
        let Some(late) = unlabelled(forest, parent, common) else { return Ok(()) };
        if leaving(forest, place).namespace == *forest.name(common) {
            return Ok(());
        }
        root_consents_or_labels_come(forest, self.answers, (namespace, place), late)
    }

    fn managed_current_parent(&self) -> Option<&Name> {
        let parent = self.request.old.parent.as_ref()?;
        self.forest.settings().is_managed(parent).then_some(parent)
    }

    fn joining(&self) -> Vec<Consent> {
        // A parent that does not exist yet has no admin; row 9 has checked the right to create it.
        let parent = self.request.new.parent.iter().filter(|parent| self.forest.exists(parent)).cloned();
        parent.map(|namespace| Consent { namespace, role: "the new parent" }).collect()
    }
}

/// `namespace` stays in the tree of `place`, but the tree labels of `late`, which would be above it, do not show yet where that is.
fn root_consents_or_labels_come(
    forest: &Forest,
    answers: &Answers,
    (namespace, place): (&Name, &Name),
    late: Id,
) -> Check {
    let (late, root) = (forest.name(late), leaving(forest, place).namespace);
    let is_admin = Question::IsAdmin(root.clone());
    all_answered(std::slice::from_ref(&is_admin), answers)?;
    if answers[&is_admin] == Answer::Yes {
        return Ok(());
    }
    wait_for(answers, WaitFor::TreeLabels(late.clone()), || {
        format!(
            "the tree labels of namespace {late:?} do not show yet where it is, so that {namespace:?} could leave its tree with it; \
             try again in a moment, or ask an admin of {root:?}"
        )
    })
}

/// The first namespace from `below` up to `top`, without `top`, whose tree labels do not name its parent.
fn unlabelled(forest: &Forest, below: Id, top: Id) -> Option<Id> {
    forest.path(below).into_iter().take_while(|id| *id != top).find(|id| !forest.shows_its_parent(*id))
}

/// Where an orphan belongs, according to its tree labels.
fn former_place<'a>(forest: &'a Forest, orphan: &str) -> Option<&'a Name> {
    Some(forest.name(forest.former_place(forest.id(orphan)?)?))
}

/// The missing parent of `orphans` may be created below `parent`, or as a root: they stay in their place, or the user has the consent
/// that their move needs.
pub(in crate::hnc::rules) fn orphans_may_move(
    forest: &Forest,
    orphans: &[Name],
    parent: Option<&Name>,
    answers: &Answers,
) -> Check {
    let stays = |place: &Name| parent.is_some_and(|parent| forest.ancestry(parent).contains(place));
    let mut needed: Vec<(&Name, Consent)> = Vec::new();
    for orphan in orphans {
        let Some(place) = former_place(forest, orphan) else { continue };
        if stays(place) {
            let ids = parent.and_then(|parent| forest.id(parent)).zip(forest.id(place));
            if let Some(late) = ids.and_then(|(parent, place)| unlabelled(forest, parent, place)) {
                root_consents_or_labels_come(forest, answers, (orphan, place), late)?;
            }
            continue;
        }
        for consent in moving(forest, place, parent) {
            if needed.iter().all(|(_, known)| known.namespace != consent.namespace) {
                needed.push((orphan, consent));
            }
        }
    }
    let questions: Vec<Question> =
        needed.iter().map(|(_, consent)| Question::IsAdmin(consent.namespace.clone())).collect();
    let Some(refused) = first_refused(&questions, answers)? else { return Ok(()) };
    let (orphan, Consent { namespace, role }) = &needed[refused];
    Err(Denial::forbidden(format!(
        "{orphan:?} names this namespace as its parent and would change its place in the tree: admin rights (update on \
         hierarchyconfigurations.hnc.x-k8s.io) are needed in namespace {namespace:?}, which is {role}"
    ))
    .into())
}

/// Whose consent a namespace needs that leaves the place below `current`.
fn moving(forest: &Forest, current: &Name, new: Option<&Name>) -> Vec<Consent> {
    match new.filter(|parent| forest.exists(parent)) {
        None => vec![leaving(forest, current)],
        Some(parent) => between(forest, current, parent),
    }
}

fn leaving(forest: &Forest, current: &Name) -> Consent {
    // The root of an orphan is missing.
    let existing = |id: Id| forest.place(id).into_iter().rev().find(|it| forest.is_existing(*it));
    let root = forest.id(current).and_then(|id| {
        let root = forest.root(id);
        if forest.is_existing(root) { Some(root) } else { existing(id) }
    });
    let namespace = root.map_or(current, |root| forest.name(root)).clone();
    Consent { namespace, role: "the root of the tree that it would leave" }
}

fn between(forest: &Forest, current: &Name, parent: &Name) -> Vec<Consent> {
    let common =
        forest.id(current).zip(forest.id(parent)).and_then(|(one, other)| forest.common_ancestor(one, other));
    match common {
        Some(id) => vec![Consent {
            namespace: forest.name(id).clone(),
            role: "the nearest common ancestor of its present and its new parent",
        }],
        None => vec![leaving(forest, current), Consent { namespace: parent.clone(), role: "the new parent" }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::hnc::rules::hierarchy::review;
    use crate::hnc::rules::{Answers, DenialKind, Operation, User};

    #[test]
    fn the_garbage_collectors_own_rights_do_not_count() {
        let forest = Cluster::draw("top, c:top, child:c").forest();
        let verdict = |user: &str, answers: &[(Question, Answer)]| {
            let request = Request {
                operation: Operation::Delete,
                namespace: "child".into(),
                user: User { name: user.into(), groups: vec![] },
                old: Spec { parent: Some("c".into()), ..Spec::default() },
                new: Spec::default(),
                terminating: false,
            };
            review(&forest, &request, &answers.iter().cloned().collect::<Answers>())
        };
        let admin = || (Question::IsAdmin("top".into()), Answer::Yes);
        let stays = (Question::Namespace("child".into()), Answer::Yes);
        let goes = (Question::Namespace("child".into()), Answer::Terminating);
        let own = (Question::IsAdmin("child".into()), Answer::Yes);
        assert!(matches!(verdict("jane", &[admin(), own]), Verdict::Allow { .. }));
        match verdict(GARBAGE_COLLECTOR, &[admin(), stays]) {
            Verdict::Deny(denial) => assert_eq!(denial.kind, DenialKind::Unauthorized),
            verdict => panic!("{verdict:?}"),
        }
        assert!(matches!(verdict(GARBAGE_COLLECTOR, &[goes]), Verdict::Allow { .. }));
    }
}
