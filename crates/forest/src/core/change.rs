//! What an applied fact touched, so that only that is planned again.

use std::collections::{BTreeSet, HashMap};

use super::kind::ObjectKey;
use super::name::Name;

/// The namespaces whose plan may have changed, and in which respect.
///
/// Guarantee: a namespace that is not named here has the plan it had before, and one that is has the same writes outside
/// the named scope, though their order may be another. The reverse does not hold: planning what is touched may find
/// nothing to do.
///
/// Two things touch nothing though plans differ. A lost stream takes what rests on it out of all plans, and everything is
/// touched when it is back. And a failed write that has become unnecessary is found by planning it again, as the
/// controller does after a failure.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Every namespace is touched in every respect.
    pub everything: bool,
    /// The touched namespaces.
    pub namespaces: HashMap<Name, Scope>,
}

impl Change {
    /// Whether nothing was touched.
    pub fn is_empty(&self) -> bool {
        !self.everything && self.namespaces.is_empty()
    }

    /// Adds what `other` touched.
    pub fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        for (name, scope) in other.namespaces {
            self.namespaces.entry(name).or_default().merge(scope);
        }
    }

    pub(crate) fn structure(&mut self, name: Name) {
        self.namespaces.entry(name).or_default().structure = true;
    }

    pub(crate) fn whole(&mut self, name: Name) {
        *self.namespaces.entry(name).or_default() = Scope::whole();
    }

    pub(crate) fn object(&mut self, name: Name, key: ObjectKey) {
        self.namespaces.entry(name).or_default().object(key);
    }
}

/// In which respect one namespace is touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespace itself: its labels, and what is reported about it.
    pub structure: bool,
    /// The objects in it.
    pub objects: ObjectScope,
}

impl Scope {
    /// Every respect.
    pub fn whole() -> Self {
        Self { structure: true, objects: ObjectScope::All }
    }

    /// What a namespace says about itself, and no object in it.
    pub fn structure() -> Self {
        Self { structure: true, objects: ObjectScope::None }
    }

    pub(crate) fn object(&mut self, key: ObjectKey) {
        self.objects.merge(ObjectScope::Some(BTreeSet::from([key])));
    }

    /// Adds what `other` touches.
    pub fn merge(&mut self, other: Self) {
        self.structure |= other.structure;
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
    /// Whether this object is meant.
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
