//! The objects of propagated kinds: sources, copies, and the index by name.
//!
//! Sources are kept with their content where something below may take copies; everything else is remembered as a digest. Never decides
//! where an object belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::content::{Canonical, Digest};
use super::destination::{Exceptions, Unparsable, Withheld, goes_somewhere, goes_to};
use super::kind::{KindId, KindSettings, ObjectKey};
use super::name::Name;
use super::tree::Id;
use super::version::{CompactVersion, Version};

/// An object of a propagated kind as the API server shows it.
#[derive(Debug, Clone)]
pub struct ObjectFact {
    /// Where it is.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The state seen.
    pub version: Version,
    /// The namespace of its source, if the object is marked as a copy.
    pub inherited_from: Option<Name>,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// Why it never propagates, if so.
    pub excluded: Option<Box<str>>,
    /// What its annotations ask for; `None` when they say nothing about propagation.
    pub exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// What is copied and compared; `None` from streams that carry metadata only.
    pub content: Option<Content>,
    /// The Role of its own namespace that a `RoleBinding` refers to; `None` where it refers to a `ClusterRole`, for other kinds,
    /// and from streams that carry metadata only.
    pub role: Option<Name>,
}

impl ObjectFact {
    /// An object that is no copy and says nothing about propagation, from a stream that carries metadata only.
    pub fn new(namespace: Name, name: Name, version: Version) -> Self {
        Self {
            namespace,
            name,
            version,
            inherited_from: None,
            terminating: false,
            excluded: None,
            exceptions: None,
            content: None,
            role: None,
        }
    }
}

/// What is known of an object's content.
#[derive(Debug, Clone)]
pub struct Content {
    /// Of all of it.
    pub digest: Digest,
    /// Of the body alone.
    pub body: Digest,
    /// All of it, where it may have to be copied. A fact may leave it out; it is read when needed
    /// ([`super::plan::Plan::unread`]).
    pub canonical: Option<Arc<Canonical>>,
    /// Whether the cluster has put it in force. A `ResourceQuota` may not be, anything else always is.
    pub in_force: bool,
}

impl Content {
    /// What is known when everything is.
    pub fn whole(canonical: Canonical) -> Self {
        let (digest, body) = (canonical.digest(), canonical.body_digest());
        Self { digest, body, canonical: Some(Arc::new(canonical)), in_force: true }
    }

    /// The same without what it was made of.
    #[must_use]
    pub fn digests(self) -> Self {
        Self { canonical: None, ..self }
    }
}

/// The most bytes of a name that is copied. Encoded, it takes three times as many in a URL, and a proxy before an API server may
/// refuse URLs of more than 4,096 bytes: a copy with a longer name could be created, where the name is in the body, and never
/// deleted.
pub const LONGEST_NAME: usize = 1_024;

/// Whether an object of this name is never copied, because of its length.
pub fn is_name_too_long(name: &str) -> bool {
    name.len() > LONGEST_NAME
}

/// An object that was not propagated.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) version: CompactVersion,
    /// Why it does not propagate, whatever the hierarchy says.
    pub(crate) excluded: Option<Box<str>>,
    /// What its annotations ask for.
    pub(crate) exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// What its copies look like; `None` from metadata-only streams.
    pub(crate) content: Option<Content>,
    /// The Role of its own namespace that it refers to.
    pub(crate) role: Option<Name>,
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

    /// Why it goes nowhere at all, whatever is below, if so.
    pub(crate) fn stays(&self, kind: &KindSettings, name: &str) -> Option<Withheld> {
        goes_somewhere(kind, name, self.excluded.as_deref(), self.exceptions.as_deref()).err()
    }

    /// What its annotations ask for, if they can be understood.
    pub(crate) fn asks(&self) -> Option<&Exceptions> {
        self.exceptions.as_deref()?.as_ref().ok()
    }

    /// Whether it depends on a destination's labels where this goes.
    pub(crate) fn looks_at_labels(&self) -> bool {
        matches!(self.exceptions.as_deref(), Some(Ok(exceptions)) if exceptions.looks_at_labels())
    }
}

