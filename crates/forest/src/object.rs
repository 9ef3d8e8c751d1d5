//! The objects of propagated kinds: sources, copies, and the index by name.
//!
//! Sources are kept with their content where the stream carries it; copies are remembered as a digest. Never decides
//! where an object belongs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::exceptions::{Exceptions, Unparsable, Withheld};
use crate::tree::Id;
use crate::{Canonical, Digest, KindId, KindSettings, Name, ObjectFact, ObjectKey, Version};

/// An object that was not propagated.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) version: Version,
    /// Why it does not propagate, whatever the hierarchy says.
    pub(crate) excluded: Option<Box<str>>,
    /// What its annotations ask for.
    pub(crate) exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// What its copies look like; `None` from metadata-only streams.
    pub(crate) content: Option<Arc<Canonical>>,
    pub(crate) digest: Option<Digest>,
    /// Of the body alone.
    pub(crate) body: Option<Digest>,
    pub(crate) terminating: bool,
}

impl Source {
    /// The one predicate of propagation, for rules and plans: whether an object of this name and kind goes to a namespace
    /// below that should have these labels.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn goes_to(
        &self,
        kind: &KindSettings,
        name: &str,
        label: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Withheld> {
        goes_to(kind, name, self.excluded.as_deref(), self.exceptions.as_deref(), label)
    }

    /// Whether it depends on a destination's labels where this goes.
    pub(crate) fn looks_at_labels(&self) -> bool {
        matches!(self.exceptions.as_deref(), Some(Ok(exceptions)) if exceptions.looks_at_labels())
    }
}

/// The same of an object that is not, or not yet, in a forest.
pub(crate) fn goes_to(
    kind: &KindSettings,
    name: &str,
    excluded: Option<&str>,
    exceptions: Option<&Result<Exceptions, Unparsable>>,
    label: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Withheld> {
    match exceptions {
        Some(Err(unparsable)) => return Err(Withheld::Unparsable(unparsable.clone())),
        Some(Ok(exceptions)) => exceptions.admit(kind.mode, label)?,
        None => Exceptions::default().admit(kind.mode, label)?,
    }
    if kind.excluded_names.matches(name) {
        return Err(Withheld::Excluded(
            format!("the name {name:?} is excluded in the HNCConfiguration").into(),
        ));
    }
    excluded.map_or(Ok(()), |why| Err(Withheld::Excluded(why.into())))
}

/// An object with the label `hnc.x-k8s.io/inherited-from`.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) version: Version,
    pub(crate) inherited_from: Name,
    pub(crate) digest: Option<Digest>,
    /// Of the body alone.
    pub(crate) body: Option<Digest>,
    pub(crate) terminating: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Object {
    Source(Source),
    Copy(Copy),
}

impl Object {
    pub(crate) fn from_fact(fact: ObjectFact) -> Self {
        let ObjectFact { version, inherited_from, terminating, excluded, exceptions, content, .. } = fact;
        let digest = content.as_ref().map(|content| content.digest());
        let body = content.as_ref().map(|content| content.body_digest());
        if let Some(inherited_from) = inherited_from {
            Self::Copy(Copy { version, inherited_from, digest, body, terminating })
        } else {
            Self::Source(Source { version, excluded, exceptions, content, digest, body, terminating })
        }
    }

    pub(crate) fn version(&self) -> &Version {
        match self {
            Self::Source(source) => &source.version,
            Self::Copy(copy) => &copy.version,
        }
    }

    /// The digest of the body; `None` from metadata-only streams.
    pub(crate) fn body(&self) -> Option<Digest> {
        match self {
            Self::Source(source) => source.body,
            Self::Copy(copy) => copy.body,
        }
    }

    pub(crate) fn is_terminating(&self) -> bool {
        match self {
            Self::Source(source) => source.terminating,
            Self::Copy(copy) => copy.terminating,
        }
    }

    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::Source(source) => Some(source),
            Self::Copy(_) => None,
        }
    }

    /// Whether a reader of this object would see what propagation is about the same in both.
    pub(crate) fn propagates_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Source(one), Self::Source(other)) => {
                one.excluded == other.excluded
                    && one.exceptions == other.exceptions
                    && one.digest == other.digest
            }
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Objects {
    by_namespace: HashMap<Id, BTreeMap<ObjectKey, Object>>,
    /// Where sources of a name are.
    sources: HashMap<ObjectKey, BTreeSet<Id>>,
}

impl Objects {
    pub(crate) fn get(&self, namespace: Id, key: &ObjectKey) -> Option<&Object> {
        self.by_namespace.get(&namespace)?.get(key)
    }

    pub(crate) fn source(&self, namespace: Id, key: &ObjectKey) -> Option<&Source> {
        self.get(namespace, key)?.source()
    }

    /// The objects in a namespace, by kind and name.
    pub(crate) fn within(&self, namespace: Id) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.by_namespace.get(&namespace).into_iter().flatten()
    }

    /// The namespaces that have a source of this kind and name.
    pub(crate) fn holders(&self, key: &ObjectKey) -> Option<&BTreeSet<Id>> {
        self.sources.get(key)
    }

    /// All places of objects of a kind, for telling what a complete list no longer holds.
    pub(crate) fn places(&self, kind: KindId) -> Vec<(Id, ObjectKey)> {
        let of_kind = |key: &&ObjectKey| key.kind == kind;
        self.by_namespace
            .iter()
            .flat_map(|(id, objects)| objects.keys().filter(of_kind).map(|key| (*id, key.clone())))
            .collect()
    }

    /// Puts the object in its place and gives back what was there.
    pub(crate) fn insert(&mut self, namespace: Id, key: ObjectKey, object: Object) -> Option<Object> {
        if object.source().is_some() {
            self.sources.entry(key.clone()).or_default().insert(namespace);
        } else {
            self.unindex(namespace, &key);
        }
        self.by_namespace.entry(namespace).or_default().insert(key, object)
    }

    pub(crate) fn remove(&mut self, namespace: Id, key: &ObjectKey) -> Option<Object> {
        self.unindex(namespace, key);
        let objects = self.by_namespace.get_mut(&namespace)?;
        let removed = objects.remove(key);
        if objects.is_empty() {
            self.by_namespace.remove(&namespace);
        }
        removed
    }

    fn unindex(&mut self, namespace: Id, key: &ObjectKey) {
        if let Some(holders) = self.sources.get_mut(key) {
            holders.remove(&namespace);
            if holders.is_empty() {
                self.sources.remove(key);
            }
        }
    }
}
