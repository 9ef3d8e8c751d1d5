//! What the forest keeps of an object: of a source its annotations and content, of a copy its origin and digests.

use super::super::content::Digest;
use super::super::destination::{Exceptions, Unparsable, Withheld, goes_somewhere, goes_to};
use super::super::hop::Hop;
use super::super::kind::KindSettings;
use super::super::name::Name;
use super::super::version::CompactVersion;
use super::{KnownContent, ObjectFact};

/// An object that is no copy.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) version: CompactVersion,
    /// Why it never propagates, if so.
    pub(crate) excluded: Option<Box<str>>,
    /// What its annotations ask for.
    pub(crate) exceptions: Option<Box<Result<Exceptions, Unparsable>>>,
    /// The content of its copies; `None` from streams that carry metadata only.
    pub(crate) content: Option<KnownContent>,
    /// The Role of its own namespace that it refers to.
    pub(crate) role: Option<Name>,
    /// What it says about its propagation hop by hop. A copy made in that way is never propagated in the other way.
    pub(crate) hop: Option<Box<Hop>>,
    pub(crate) terminating: bool,
}

impl Source {
    /// Whether this source propagates to a namespace below that should have these labels. Rules and plans both use this
    /// predicate.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn goes_to(
        &self,
        kind: &KindSettings,
        name: &str,
        label: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), Withheld> {
        self.is_original()?;
        goes_to(kind, name, self.excluded.as_deref(), self.exceptions.as_deref(), label)
    }

    /// Why it propagates to no namespace at all, if so.
    pub(crate) fn stays(&self, kind: &KindSettings, name: &str) -> Option<Withheld> {
        let exceptions = self.exceptions.as_deref();
        let goes = self
            .is_original()
            .and_then(|()| goes_somewhere(kind, name, self.excluded.as_deref(), exceptions));
        goes.err()
    }

    fn is_original(&self) -> Result<(), Withheld> {
        if self.copied_by_hop().is_some() { Err(Withheld::CopiedByHop) } else { Ok(()) }
    }

    /// The namespace of its source, if it is a copy that was made hop by hop.
    fn copied_by_hop(&self) -> Option<&Name> {
        self.hop.as_ref()?.from.as_ref()
    }

    /// What its annotations ask for, if they can be parsed.
    pub(crate) fn asks(&self) -> Option<&Exceptions> {
        self.exceptions.as_deref()?.as_ref().ok()
    }

    /// Whether the labels of a destination decide if it propagates there.
    pub(crate) fn looks_at_labels(&self) -> bool {
        matches!(self.exceptions.as_deref(), Some(Ok(exceptions)) if exceptions.looks_at_labels())
    }
}

/// An object that is marked as a copy of another.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) version: CompactVersion,
    pub(crate) inherited_from: Name,
    /// The digests of all its content and of its body; `None` from streams that carry metadata only.
    pub(crate) digests: Option<(Digest, Digest)>,
    /// The digest of the content that the API server was given when it stored this copy.
    pub(crate) accepted: Option<Digest>,
    pub(crate) in_force: bool,
    pub(crate) terminating: bool,
}

impl Copy {
    /// Whether this copy is the result of writing that source.
    pub(crate) fn is_of(&self, namespace: &Name, source: &Source) -> bool {
        let wanted = source.content.as_ref().map(|content| content.digest);
        let is_same = self.digest() == wanted;
        self.inherited_from == *namespace && (is_same || (wanted.is_some() && self.accepted == wanted))
    }

    /// The digest of all its content.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digests.map(|(all, _)| all)
    }
}

/// How much of the content of copies the forest knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Metadata,
    Digests,
    Whole,
}

impl Level {
    fn of(content: Option<&KnownContent>) -> Self {
        match content {
            None => Self::Metadata,
            Some(KnownContent { canonical: None, .. }) => Self::Digests,
            Some(_) => Self::Whole,
        }
    }
}

/// The same for the copies in all namespaces below, and for those that are made hop by hop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knowledge {
    below: Level,
    next: Level,
}

impl Knowledge {
    const DIGESTS: Self = Self { below: Level::Digests, next: Level::Digests };

    /// What is kept of sources, if their content is kept only for copies below, or only for those that are made hop by hop.
    pub(crate) fn kept(below: bool, next: bool) -> Self {
        let level = |is_kept| if is_kept { Level::Whole } else { Level::Digests };
        Self { below: level(below), next: level(next) }
    }

    /// Of what is seen of an object.
    pub(crate) fn seen(fact: &ObjectFact) -> Self {
        Self::all(fact.content.as_ref(), fact.hop.as_deref())
    }

    fn all(content: Option<&KnownContent>, hop: Option<&Hop>) -> Self {
        Self { below: Level::of(content), next: Level::of(hop.and_then(|hop| hop.content.as_ref())) }
    }

    /// The less of both.
    pub(crate) fn within(self, most: Self) -> Self {
        Self { below: self.below.min(most.below), next: self.next.min(most.next) }
    }

    /// The more of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { below: self.below.max(other.below), next: self.next.max(other.next) }
    }

    /// Whether this is as much as the other.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.below >= other.below && self.next >= other.next
    }

    /// Whether it is no more than digests.
    pub(crate) fn is_small(self) -> bool {
        Self::DIGESTS.covers(self)
    }
}

/// Most objects are copies, so a source is boxed.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Source(Box<Source>),
    Copy(Copy),
}

