//! Admission: is a request allowed?
//!
//! One file per webhook. A rule is a function of a forest, a request and the answers that are known so far; it allows, denies, or
//! returns questions for the API server. It is called again with the answers, on the forest of that moment, until it decides. A
//! rule never waits and sends no requests, and it denies what it cannot parse.

pub mod anchor;
pub mod configuration;
pub mod hierarchy;
pub mod namespace;
pub mod object;
pub mod quota;
pub mod usage;

pub(super) mod managed_keys;
#[cfg(test)]
mod tests;

use super::settings::Identity;
pub use crate::core::denial::{Cause, Denial, DenialKind, FieldFault};
pub use crate::core::fields::{Fields, Pairs};
use crate::core::name::Name;
use crate::core::stream::{Stream, StreamState};
pub use crate::core::verdict::{
    Answer, Answers, Link, NamespacedRight, Operation, ParentChange, Question, User, Verdict, WaitFor,
};
pub(crate) use crate::core::verdict::{Check, all_answered, first_refused};
use crate::core::version::Version;
use crate::dialects::Forest;

impl User {
    /// Whether this user is one of `identities`.
    pub(crate) fn is_any_of<'a>(&self, identities: impl IntoIterator<Item = &'a Identity>) -> bool {
        identities.into_iter().any(|identity| identity.is(&self.name, &self.groups))
    }
}

impl WaitFor {
    /// Whether `forest` knows it now.
    pub fn is_known(&self, forest: &Forest) -> bool {
        match self {
            Self::Namespace(name) => forest.exists(name),
            Self::NoNamespace(name) => !forest.exists(name),
            Self::Parent(name, parent) => forest.parent(name) == parent.as_ref(),
            Self::TreeLabels(name) => forest.id(name).is_none_or(|id| forest.shows_its_parent(id)),
            Self::Objects(kind) => forest
                .kind_named(&kind.group, &kind.kind)
                .is_some_and(|id| forest.stream(Stream::Kind(id)) != StreamState::Waiting),
        }
    }
}

/// The links that an allowed change of parent depends on.
pub(crate) fn parent_change(
    forest: &Forest,
    child: &Name,
    parent_is_in: Stream,
    parents: [Option<&str>; 2],
) -> ParentChange {
    let missing_parent = parents[1].filter(|parent| !forest.exists(parent)).map(Name::from);
    ParentChange {
        child: child.clone(),
        parent_is_in,
        links: links(forest, parents),
        consenting: missing_parent.as_deref().map(|it| forest.holders_of_waiting(it)).unwrap_or_default(),
        missing_parent,
        added_to: parents[1].map(|parent| forest.additions(&parent.into(), child)).unwrap_or_default(),
        anchor_in: None,
        deletes: false,
        decides_below: false,
    }
}

fn links(forest: &Forest, parents: [Option<&str>; 2]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for parent in parents.iter().flatten() {
        for namespace in forest.ancestry(parent).into_iter().filter(|namespace| forest.exists(namespace)) {
            if !links.iter().any(|link| link.namespace == namespace) {
                links.push(link(forest, namespace));
            }
        }
    }
    links
}

/// A namespace and its parent.
pub(crate) fn link(forest: &Forest, namespace: Name) -> Link {
    let is_subnamespace = forest.is_subnamespace(&namespace);
    Link {
        parent: forest.parent(&namespace).cloned(),
        parent_is_in: if is_subnamespace { Stream::NAMESPACES } else { Stream::HIERARCHIES },
        namespace,
    }
}

impl Link {
    /// Whether a live read of `parent` needs no further wait: the forest shows the same, and the rule judges again if that is news; or
    /// the namespace with the uid `deleted` is being deleted, and has lost its `HierarchyConfiguration` before that was read. Then the
    /// forest keeps the last parent. It must have seen the end of that object, and nothing can be created in the namespace any more.
    pub fn is_settled(&self, forest: &Forest, parent: Option<&Name>, deleted: Option<&str>) -> bool {
        let known = forest.parent(&self.namespace);
        let keeps = |uid: &str| {
            let id = forest.id(&self.namespace)?;
            let seen = forest.namespace(id).filter(|seen| seen.terminating && seen.version.has_uid(uid));
            seen.filter(|_| forest.hierarchy(id).is_none())
        };
        known == parent
            || (parent.is_none()
                && known == self.parent.as_ref()
                && self.parent_is_in == Stream::HIERARCHIES
                && deleted.and_then(keeps).is_some())
    }
}

impl Forest {
    /// The known version of the object whose parent the change writes.
    pub fn changed_version(&self, change: &ParentChange) -> Option<Version> {
        match &change.anchor_in {
            Some(parent) if change.parent_is_in == Stream::SUB_NAMESPACES => {
                Some(self.accurate().sub_namespaces(self.id(parent)?).get(&change.child)?.version.clone())
            }
            Some(holder) => self.anchor_version(holder, &change.child),
            None => self.parent_object_version(&change.child, change.parent_is_in),
        }
    }

    /// The known version of the object that names the parent of `namespace`.
    pub fn parent_object_version(&self, namespace: &Name, parent_is_in: Stream) -> Option<Version> {
        match parent_is_in {
            Stream::NAMESPACES => self.namespace_version(namespace),
            _ => self.hierarchy_version(namespace),
        }
    }
}