/// An object that is marked as a copy of another.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) version: CompactVersion,
    pub(crate) inherited_from: Name,
    /// Those of all its content and of its body; `None` from metadata-only streams.
    pub(crate) digests: Option<(Digest, Digest)>,
    /// The digest of what the API server was given when it made this of it.
    pub(crate) accepted: Option<Digest>,
    pub(crate) in_force: bool,
    pub(crate) terminating: bool,
}

impl Copy {
    /// Whether this is what writing that source gives.
    pub(crate) fn is_of(&self, namespace: &Name, source: &Source) -> bool {
        let wanted = source.content.as_ref().map(|content| content.digest);
        let is_same = self.digest() == wanted;
        self.inherited_from == *namespace && (is_same || (wanted.is_some() && self.accepted == wanted))
    }

    /// That of all its content.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digests.map(|(all, _)| all)
    }
}

/// How much of an object's content is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Metadata,
    Digests,
    Whole,
}

impl Held {
    pub(crate) fn of(content: Option<&Content>) -> Self {
        match content {
            None => Self::Metadata,
            Some(Content { canonical: None, .. }) => Self::Digests,
            Some(_) => Self::Whole,
        }
    }
}

/// Most objects are copies, so a source does not make room for itself in each of them.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Source(Box<Source>),
    Copy(Copy),
}

impl Object {
    pub(crate) fn from_fact(fact: ObjectFact) -> Self {
        let ObjectFact { version, inherited_from, terminating, excluded, exceptions, content, role, .. } =
            fact;
        if let Some(inherited_from) = inherited_from {
            let in_force = content.as_ref().is_none_or(|content| content.in_force);
            let digests = content.map(|content| (content.digest, content.body));
            let version = version.into();
            Self::Copy(Copy { version, inherited_from, digests, accepted: None, in_force, terminating })
        } else {
            let version = version.into();
            Self::Source(Box::new(Source { version, excluded, exceptions, content, role, terminating }))
        }
    }

    pub(crate) fn version(&self) -> &CompactVersion {
        match self {
            Self::Source(source) => &source.version,
            Self::Copy(copy) => &copy.version,
        }
    }

    /// The digests of all its content and of its body; `None` from metadata-only streams.
    pub(crate) fn digests(&self) -> Option<(Digest, Digest)> {
        match self {
            Self::Source(source) => source.content.as_ref().map(|content| (content.digest, content.body)),
            Self::Copy(copy) => copy.digests,
        }
    }

    /// How much of its content is known.
    pub(crate) fn held(&self) -> Held {
        match self {
            Self::Source(source) => Held::of(source.content.as_ref()),
            Self::Copy(copy) => copy.digests.map_or(Held::Metadata, |_| Held::Digests),
        }
    }

    /// Whether such a state of it, seen with that much of its content, says nothing that is not known.
    pub(crate) fn has_seen(&self, version: &CompactVersion, held: Held) -> bool {
        let kept = if self.source().is_some() { held } else { held.min(Held::Digests) };
        version.is_older_than(self.version())
            || (version.is_no_news_after(self.version()) && kept <= self.held())
    }

    /// Forgets what it holds, but for the digests.
    pub(crate) fn trim(&mut self) {
        if let Self::Source(source) = self
            && let Some(content) = &mut source.content
        {
            content.canonical = None;
        }
    }

    /// What the API server has made of a copy stays so until another client changes it.
    fn remember(&mut self, old: &Self) {
        if let (Self::Copy(copy), Self::Copy(known)) = (&mut *self, old)
            && copy.digest() == known.digest()
        {
            copy.accepted = known.accepted;
        }
    }

    fn looks_at_labels(&self) -> bool {
        self.source().is_some_and(Source::looks_at_labels)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        match self {
            Self::Source(source) => source.terminating,
            Self::Copy(copy) => copy.terminating,
        }
    }

