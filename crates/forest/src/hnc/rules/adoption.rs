//! What an allowed change of parent rests on, so that it can be looked at once more before it is let through.
//!
//! A rule judges by the forest, which is a little behind. Two changes that are each fine by the forest can make a cycle
//! together, or take a namespace out from under the consent that was asked for. So the shell reads the links that the
//! judgement rests on past every cache, and remembers the changes that it has just let through. Judges nothing.

use super::{hierarchy, namespace};
use crate::{Forest, Name, Version};

/// A change of parent that a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// Whose parent changes.
    pub child: Name,
    /// Which object says so.
    pub object: Object,
    /// The state of that object that is changed: what the request says, where it says it, else what the forest knows.
    /// `None` for an object that is created.
    pub over: Option<Version>,
    /// What the judgement rests on: the ancestry of the present and of the new parent.
    pub links: Vec<Link>,
}

/// Which object says what the parent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// The `HierarchyConfiguration`.
    Hierarchy,
    /// The namespace, by its annotation.
    Namespace,
}

/// A namespace and its parent, as the forest has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// The namespace.
    pub namespace: Name,
    /// Its parent; `None` for a root.
    pub parent: Option<Name>,
    /// Where that is said.
    pub object: Object,
}

/// What a request about a `HierarchyConfiguration` changes, if it changes a parent.
pub fn of_hierarchy(forest: &Forest, request: &hierarchy::Request) -> Option<Adoption> {
    if request.old.parent == request.new.parent {
        return None;
    }
    let parents = [request.old.parent.as_deref(), request.new.parent.as_deref()];
    Some(Adoption {
        child: request.namespace.clone(),
        object: Object::Hierarchy,
        over: forest.hierarchy_version(&request.namespace),
        links: links(forest, &parents),
    })
}

/// What a request about a namespace changes, if it changes a parent.
pub fn of_namespace(forest: &Forest, request: &namespace::Request<'_>) -> Option<Adoption> {
    let parent =
        request.new.subnamespace_of().filter(|parent| request.old.subnamespace_of() != Some(*parent))?;
    let present = forest.parent(&request.name).cloned();
    Some(Adoption {
        child: request.name.clone(),
        object: Object::Namespace,
        over: forest.namespace_version(&request.name),
        links: links(forest, &[present.as_deref(), Some(parent)]),
    })
}

fn links(forest: &Forest, parents: &[Option<&str>]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for parent in parents.iter().flatten() {
        for namespace in forest.ancestry(parent).into_iter().filter(|namespace| forest.exists(namespace)) {
            if links.iter().any(|link| link.namespace == namespace) {
                continue;
            }
            let is_subnamespace = forest.is_subnamespace(&namespace);
            links.push(Link {
                parent: forest.parent(&namespace).cloned(),
                object: if is_subnamespace { Object::Namespace } else { Object::Hierarchy },
                namespace,
            });
        }
    }
    links
}

impl Adoption {
    /// Whether the forest has come to know a later state of the object than the one that was changed: then this change is
    /// in the forest, or has failed.
    pub fn is_settled(&self, forest: &Forest) -> bool {
        self.seen(forest).is_some_and(|seen| {
            self.over.as_ref().is_none_or(|over| over.uid != seen.uid || over.is_older_than(&seen))
        })
    }

    /// Whether the forest knows the object in any state.
    pub fn is_known(&self, forest: &Forest) -> bool {
        self.seen(forest).is_some()
    }

    fn seen(&self, forest: &Forest) -> Option<Version> {
        match self.object {
            Object::Hierarchy => forest.hierarchy_version(&self.child),
            Object::Namespace => forest.namespace_version(&self.child),
        }
    }

    /// Whether this rests on, or is about, the place of `namespace`.
    pub fn concerns(&self, namespace: &str) -> bool {
        *self.child == *namespace || self.links.iter().any(|link| *link.namespace == *namespace)
    }
}
