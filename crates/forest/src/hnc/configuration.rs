//! From the entries of the `HNCConfiguration` to the propagated kinds (sections 2.3 and 6.3 of docs/compatibility.md).
//!
//! An entry names a resource as users do: usually in the plural, but also in the singular or by a short name, and often without
//! its group. What the API server serves decides which kind is meant. Admission denies the faults that are found here;
//! reconciliation applies the valid entries and reports the rest. This module sends no requests, and never looks at objects.

pub mod rights;
mod served;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::served::{Served, ServedKind};
use crate::core::kind::{Kind, KindSettings, Mode, OnConflict};
use crate::core::patterns::Patterns;
use crate::hnc::exclusion::{is_structure, never};
use crate::hnc::tree_limit::{TreeFault, TreeLimit};

const RESOURCES: &str = "resources";
const TREES: &str = "trees";

/// The verbs that a kind must support to be propagated.
const NEEDED_VERBS: [&str; 5] = ["list", "watch", "create", "update", "delete"];

/// One of `spec.resources`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The group as written; empty for the core group, and where the entry leaves the group open.
    pub group: String,
    /// The resource as written.
    pub resource: String,
    /// The mode in force.
    pub mode: Mode,
    /// How conflicts are treated, if the entry says so.
    pub on_conflict: Option<OnConflict>,
    /// The names that never propagate, as globs.
    pub excluded_names: Vec<String>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// The result of the whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The kinds: first those that are always propagated, then those of the entries, in order.
    pub kinds: Vec<Resolved>,
    /// The limits of trees, in order.
    pub limits: Vec<TreeLimit>,
    /// The faults of the entries, in order.
    pub findings: Vec<Finding>,
}

/// A kind, and its name in the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The kind and its configuration.
    pub settings: KindSettings,
    /// The resource as written.
    pub resource: String,
    /// The index of its entry, if it has one.
    pub entry: Option<usize>,
}

/// A fault of an entry, which is therefore not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The list of the entry: `resources` or `trees`.
    pub list: &'static str,
    /// The index of the entry.
    pub entry: usize,
    /// The name in the entry, or the value of the field.
    pub subject: String,
    /// The type of the fault.
    pub fault: Fault,
    /// The field of the entry; empty for the whole entry.
    pub part: &'static str,
    /// What is wrong, as a clause.
    pub why: String,
}

/// The type of a fault of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no such resource.
    NotFound,
    /// The resource has no namespace.
    NotNamespaced,
    /// The kind is always propagated, so no entry can change it.
    Enforced,
    /// An earlier entry is about the same kind.
    Duplicate,
    /// The API server cannot tell at the moment what it serves.
    Unavailable,
    /// Anything else.
    Unusable,
}

impl Fault {
    /// The reason of the condition for it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "ResourceNotFound",
            Self::NotNamespaced => "ResourceNotNamespaced",
            Self::Enforced | Self::Duplicate => "MultipleConfigurationsForType",
            Self::Unavailable | Self::Unusable => "Unknown",
        }
    }
}

impl Finding {
    /// The path of the entry or of its field.
    pub fn field(&self) -> String {
        let dot = if self.part.is_empty() { "" } else { "." };
        format!("spec.{}[{}]{dot}{}", self.list, self.entry, self.part)
    }
}

/// As a sentence without its end: the place and the fault.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}): {}", self.field(), self.subject, self.why)
    }
}

impl Resolution {
    /// The result without any entry.
    pub fn enforced() -> Self {
        let kinds = [Kind::role(), Kind::role_binding()];
        let kinds = kinds.map(|kind| Resolved {
            resource: kind.resource.clone(),
            settings: KindSettings::new(kind, Mode::Propagate),
            entry: None,
        });
        Self { kinds: kinds.into(), limits: Vec::new(), findings: Vec::new() }
    }

    /// With the entries of `spec.trees`. One that could not be read is given as the reason. Of two about one namespace, the first
    /// is in force.
    #[must_use]
    pub fn with_trees(mut self, trees: &[Result<TreeLimit, TreeFault>]) -> Self {
        for (entry, tree) in trees.iter().enumerate() {
            match tree {
                Ok(limit) if self.limits.iter().any(|it| it.root() == limit.root()) => {
                    let why = "an earlier entry is about the same namespace".to_owned();
                    self.find((TREES, entry, ""), limit.root(), (Fault::Duplicate, why));
                }
                Ok(limit) => self.limits.push(limit.clone()),
                Err(TreeFault { field, value, why }) => {
                    self.find((TREES, entry, field), value, (Fault::Unusable, why.clone()));
                }
            }
        }
        self
    }

