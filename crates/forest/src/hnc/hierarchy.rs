//! The `HierarchyConfiguration` of a namespace, as last seen. Most have only a parent.

use std::sync::LazyLock;

use super::condition::Condition;
use super::fact::{HierarchyFact, HierarchyStatus};
use crate::core::labels::Labels;
use crate::core::store::Store;
use crate::core::tree::{Id, Tree};
use crate::core::version::CompactVersion;

#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(crate) version: CompactVersion,
    parent: Option<Id>,
    pub(crate) allow_cascading_deletion: bool,
    pub(crate) terminating: bool,
    /// `status.children`.
    children: Box<[Id]>,
    /// `None` when all of it is empty.
    more: Option<Box<More>>,
}

/// The fields that few objects have.
#[derive(Debug, Default, PartialEq)]
struct More {
    labels: Labels,
    annotations: Labels,
    finalizers: Box<[Box<str>]>,
    conditions: Box<[Condition]>,
    unreadable: Option<Box<str>>,
}

impl Hierarchy {
    /// Adds a reference to each name in it.
    pub(super) fn from_fact(fact: HierarchyFact, tree: &mut Tree) -> Self {
        let HierarchyFact { version, parent, allow_cascading_deletion, terminating, .. } = fact;
        let HierarchyStatus { children, conditions } = fact.status;
        let more = More {
            labels: fact.labels,
            annotations: fact.annotations,
            finalizers: fact.finalizers.into(),
            conditions: conditions.into(),
            unreadable: fact.unreadable,
        };
        Self {
            version: version.into(),
            parent: parent.filter(|parent| !parent.is_empty()).map(|parent| tree.mention(parent)),
            allow_cascading_deletion,
            terminating,
            children: children.into_iter().map(|child| tree.mention(child)).collect(),
            more: Some(more).filter(|more| *more != More::default()).map(Box::new),
        }
    }

    /// Drops the references to the names in it.
    pub(super) fn forget(&self, tree: &mut Tree) {
        self.parent.iter().chain(&self.children).for_each(|id| tree.forget(*id));
    }

    /// The same as a fact.
    pub(super) fn fact(&self, names: &Store) -> HierarchyFact {
        let more = self.more();
        HierarchyFact {
            version: self.version.get(),
            parent: self.parent.map(|parent| names.name(parent).clone()),
            allow_cascading_deletion: self.allow_cascading_deletion,
            labels: more.labels.clone(),
            annotations: more.annotations.clone(),
            finalizers: more.finalizers.to_vec(),
            terminating: self.terminating,
            status: HierarchyStatus {
                children: self.children.iter().map(|child| names.name(*child).clone()).collect(),
                conditions: more.conditions.to_vec(),
            },
            unreadable: more.unreadable.clone(),
        }
    }

    /// Whether its status shows these children and these conditions.
    pub(crate) fn shows(&self, children: &[Id], conditions: &[Condition]) -> bool {
        *self.children == *children && *self.more().conditions == *conditions
    }

    pub(crate) fn parent(&self) -> Option<Id> {
        self.parent
    }

    /// The children in its status.
    pub(crate) fn children(&self) -> &[Id] {
        &self.children
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.more().labels
    }

    pub(crate) fn annotations(&self) -> &Labels {
        &self.more().annotations
    }

    pub(crate) fn finalizers(&self) -> &[Box<str>] {
        &self.more().finalizers
    }

    /// The conditions in its status.
    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.more().conditions
    }

    pub(crate) fn unreadable(&self) -> Option<&str> {
        self.more().unreadable.as_deref()
    }

    fn more(&self) -> &More {
        static NONE: LazyLock<More> = LazyLock::new(More::default);
        self.more.as_deref().unwrap_or(&NONE)
    }
}
