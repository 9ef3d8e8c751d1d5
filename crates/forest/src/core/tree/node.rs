//! One namespace: what was seen of it, and what follows from that alone.

use std::collections::{BTreeMap, BTreeSet};

use super::packed::Packed;
use super::places::{Id, Places};
use crate::fact::{AnchorFact, Foreign, NamespaceFact};
use crate::version::CompactVersion;
use crate::{Labels, Name, Settings, keys};

mod hierarchy;

pub(crate) use self::hierarchy::Hierarchy;

/// A namespace as last seen.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) version: CompactVersion,
    /// To be read through the tree.
    pub(super) labels: Packed,
    /// Those that are the hierarchy's, or managed.
    pub(crate) annotations: Labels,
    /// The managed ones; `None` when there are none, as in most.
    foreign: Option<Box<Foreign>>,
    pub(crate) terminating: bool,
}

impl Namespace {
    pub(super) fn from_fact(fact: NamespaceFact, id: Id, places: &mut Places, settings: &Settings) -> Self {
        let NamespaceFact { version, labels, annotations, mut foreign, terminating, .. } = fact;
        let kept = annotations
            .iter()
            .filter(|(key, _)| key.starts_with(keys::GROUP) || settings.is_managed_annotation(key))
            .collect();
        foreign.labels.retain(|key| settings.is_managed_label(key));
        foreign.annotations.retain(|key| settings.is_managed_annotation(key));
        let foreign = Some(foreign).filter(|foreign| *foreign != Foreign::default()).map(Box::new);
        let labels = Packed::new(&labels, id, places);
        Self { version: version.into(), labels, annotations: kept, foreign, terminating }
    }

    /// The managed labels and annotations that somebody else has set.
    pub(crate) fn foreign(&self) -> &Foreign {
        static NONE: Foreign = Foreign { labels: BTreeSet::new(), annotations: BTreeSet::new() };
        self.foreign.as_deref().unwrap_or(&NONE)
    }

    /// The parent that makes this a subnamespace.
    pub(crate) fn subnamespace_of(&self) -> Option<&str> {
        self.annotations.get(keys::SUBNAMESPACE_OF).filter(|parent| !parent.is_empty())
    }

    /// The other tool that keeps this namespace's place, if any.
    pub(crate) fn external_manager(&self) -> Option<&str> {
        self.annotations
            .get(keys::EXTERNALLY_MANAGED_BY)
            .filter(|manager| !manager.is_empty() && *manager != keys::GROUP)
    }
}

/// What stands for a name.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) managed: bool,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) hierarchy: Option<Box<Hierarchy>>,
    /// `None` when there are none, as in most.
    pub(super) anchors: Option<Box<Anchors>>,
    /// The link in force: the configured parent of an existing managed namespace.
    pub(super) parent: Option<Id>,
    /// Ordered by name.
    pub(super) children: Vec<Id>,
    /// How many objects in this namespace are known.
    pub(super) objects: u32,
}

/// The anchors in a namespace.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    by_child: BTreeMap<Name, AnchorFact>,
}

/// What a node gives to all that is below it, beside objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HandedDown {
    allow_cascading_deletion: bool,
    labels: Labels,
    annotations: Labels,
    /// All labels and annotations of an external namespace: some of them are handed down.
    external: Option<(Labels, Labels)>,
}

impl Node {
    /// Whether this is a namespace that hierarchy applies to.
    pub(crate) fn exists(&self) -> bool {
        self.managed && self.namespace.is_some()
    }

    /// Whether another tool keeps this namespace's place.
    pub(crate) fn is_external(&self) -> bool {
        self.managed && self.namespace.as_ref().is_some_and(|seen| seen.external_manager().is_some())
    }

    /// Whether this is a subnamespace. One that is going away is treated as any other namespace, and one that is not managed
    /// never is one, whatever is written on it.
    pub(crate) fn subnamespace_of(&self) -> Option<&str> {
        let namespace = self.namespace.as_ref().filter(|seen| !seen.terminating && !self.is_external())?;
        namespace.subnamespace_of().filter(|_| self.managed)
    }

    /// The anchors in it, by the child's name.
    pub(crate) fn anchors(&self) -> &BTreeMap<Name, AnchorFact> {
        static NONE: BTreeMap<Name, AnchorFact> = BTreeMap::new();
        self.anchors.as_ref().map_or(&NONE, |anchors| &anchors.by_child)
    }

    pub(super) fn add_anchor(&mut self, anchor: AnchorFact) {
        self.anchors.get_or_insert_default().by_child.insert(anchor.name.clone(), anchor);
    }

    pub(super) fn remove_anchor(&mut self, child: &str) {
        let left = self.anchors.take().map(|mut anchors| {
            anchors.by_child.remove(child);
            anchors
        });
        self.anchors = left.filter(|anchors| !anchors.by_child.is_empty());
    }

    /// What decides whether and how this node counts for others.
    pub(super) fn standing(&self) -> (bool, bool, bool) {
        let unreadable = self.hierarchy.as_ref().is_some_and(|seen| seen.unreadable().is_some());
        (self.exists(), unreadable, self.is_external())
    }

    /// What is handed down; `labels` are those of the namespace.
    pub(super) fn handed_down(&self, settings: &Settings, labels: impl FnOnce() -> Labels) -> HandedDown {
        let managed =
            |labels: &Labels, is: &dyn Fn(&str) -> bool| labels.iter().filter(|(key, _)| is(key)).collect();
        let asked = |seen: &Hierarchy| {
            (
                managed(seen.labels(), &|key| settings.is_managed_label(key)),
                managed(seen.annotations(), &|key| settings.is_managed_annotation(key)),
            )
        };
        let (own_labels, own_annotations) = self.hierarchy.as_deref().map(asked).unwrap_or_default();
        HandedDown {
            allow_cascading_deletion: self.hierarchy.as_ref().is_some_and(|it| it.allow_cascading_deletion),
            labels: own_labels,
            annotations: own_annotations,
            external: self
                .namespace
                .as_ref()
                .filter(|_| self.is_external())
                .map(|seen| (labels(), seen.annotations.clone())),
        }
    }

    pub(super) fn is_mentioned(&self) -> bool {
        self.namespace.is_some()
            || self.hierarchy.is_some()
            || !self.children.is_empty()
            || self.anchors.is_some()
            || self.objects > 0
    }
}