    /// The kinds with their configuration.
    pub fn settings(&self) -> impl Iterator<Item = &KindSettings> {
        self.kinds.iter().map(|resolved| &resolved.settings)
    }

    /// The result for a kind, in any version.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Resolved> {
        self.kinds.iter().find(|resolved| is_same(&resolved.settings.kind, kind))
    }

    fn find(
        &mut self,
        (list, entry, part): (&'static str, usize, &'static str),
        subject: impl fmt::Display,
        (fault, why): (Fault, String),
    ) {
        self.findings.push(Finding { list, entry, subject: subject.to_string(), fault, part, why });
    }

    fn add(&mut self, at: usize, entry: &Entry, served: &Served) -> Result<(), (Fault, String)> {
        let found = served.named(entry).map_err(|it| of_entry(entry, it))?;
        let known = self.kinds.iter_mut().find(|known| is_same(&known.settings.kind, &found.kind));
        if let Some(known) = &known {
            may_be_said_of(known, entry)?;
        }
        check_usable(found, entry.mode)?;
        let excluded_names = Patterns::new(&entry.excluded_names)
            .map_err(|error| (Fault::Unusable, format!("excludedNames cannot be used: {error}")))?;
        // A kind that is always propagated keeps its version.
        let kind = known.as_ref().map_or_else(|| found.kind.clone(), |known| known.settings.kind.clone());
        let settings =
            KindSettings { kind, mode: entry.mode, on_conflict: entry.on_conflict, excluded_names };
        if let Some(known) = known {
            (known.settings, known.entry) = (settings, Some(at));
        } else {
            let resource = entry.resource.clone();
            self.kinds.push(Resolved { settings, resource, entry: Some(at) });
        }
        Ok(())
    }
}

/// Which kinds the entries mean, where `served` is what the API server serves. An entry that could not be read is given as the
/// reason; like an invalid one, it is not in force.
pub fn resolve(entries: &[Result<Entry, String>], served: &Served) -> Resolution {
    let mut resolution = Resolution::enforced();
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            Ok(entry) => {
                if let Err(fault) = resolution.add(at, entry, served) {
                    resolution.find((RESOURCES, at, ""), entry, fault);
                }
            }
            Err(why) => resolution.find((RESOURCES, at, ""), "?", (Fault::Unusable, why.clone())),
        }
    }
    resolution
}

/// What is wrong with the name in an entry, with what to do about the entry.
fn of_entry(entry: &Entry, (fault, why): (Fault, String)) -> (Fault, String) {
    let remedy = match fault {
        Fault::NotFound => {
            format!(
                ", and `kubectl hns config delete-type --resource {entry}` removes the entry of one that it served before"
            )
        }
        _ => String::new(),
    };
    (fault, format!("{why}{remedy}"))
}

fn is_same(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.kind == other.kind
}

/// The first entry of a kind counts. For a kind that is always propagated, an entry may only require objects to opt in.
fn may_be_said_of(known: &Resolved, entry: &Entry) -> Result<(), (Fault, String)> {
    match known.entry {
        Some(earlier) => Err((
            Fault::Duplicate,
            format!("spec.resources[{earlier}] is already about {}", known.settings.kind.group_resource()),
        )),
        None if entry.mode == Mode::AllowPropagate => Ok(()),
        None => Err((
            Fault::Enforced,
            format!(
                "{} are always in mode {}, without an entry; an entry for them, also one with onConflict or excludedNames, must have the \
                 mode AllowPropagate",
                known.settings.kind.group_resource(),
                Mode::Propagate
            ),
        )),
    }
}

fn check_usable(found: &ServedKind, mode: Mode) -> Result<(), (Fault, String)> {
    if !found.namespaced {
        return Err((
            Fault::NotNamespaced,
            format!("{} are cluster-scoped, so there is nothing to propagate", found.kind.group_resource()),
        ));
    }
    // Entries that ignore Events, or remove copies that another tool has made, are in force.
    if let Some(why) = never(&found.kind).filter(|_| mode.propagates() || is_structure(&found.kind)) {
        let resource = found.kind.group_resource();
        return Err((Fault::Unusable, format!("{resource} are never propagated, because {why}")));
    }
    let missing: Vec<&str> =
        NEEDED_VERBS.into_iter().filter(|verb| !found.verbs.iter().any(|it| it == verb)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err((
        Fault::Unusable,
        format!(
            "{} cannot be propagated, for the API server does not offer to {}",
            found.kind,
            missing.join(", ")
        ),
    ))
}
