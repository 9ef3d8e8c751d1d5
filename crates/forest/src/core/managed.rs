//! Which namespaces are managed. The name decides, not the state.

use std::collections::BTreeSet;

use regex::Regex;

/// The names of managed namespaces: those that match a pattern and are not excluded.
#[derive(Debug, Clone)]
pub struct ManagedNames {
    own: Box<str>,
    excluded: BTreeSet<Box<str>>,
    included: Regex,
}

/// Why a namespace is not managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmanaged {
    /// The program itself runs in it.
    Own,
    /// It is excluded by name.
    Excluded,
    /// It does not match the pattern of included names, which is given.
    NotIncluded(Box<str>),
}

impl ManagedNames {
    /// `own` is the namespace of the installation, which is excluded too. `included` must be anchored: it is matched against whole
    /// names.
    pub fn new<S: AsRef<str>>(own: &str, excluded: impl IntoIterator<Item = S>, included: Regex) -> Self {
        let excluded = excluded.into_iter().map(|name| Box::from(name.as_ref())).collect();
        Self { own: own.into(), excluded, included }
    }

    /// Whether `namespace` is excluded by name.
    pub fn is_excluded(&self, namespace: &str) -> bool {
        *self.own == *namespace || self.excluded.contains(namespace)
    }

    /// Why `namespace` is not managed, or `None` when it is. The empty name ("no parent") counts as managed.
    pub fn unmanaged(&self, namespace: &str) -> Option<Unmanaged> {
        if namespace.is_empty() {
            None
        } else if *self.own == *namespace {
            Some(Unmanaged::Own)
        } else if self.excluded.contains(namespace) {
            Some(Unmanaged::Excluded)
        } else if self.included.is_match(namespace) {
            None
        } else {
            Some(Unmanaged::NotIncluded(self.included.as_str().into()))
        }
    }

    /// Whether `namespace` is managed.
    pub fn contains(&self, namespace: &str) -> bool {
        self.unmanaged(namespace).is_none()
    }
}
