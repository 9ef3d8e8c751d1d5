//! Failed writes and conflicts, until they are settled. Decides nothing about retries.

use super::Store;
use crate::core::change::Change;
use crate::core::kind::ObjectKey;
use crate::core::name::Name;
use crate::core::text::{QUOTE, limited};

/// Why an object is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) why: Box<str>,
    /// A conflict: no write was tried.
    pub(crate) is_conflict: bool,
}

impl Store {
    /// A failure in a deleted namespace is not recorded: no later fact would settle it.
    pub(crate) fn failed(
        &mut self,
        namespace: Name,
        key: ObjectKey,
        mut failure: Failure,
        change: &mut Change,
    ) {
        if !self.exists(&namespace) {
            return;
        }
        failure.why = limited(&failure.why, QUOTE).into();
        let failed = self.failures.entry(namespace.clone()).or_default();
        if failed.insert(key, failure.clone()) != Some(failure) {
            self.note_conflicts(&namespace, change);
            change.structure(namespace);
        }
    }

    pub(crate) fn settled(&mut self, namespace: &Name, key: &ObjectKey, change: &mut Change) {
        if let Some(failed) = self.failures.get_mut(namespace)
            && failed.remove(key).is_some()
        {
            if failed.is_empty() {
                self.failures.remove(namespace);
            }
            self.note_conflicts(namespace, change);
            change.structure(namespace.clone());
        }
    }

    /// Whether the last writes of this object failed.
    pub fn has_failed(&self, namespace: &Name, key: &ObjectKey) -> bool {
        self.failures.get(namespace).and_then(|failed| failed.get(key)).is_some_and(|it| !it.is_conflict)
    }

    /// Whether this object is known to be in conflict.
    pub(crate) fn is_conflict(&self, namespace: &Name, key: &ObjectKey) -> bool {
        self.failures.get(namespace).and_then(|failed| failed.get(key)).is_some_and(|it| it.is_conflict)
    }

    /// Conflicts are shown on the namespace and on all namespaces above.
    pub(super) fn note_conflicts(&mut self, namespace: &Name, change: &mut Change) {
        let failed = self.failures.get(namespace);
        let has_some = failed.is_some_and(|failed| failed.values().any(|failure| failure.is_conflict));
        let known = if has_some {
            !self.conflicted.insert(namespace.clone())
        } else {
            self.conflicted.remove(namespace)
        };
        self.tree.links_matter_above(!self.conflicted.is_empty());
        if (has_some || known)
            && let Some(id) = self.tree.id(namespace)
        {
            self.tree
                .ancestry(id)
                .path
                .iter()
                .for_each(|above| change.structure(self.tree.name(*above).clone()));
        }
    }
}
