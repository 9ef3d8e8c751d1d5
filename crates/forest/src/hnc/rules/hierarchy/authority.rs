//! Row 12: whose consent a change of parent needs.
//!
//! Authority is inherited: the admin of a namespace is admin of all namespaces below, and joining a tree needs the consent of its
//! admin. "Admin of N" is a right on `N`'s `HierarchyConfiguration`, which the API server checks.

use super::super::{Answer, Question};
use super::{Review, Way};
use crate::core::name::Name;
use crate::core::verdict::Presence;
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

    /// The table of section 7.3. If the present parent is deleted, no consent of the old tree is needed, but the consent of the
    /// new parent still is. HNC lets an orphan join any tree.
    fn consents_above(&self) -> Check<Vec<Consent>> {
        let Some(current) = self.managed_current_parent() else {
            return Ok(self.joining());
        };
        if matches!(self.presence(current)?, Presence::Absent) {
            return Ok(self.joining());
        }
        Ok(match &self.request.new.parent {
            None => vec![leaving(self.forest, current)],
            Some(parent) if !self.forest.exists(parent) => vec![leaving(self.forest, current)],
            Some(parent) => between(self.forest, current, parent),
        })
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

fn leaving(forest: &Forest, current: &Name) -> Consent {
    let root = forest.id(current).map(|id| forest.name(forest.root(id)));
    Consent { namespace: root.unwrap_or(current).clone(), role: "the root of the tree that it would leave" }
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
    use crate::hnc::rules::hierarchy::{Request, Spec, review};
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