    /// All of a quota that others may wait for.
    pub(crate) fn force(&self) -> impl PartialEq + use<> {
        let copy = match self {
            Self::Source(_) => None,
            Self::Copy(copy) => Some((copy.inherited_from.clone(), copy.in_force)),
        };
        (copy, self.is_terminating(), self.digests())
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
                    && one.role == other.role
                    && one.content.as_ref().map(|it| it.digest) == other.content.as_ref().map(|it| it.digest)
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
    /// Which of them depend on labels, and how many of each name.
    selective: BTreeMap<ObjectKey, usize>,
    /// By the name of a Role, the sources that refer to a Role of that name.
    bindings: HashMap<Name, HashMap<Id, BTreeSet<ObjectKey>>>,
    /// Where sources are kept whole.
    whole: HashSet<Id>,
    /// How many objects of each kind there are.
    counts: HashMap<KindId, Counts>,
    /// How many copies say that they come from a namespace.
    origins: HashMap<Name, usize>,
}

/// How many objects of a kind a forest holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that were not propagated.
    pub sources: usize,
    /// Those that were.
    pub copies: usize,
}

impl Counts {
    fn of(&mut self, object: &Object) -> &mut usize {
        match object {
            Object::Source(_) => &mut self.sources,
            Object::Copy(_) => &mut self.copies,
        }
    }
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

    /// Those of one kind, by name.
    pub(crate) fn of_kind(&self, namespace: Id, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        let first = ObjectKey { kind, name: Name::from("") };
        let objects = self.by_namespace.get(&namespace).into_iter();
        objects.flat_map(move |objects| objects.range(&first..)).take_while(move |(key, _)| key.kind == kind)
    }

    /// The namespaces that have a source of this kind and name.
    pub(crate) fn holders(&self, key: &ObjectKey) -> Option<&BTreeSet<Id>> {
        self.sources.get(key)
    }

    /// The names of this kind that several namespaces have a source of, and which these are; in no order.
    pub(crate) fn shared(&self, kind: KindId) -> impl Iterator<Item = (&ObjectKey, &BTreeSet<Id>)> {
        self.sources.iter().filter(move |(key, holders)| key.kind == kind && holders.len() > 1)
    }

