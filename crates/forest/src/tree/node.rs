//! One namespace: what was seen of it, and what follows from that alone.

use std::collections::BTreeMap;

use super::Id;
use crate::fact::{AnchorFact, HierarchyFact, NamespaceFact};
use crate::{Labels, Name, Settings, Version, keys};

/// A namespace as last seen.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) version: Version,
    pub(crate) labels: Labels,
    /// Those that are the hierarchy's, or managed.
    pub(crate) annotations: Labels,
    pub(crate) terminating: bool,
}

impl Namespace {
    pub(super) fn from_fact(fact: NamespaceFact, settings: &Settings) -> Self {
        let NamespaceFact { version, labels, annotations, terminating, .. } = fact;
        let kept = annotations
            .iter()
            .filter(|(key, _)| key.starts_with(keys::GROUP) || settings.is_managed_annotation(key));
        Self { version, labels, annotations: kept.collect(), terminating }
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

    /// Its tree labels: ancestor and depth.
    pub(crate) fn tree_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().filter_map(|(key, value)| Some((key.strip_suffix(keys::TREE_LABEL)?, value)))
    }
}

/// What stands for a name.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: Name,
    pub(crate) managed: bool,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) hierarchy: Option<Box<HierarchyFact>>,
    /// By the child's name.
    pub(crate) anchors: BTreeMap<Name, AnchorFact>,
    /// The link in force: the configured parent of an existing managed namespace.
    pub(super) parent: Option<Id>,
    /// Ordered by name.
    pub(super) children: Vec<Id>,
    /// How many objects in this namespace are known.
    pub(super) objects: u32,
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

    /// The parent that is asked for: by the annotation of a subnamespace, or by the `HierarchyConfiguration`. A namespace
    /// that is going away loses that object some time before it goes itself; until then its place is the one that its tree
    /// labels tell, lest everything below it lose for that time what comes from above. An external namespace has none.
    pub(super) fn configured_parent(&self) -> Option<Name> {
        let namespace = self.namespace.as_ref().filter(|_| self.managed && !self.is_external())?;
        if let Some(parent) = self.subnamespace_of() {
            return Some(parent.into());
        }
        match &self.hierarchy {
            Some(hierarchy) => hierarchy.parent.clone().filter(|parent| !parent.is_empty()),
            None if namespace.terminating => {
                namespace.tree_labels().find(|(_, depth)| *depth == "1").map(|(parent, _)| parent.into())
            }
            None => None,
        }
    }

    /// What decides whether and how this node counts for others.
    pub(super) fn standing(&self) -> (bool, bool, bool) {
        let unreadable = self.hierarchy.as_ref().is_some_and(|seen| seen.unreadable.is_some());
        (self.exists(), unreadable, self.is_external())
    }

    pub(super) fn handed_down(&self, settings: &Settings) -> HandedDown {
        let hierarchy = self.hierarchy.as_deref();
        let managed =
            |labels: &Labels, is: &dyn Fn(&str) -> bool| labels.iter().filter(|(key, _)| is(key)).collect();
        HandedDown {
            allow_cascading_deletion: hierarchy.is_some_and(|seen| seen.allow_cascading_deletion),
            labels: hierarchy
                .map(|seen| managed(&seen.labels, &|key| settings.is_managed_label(key)))
                .unwrap_or_default(),
            annotations: hierarchy
                .map(|seen| managed(&seen.annotations, &|key| settings.is_managed_annotation(key)))
                .unwrap_or_default(),
            external: self
                .namespace
                .as_ref()
                .filter(|_| self.is_external())
                .map(|seen| (seen.labels.clone(), seen.annotations.clone())),
        }
    }

    pub(super) fn is_mentioned(&self) -> bool {
        self.namespace.is_some()
            || self.hierarchy.is_some()
            || !self.children.is_empty()
            || !self.anchors.is_empty()
            || self.objects > 0
    }
}
