//! Which of the hierarchy's own labels and annotations a request may change.
//!
//! Each check compares before and after: a value that does not change is not judged, so that users can change anything else.

use super::{Request, Review};
use crate::hnc::keys::{EXCLUDED, EXTERNALLY_MANAGED_BY, HAS_CHILDREN, INCLUDED, TREE_LABEL};
use crate::hnc::rules::{Answer, Question, all_answered};
use crate::hnc::rules::{Check, Denial, Operation, Verdict};

impl Review<'_> {
    pub(super) fn keys(&self) -> Check {
        self.tree_labels()?;
        self.included()?;
        self.excluded()?;
        self.marker()?;
        self.external_manager()
    }

    /// Row a. A managed namespace may be created without the label; the controller adds it: users can create namespaces even
    /// while the mutating webhook is down.
    fn included(&self) -> Check {
        let Request { operation, name, old, new, .. } = self.request;
        let (before, after) = (old.labels.get(INCLUDED), new.labels.get(INCLUDED));
        let added_later = *operation == Operation::Create && after.is_none();
        if before == after || added_later {
            return Ok(());
        }
        match (self.forest.settings().unmanaged(name), after) {
            (None, Some("true")) | (Some(_), None) => Ok(()),
            (None, _) => Err(forbidden(format!(
                "the label {INCLUDED} of namespace {name:?} must stay \"true\", because the namespace is managed"
            ))),
            (Some(why), Some(_)) => {
                Err(forbidden(format!("namespace {name:?} {why}, so it cannot have the label {INCLUDED}")))
            }
        }
    }

    fn excluded(&self) -> Check {
        let Request { name, old, new, .. } = self.request;
        let after = new.labels.get(EXCLUDED);
        let free = after.is_none() || after == old.labels.get(EXCLUDED);
        if free || (after == Some("true") && self.forest.settings().is_listed(name)) {
            return Ok(());
        }
        Err(forbidden(format!(
            "only a namespace that excludedNamespaces in the settings of hns names can have the label \
             {EXCLUDED}, with the value \"true\"; {name:?} is not or would not"
        )))
    }

    fn marker(&self) -> Check {
        let Request { old, new, .. } = self.request;
        if old.labels.get(HAS_CHILDREN) == new.labels.get(HAS_CHILDREN) {
            return Ok(());
        }
        Err(forbidden(format!(
            "the label {HAS_CHILDREN} follows the hierarchy and cannot be set, changed or removed by hand"
        )))
    }

    /// Only identities that the operator has named set the external manager of a namespace. Without a manager the namespace
    /// returns to this hierarchy; its admin may decide that too, because the tool may no longer exist.
    fn external_manager(&self) -> Check {
        let Request { name, old, new, user, .. } = self.request;
        let (before, after) = (old.external_manager(), new.external_manager());
        if before == after {
            return Ok(());
        }
        let named = |manager: &str| {
            let identities = self.forest.settings().external_managers.iter();
            user.is_any_of(identities.filter(|(value, _)| value == manager).map(|(_, identity)| identity))
        };
        let by_its_manager = before.is_none_or(named);
        match after {
            Some(manager) if named(manager) && by_its_manager => Ok(()),
            None if by_its_manager => Ok(()),
            None => self.is_admin_of_itself(),
            Some(manager) => Err(forbidden(format!(
                "namespace {name:?} cannot be given to the manager {manager:?} (annotation {EXTERNALLY_MANAGED_BY}) by {:?}; \
                 externalManagers in the settings of hns names who may",
                user.name
            ))),
        }
    }

    fn is_admin_of_itself(&self) -> Check {
        let Request { name, user, .. } = self.request;
        let question = Question::IsAdmin(name.clone());
        all_answered(std::slice::from_ref(&question), self.answers)?;
        if self.answers[&question] == Answer::Yes {
            return Ok(());
        }
        Err(forbidden(format!(
            "{:?} may not remove the annotation {EXTERNALLY_MANAGED_BY}: it takes an admin of {name:?} or its manager",
            user.name
        )))
    }

    /// Row c: network policies and selectors trust tree labels, so only the controller adds, changes or removes one, on any
    /// namespace. On an external one, its manager does; but such a label must not name an existing managed namespace. A new
    /// namespace may have its own, which a policy adds.
    fn tree_labels(&self) -> Check {
        let Request { name, old, new, .. } = self.request;
        let is_tree = |(key, _): &(&str, &str)| key.contains(TREE_LABEL);
        let set = new
            .labels
            .iter()
            .filter(is_tree)
            .filter(|(key, value)| old.labels.get(key) != Some(*value) && !self.is_own_depth(key, value));
        let removed = old.labels.iter().filter(is_tree).filter(|(key, _)| new.labels.get(key).is_none());
        let touched: Vec<&str> = set.chain(removed).map(|(key, _)| key).collect();
        if touched.is_empty() {
            return Ok(());
        }
        if !self.is_the_external_manager() {
            return Err(forbidden(format!(
                "tree labels follow the hierarchy and cannot be set, changed or removed by hand: {}; to move a namespace, set \
                 spec.parent of its HierarchyConfiguration",
                touched.join(", ")
            )));
        }
        let here = touched
            .iter()
            .filter_map(|key| key.strip_suffix(TREE_LABEL))
            .find(|ancestor| **ancestor != **name && self.forest.exists(ancestor));
        match here {
            None => Ok(()),
            Some(ancestor) => Err(Denial::conflict(format!(
                "a tree label of an external namespace cannot name {ancestor:?}, which is a namespace of this cluster"
            ))
            .into()),
        }
    }

    fn is_own_depth(&self, key: &str, value: &str) -> bool {
        let Request { operation, name, .. } = self.request;
        *operation == Operation::Create
            && key.strip_suffix(TREE_LABEL) == Some(&**name)
            && value == "0"
            && self.forest.settings().unmanaged(name).is_none()
    }

    fn is_the_external_manager(&self) -> bool {
        let Request { new, user, .. } = self.request;
        let identities = self.forest.settings().external_managers.iter();
        let named = identities.filter(|(value, _)| Some(value.as_str()) == new.external_manager());
        user.is_any_of(named.map(|(_, identity)| identity))
    }
}

fn forbidden(message: String) -> Verdict {
    Denial::forbidden(message).into()
}