impl Object {
    pub(crate) fn from_fact(fact: ObjectFact) -> Self {
        let ObjectFact {
            version, inherited_from, terminating, excluded, exceptions, content, role, hop, ..
        } = fact;
        if let Some(inherited_from) = inherited_from {
            let in_force = content.as_ref().is_none_or(|content| content.in_force);
            let digests = content.map(|content| (content.digest, content.body_digest));
            let version = version.into();
            Self::Copy(Copy { version, inherited_from, digests, accepted: None, in_force, terminating })
        } else {
            let version = version.into();
            Self::Source(Box::new(Source { version, excluded, exceptions, content, role, hop, terminating }))
        }
    }

    pub(crate) fn version(&self) -> &CompactVersion {
        match self {
            Self::Source(source) => &source.version,
            Self::Copy(copy) => &copy.version,
        }
    }

    /// The digests of all its content and of its body; `None` from streams that carry metadata only.
    pub(crate) fn digests(&self) -> Option<(Digest, Digest)> {
        match self {
            Self::Source(source) => {
                source.content.as_ref().map(|content| (content.digest, content.body_digest))
            }
            Self::Copy(copy) => copy.digests,
        }
    }

    /// How much of its content is known.
    pub(crate) fn knowledge(&self) -> Knowledge {
        match self {
            Self::Source(source) => Knowledge::all(source.content.as_ref(), source.hop.as_deref()),
            Self::Copy(copy) => {
                let below = copy.digests.map_or(Level::Metadata, |_| Level::Digests);
                Knowledge { below, next: Level::Metadata }
            }
        }
    }

    /// How much can be known.
    pub(crate) fn whole(&self) -> Knowledge {
        let next = if self.hop().is_some() { Level::Whole } else { Level::Metadata };
        let below = if self.source().is_some() { Level::Whole } else { Level::Digests };
        Knowledge { below, next }
    }

    /// Whether this state of the object, with this much content, adds nothing to what is known.
    pub(crate) fn has_seen(&self, version: &CompactVersion, knowledge: Knowledge) -> bool {
        version.is_older_than(self.version())
            || (version.is_same_or_older_than(self.version())
                && self.knowledge().covers(knowledge.within(self.whole())))
    }

    /// Drops the content that is more than this.
    pub(crate) fn trim(&mut self, most: Knowledge) {
        let Self::Source(source) = self else { return };
        let hop = source.hop.as_mut().and_then(|hop| hop.content.as_mut());
        for (content, most) in [(source.content.as_mut(), most.below), (hop, most.next)] {
            if let Some(content) = content.filter(|_| most < Level::Whole) {
                content.canonical = None;
            }
        }
    }

    /// Keeps `accepted` until another client changes the copy.
    pub(super) fn remember(&mut self, old: &Self) {
        if let (Self::Copy(copy), Self::Copy(known)) = (&mut *self, old)
            && copy.digest() == known.digest()
        {
            copy.accepted = known.accepted;
        }
        if let Some(known) = old.hop()
            && let Self::Source(source) = self
            && let Some(hop) = &mut source.hop
            && hop.digest() == known.digest()
            && hop.from == known.from
        {
            hop.accepted = known.accepted;
        }
    }

    /// Notes the digest of the content that the API server was given for this state of a copy.
    pub(super) fn accept(&mut self, given: Digest) {
        match self {
            Self::Copy(copy) => copy.accepted = Some(given),
            Self::Source(source) => {
                if let Some(hop) = source.hop.as_mut().filter(|hop| hop.from.is_some()) {
                    hop.accepted = Some(given);
                }
            }
        }
    }

    /// What it says about its propagation hop by hop.
    pub(crate) fn hop(&self) -> Option<&Hop> {
        self.source()?.hop.as_deref()
    }

    /// Whether it is a copy made by any hierarchy.
    pub(super) fn is_any_copy(&self) -> bool {
        self.source().is_none() || self.hop().is_some_and(|hop| hop.from.is_some())
    }

    /// Whether both lead to the same copies in the next namespaces.
    pub(crate) fn hops_as(&self, other: &Self) -> bool {
        let role = |object: &Self| object.source().and_then(|source| source.role.clone());
        match (self.hop(), other.hop()) {
            (None, None) => true,
            (Some(one), Some(other_hop)) => one.propagates_as(other_hop) && role(self) == role(other),
            _ => false,
        }
    }

    pub(super) fn looks_at_labels(&self) -> bool {
        self.source().is_some_and(Source::looks_at_labels)
    }

    pub(crate) fn is_copy_of(&self, namespace: &Name, source: &Source) -> bool {
        matches!(self, Self::Copy(copy) if copy.is_of(namespace, source))
    }

    pub(crate) fn is_terminating(&self) -> bool {
        match self {
            Self::Source(source) => source.terminating,
            Self::Copy(copy) => copy.terminating,
        }
    }

    /// The part of a quota that bindings wait for.
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

    /// Whether both are sources that propagate the same content in the same way.
    pub(crate) fn propagates_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Source(one), Self::Source(other)) => {
                one.excluded == other.excluded
                    && one.copied_by_hop() == other.copied_by_hop()
                    && one.exceptions == other.exceptions
                    && one.role == other.role
                    && one.content.as_ref().map(|it| it.digest) == other.content.as_ref().map(|it| it.digest)
            }
            _ => false,
        }
    }
}
