//! What the API server serves, and which resource a name means. Never decides whether a kind can be propagated.

use std::collections::{BTreeSet, HashSet};

use super::{Entry, Fault};
use crate::core::kind::Kind;

/// A resource of the API server, in its preferred version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    /// The kind and its plural.
    pub kind: Kind,
    /// The name in the singular; may be empty.
    pub singular: String,
    /// The short names.
    pub short_names: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The verbs that it supports.
    pub verbs: Vec<String>,
}

/// Everything that the API server serves, as far as it can tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// The resources, without subresources.
    pub kinds: Vec<ServedKind>,
    /// The groups whose resources are unknown at the moment.
    pub unavailable: BTreeSet<String>,
}

impl Served {
    /// The same, completed by `before`: groups that are unavailable now, and resources that are `defined` (by plural and group,
    /// as in `things.example.com`) and not served at the moment, are kept as they were.
    #[must_use]
    pub fn keeping(mut self, before: &Self, defined: &dyn Fn(&str) -> bool) -> Self {
        let Self { kinds, unavailable } = &mut self;
        let in_doubt = |known: &&ServedKind| unavailable.contains(&known.kind.group);
        let kept: HashSet<(&str, &str)> = before.kinds.iter().filter(in_doubt).map(ServedKind::id).collect();
        kinds.retain(|found| !kept.contains(&found.id()));
        let there: HashSet<(&str, &str)> = kinds.iter().map(ServedKind::id).collect();
        let missing = before.kinds.iter().filter(|known| {
            !there.contains(&known.id()) && (in_doubt(known) || defined(&known.kind.group_resource()))
        });
        let missing: Vec<ServedKind> = missing.cloned().collect();
        kinds.extend(missing);
        self
    }

    /// The resource that an entry means. A plural counts before a singular, and that before a short name. Without a group, the
    /// core group counts before all others, and only one of the others may have the name.
    ///
    /// # Errors
    /// What is wrong with the name, as a clause.
    pub fn named(&self, entry: &Entry) -> Result<&ServedKind, (Fault, String)> {
        let name = entry.resource.to_ascii_lowercase();
        let is_meant = |it: &&ServedKind| entry.group.is_empty() || it.kind.group == entry.group;
        let by_name: [&dyn Fn(&ServedKind) -> bool; 3] =
            [&|it| it.kind.resource == name, &|it| it.singular == name, &|it| it.short_names.contains(&name)];
        for called in by_name.into_iter().filter(|_| !name.is_empty()) {
            let found: Vec<&ServedKind> =
                self.kinds.iter().filter(is_meant).filter(|it| called(it)).collect();
            match &found[..] {
                [] => {}
                [one] => return Ok(one),
                several => return the_core_one(several),
            }
        }
        Err(self.not_found(entry))
    }

    /// The resource that serves objects of this kind by name.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&ServedKind> {
        let is_it = |it: &&ServedKind| it.kind.group == group && it.kind.kind == kind;
        self.kinds.iter().filter(is_it).find(|it| it.verbs.iter().any(|verb| verb == "get"))
    }

    fn not_found(&self, entry: &Entry) -> (Fault, String) {
        let unavailable: Vec<&str> = self
            .unavailable
            .iter()
            .map(String::as_str)
            .filter(|group| entry.group.is_empty() || *group == entry.group)
            .collect();
        if unavailable.is_empty() {
            let why = "the API server serves no such resource; `kubectl api-resources --namespaced` lists those that it serves";
            return (Fault::NotFound, why.into());
        }
        (
            Fault::Unavailable,
            format!(
                "it cannot be known at the moment whether there is such a resource, because these API groups are \
                 unavailable: {}",
                unavailable.join(", ")
            ),
        )
    }
}

impl ServedKind {
    fn id(&self) -> (&str, &str) {
        (&self.kind.group, &self.kind.resource)
    }
}

fn the_core_one<'a>(several: &[&'a ServedKind]) -> Result<&'a ServedKind, (Fault, String)> {
    let mut core = several.iter().filter(|it| it.kind.group.is_empty());
    if let (Some(one), None) = (core.next(), core.next()) {
        return Ok(one);
    }
    let mut all: Vec<String> = several.iter().map(|it| it.kind.group_resource()).collect();
    all.sort_unstable();
    Err((Fault::Unusable, format!("it could be any of {}; say which group is meant", all.join(", "))))
}
