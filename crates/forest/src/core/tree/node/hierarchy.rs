//! The `HierarchyConfiguration` of a namespace, as last seen. Most say no more than a parent.

use std::sync::LazyLock;

use super::super::places::{Id, Places};
use crate::fact::HierarchyFact;
use crate::version::CompactVersion;
use crate::{Condition, HierarchyStatus, Labels};

#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(crate) version: CompactVersion,
    parent: Option<Id>,
    pub(crate) allow_cascading_deletion: bool,
    pub(crate) terminating: bool,
    /// `status.children`.
    children: Box<[Id]>,
    /// `None` when there is none of it.
    more: Option<Box<More>>,
}

/// What few say.
#[derive(Debug, Default, PartialEq)]
struct More {
    labels: Labels,
    annotations: Labels,
    finalizers: Box<[Box<str>]>,
    conditions: Box<[Condition]>,
    unreadable: Option<Box<str>>,
}

impl Hierarchy {
    /// The names in it are mentioned from now on.
    pub(in crate::core::tree) fn from_fact(fact: HierarchyFact, places: &mut Places) -> Self {
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
            parent: parent.filter(|parent| !parent.is_empty()).map(|parent| places.mention(parent)),
            allow_cascading_deletion,
            terminating,
            children: children.into_iter().map(|child| places.mention(child)).collect(),
            more: Some(more).filter(|more| *more != More::default()).map(Box::new),
        }
    }

    /// The names in it are mentioned no more.
    pub(in crate::core::tree) fn forget(&self, places: &mut Places) {
        self.parent.iter().chain(&self.children).for_each(|id| places.forget(*id));
    }

    /// To take along.
    pub(in crate::core::tree) fn fact(&self, places: &Places) -> HierarchyFact {
        let more = self.more();
        HierarchyFact {
            version: self.version.get(),
            parent: self.parent.map(|parent| places.text(parent).clone()),
            allow_cascading_deletion: self.allow_cascading_deletion,
            labels: more.labels.clone(),
            annotations: more.annotations.clone(),
            finalizers: more.finalizers.to_vec(),
            terminating: self.terminating,
            status: HierarchyStatus {
                children: self.children.iter().map(|child| places.text(*child).clone()).collect(),
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

    /// Those of its status.
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

    /// Those of its status.
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
