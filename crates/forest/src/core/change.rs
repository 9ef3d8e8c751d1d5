//! What an applied fact touched, so that only that is planned again.

use std::collections::{BTreeSet, HashMap};

use super::kind::ObjectKey;
use super::name::Name;

/// The namespaces whose plan may have changed, and which part of it.
///
/// Guarantee: the plan of a namespace that is not listed here has not changed. For a listed namespace, the writes outside the
/// listed scope have not changed, though their order may have. The reverse does not hold: a plan for a touched namespace may be
/// empty.
///
/// Two events touch nothing although plans differ. When a stream is lost, plans drop everything that depends on it; everything is
/// touched when the stream is back. When a failed write becomes unnecessary, the controller finds out by planning again after the
/// failure.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Every namespace is touched, in its whole scope.
    pub everything: bool,
    /// The touched namespaces.
    pub namespaces: HashMap<Name, Scope>,
}

impl Change {
    /// Whether nothing is touched.
    pub fn is_empty(&self) -> bool {
        !self.everything && self.namespaces.is_empty()
    }

    /// Adds what `other` touches.
    pub fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        for (name, scope) in other.namespaces {
            self.namespaces.entry(name).or_default().merge(scope);
        }
    }

    pub(crate) fn structure(&mut self, name: Name) {
        self.namespaces.entry(name).or_default().structure = true;
    }

    pub(crate) fn quotas(&mut self, name: Name) {
        self.namespaces.entry(name).or_default().quotas = true;
    }

    pub(crate) fn whole(&mut self, name: Name) {
        *self.namespaces.entry(name).or_default() = Scope::whole();
    }

    pub(crate) fn object(&mut self, name: Name, key: ObjectKey) {
        self.namespaces.entry(name).or_default().object(key);
    }
}

/// Which part of a namespace is touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace itself: its labels, and what is reported about it.
    pub structure: bool,
    /// Its derived quota, and the status of its hierarchical quotas.
    pub quotas: bool,
    /// The objects in it.
    pub objects: ObjectScope,
}

impl Scope {
    /// The namespace, its quotas and all its objects.
    pub fn whole() -> Self {
        Self { structure: true, quotas: true, objects: ObjectScope::All }
    }

    /// The namespace itself, without its objects.
    pub fn structure() -> Self {
        Self { structure: true, ..Self::default() }
    }

    /// The quotas of the namespace.
    pub fn quotas() -> Self {
        Self { quotas: true, ..Self::default() }
    }

    pub(crate) fn object(&mut self, key: ObjectKey) {
        self.objects.merge(ObjectScope::Some(BTreeSet::from([key])));
    }

    /// Adds what `other` touches.
    pub fn merge(&mut self, other: Self) {
        self.structure |= other.structure;
        self.quotas |= other.quotas;
        self.objects.merge(other.objects);
    }
}

/// Which objects of a namespace are touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ObjectScope {
    /// None.
    #[default]
    None,
    /// Just these.
    Some(BTreeSet<ObjectKey>),
    /// All, of every kind.
    All,
}

impl ObjectScope {
    /// Whether the scope includes this object.
    pub fn includes(&self, key: &ObjectKey) -> bool {
        match self {
            Self::None => false,
            Self::Some(keys) => keys.contains(key),
            Self::All => true,
        }
    }

    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::All, _) | (_, Self::None) => {}
            (Self::Some(mine), Self::Some(theirs)) => mine.extend(theirs),
            (mine, theirs) => *mine = theirs,
        }
    }
}