    /// How many objects of a kind there are.
    pub(crate) fn counts(&self, kind: KindId) -> Counts {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// The same of all kinds together.
    pub(crate) fn all_counts(&self) -> Counts {
        let add = |sum: Counts, of: &Counts| Counts {
            sources: sum.sources + of.sources,
            copies: sum.copies + of.copies,
        };
        self.counts.values().fold(Counts::default(), add)
    }

    /// Whether there are copies that say that they come from this namespace.
    pub(crate) fn are_copied_from(&self, namespace: &Name) -> bool {
        self.origins.contains_key(namespace)
    }

    /// The names of sources for which it matters what labels a namespace has.
    pub(crate) fn selective(&self) -> impl Iterator<Item = &ObjectKey> {
        self.selective.keys()
    }

    /// Whether some of these sources depend on labels.
    pub(crate) fn is_selective(&self, key: &ObjectKey) -> bool {
        self.selective.contains_key(key)
    }

    /// The sources that refer to a Role of this name, by namespace.
    pub(crate) fn bindings_to(&self, role: &Name) -> Option<&HashMap<Id, BTreeSet<ObjectKey>>> {
        self.bindings.get(role)
    }

    /// The names of the Roles that sources refer to, in no order.
    pub(crate) fn bound_roles(&self) -> impl Iterator<Item = &Name> {
        self.bindings.keys()
    }

    /// The same name, in the memory that the sources of it have it in.
    pub(crate) fn shared_key(&self, key: ObjectKey) -> ObjectKey {
        self.sources.get_key_value(&key).map_or(key, |(shared, _)| shared.clone())
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
    pub(crate) fn insert(&mut self, namespace: Id, key: ObjectKey, mut object: Object) -> Option<Object> {
        self.unindex(namespace, &key);
        if let Some(source) = object.source() {
            self.sources.entry(key.clone()).or_default().insert(namespace);
            if source.looks_at_labels() {
                *self.selective.entry(key.clone()).or_default() += 1;
            }
            if source.content.as_ref().is_some_and(|content| content.canonical.is_some()) {
                self.whole.insert(namespace);
            }
            if let Some(role) = &source.role {
                let bindings = self.bindings.entry(role.clone()).or_default();
                bindings.entry(namespace).or_default().insert(key.clone());
            }
        }
        if let Some(old) = self.get(namespace, &key) {
            object.remember(old);
        }
        if let Object::Copy(copy) = &object {
            *self.origins.entry_ref(&copy.inherited_from).or_default() += 1;
        }
        *self.counts.entry(key.kind).or_default().of(&object) += 1;
        self.by_namespace.entry(namespace).or_default().insert(key, object)
    }

    pub(crate) fn remove(&mut self, namespace: Id, key: &ObjectKey) -> Option<Object> {
        self.unindex(namespace, key);
        let objects = self.by_namespace.get_mut(&namespace)?;
        let removed = objects.remove(key);
        if objects.is_empty() {
            self.by_namespace.remove(&namespace);
            self.whole.remove(&namespace);
        }
        removed
    }

    /// Notes what the API server was given when it made this state of a copy, if that is the known one.
    pub(crate) fn accepted(&mut self, namespace: Id, key: &ObjectKey, version: &Version, given: Digest) {
        let object = self.by_namespace.get_mut(&namespace).and_then(|objects| objects.get_mut(key));
        if let Some(Object::Copy(copy)) = object
            && copy.version == CompactVersion::from(version.clone())
        {
            copy.accepted = Some(given);
        }
    }

    /// As if everything were in force that may be.
    pub(crate) fn put_in_force(&mut self) {
        for object in self.by_namespace.values_mut().flat_map(BTreeMap::values_mut) {
            if let Object::Copy(copy) = object {
                copy.in_force = true;
            }
        }
    }

    /// Where sources are kept whole.
    pub(crate) fn whole(&self) -> impl Iterator<Item = Id> {
        self.whole.iter().copied()
    }

    /// Forgets what the sources in a namespace hold, but for the digests: nothing takes copies of them.
    pub(crate) fn trim(&mut self, namespace: Id) {
        if !self.whole.remove(&namespace) {
            return;
        }
        let objects = self.by_namespace.get_mut(&namespace).into_iter().flat_map(BTreeMap::values_mut);
        objects.for_each(Object::trim);
    }

    fn unindex(&mut self, namespace: Id, key: &ObjectKey) {
        let Some(old) = self.by_namespace.get(&namespace).and_then(|objects| objects.get(key)) else {
            return;
        };
        if let Some(counts) = self.counts.get_mut(&key.kind) {
            *counts.of(old) -= 1;
        }
        if let Object::Copy(copy) = old
            && let Some(count) = self.origins.get_mut(&copy.inherited_from)
        {
            *count -= 1;
            if *count == 0 {
                self.origins.remove(&copy.inherited_from);
            }
        }
        if let Some(role) = old.source().and_then(|source| source.role.clone()) {
            self.unindex_binding(&role, namespace, key);
        }
        let selects = self.get(namespace, key).is_some_and(Object::looks_at_labels);
        if selects && let Some(count) = self.selective.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.selective.remove(key);
            }
        }
        if let Some(holders) = self.sources.get_mut(key) {
            holders.remove(&namespace);
            if holders.is_empty() {
                self.sources.remove(key);
            }
        }
    }

    fn unindex_binding(&mut self, role: &Name, namespace: Id, key: &ObjectKey) {
        let Some(bindings) = self.bindings.get_mut(role) else { return };
        if let Some(keys) = bindings.get_mut(&namespace) {
            keys.remove(key);
            if keys.is_empty() {
                bindings.remove(&namespace);
            }
        }
        if bindings.is_empty() {
            self.bindings.remove(role);
        }
    }
}
