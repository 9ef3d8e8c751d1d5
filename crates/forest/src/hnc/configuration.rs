//! From what the `HNCConfiguration` says to the kinds that are propagated (sections 2.3 and 6.3 of docs/compatibility.md).
//!
//! An entry names a resource as people do: in the plural, by preference, but also in the singular or by a short name, and
//! often without its group. What the API server serves decides which kind is meant. Admission refuses what is found wrong here;
//! reconciliation applies the rest and reports it. Never asks the API server itself, and never looks at objects.

pub mod rights;
mod served;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::served::{Served, ServedKind};
use crate::core::kind::{Kind, KindSettings, Mode, OnConflict};
use crate::core::patterns::Patterns;
use crate::hnc::keys;

/// What the objects of a kind must let be done to them, or they cannot be propagated.
const NEEDED_VERBS: [&str; 5] = ["list", "watch", "create", "update", "delete"];

/// One of `spec.resources`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The group as written; empty for the core group, and where the entry leaves open which group is meant.
    pub group: String,
    /// The resource as written.
    pub resource: String,
    /// The mode in force.
    pub mode: Mode,
    /// What becomes of conflicts, if it says so.
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

/// What comes of the whole configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The kinds, those that are always propagated first and then in the order of the entries.
    pub kinds: Vec<Resolved>,
    /// What is wrong with the entries, in their order.
    pub findings: Vec<Finding>,
}

/// A kind, and how the configuration calls it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The kind and what is done with it.
    pub settings: KindSettings,
    /// The group as written.
    pub group: String,
    /// The resource as written.
    pub resource: String,
    /// The entry that says so, if one does.
    pub entry: Option<usize>,
}

/// Something wrong with an entry, which is therefore not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which entry.
    pub entry: usize,
    /// The entry's own words.
    pub subject: String,
    /// What sort of fault it is.
    pub fault: Fault,
    /// What is wrong, as a clause.
    pub why: String,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no such resource.
    NotFound,
    /// The resource has no namespace.
    NotNamespaced,
    /// The kind is always propagated.
    Enforced,
    /// An earlier entry is about the same kind.
    Duplicate,
    /// The API server cannot say at the moment what it serves.
    Unavailable,
    /// Anything else.
    Unusable,
}

impl Fault {
    /// The reason of the condition that tells of it.
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
    /// The path of the entry.
    pub fn field(&self) -> String {
        format!("spec.resources[{}]", self.entry)
    }
}

/// As a sentence without an end, which says where and what.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}): {}", self.field(), self.subject, self.why)
    }
}

impl Resolution {
    /// What holds without any configuration.
    pub fn enforced() -> Self {
        let kinds = [Kind::role(), Kind::role_binding()];
        let kinds = kinds.map(|kind| Resolved {
            group: kind.group.clone(),
            resource: kind.resource.clone(),
            settings: KindSettings::new(kind, Mode::Propagate),
            entry: None,
        });
        Self { kinds: kinds.into(), findings: Vec::new() }
    }

    /// The kinds with what is done with them.
    pub fn settings(&self) -> impl Iterator<Item = &KindSettings> {
        self.kinds.iter().map(|resolved| &resolved.settings)
    }

    /// What is said of a kind, whatever its version.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Resolved> {
        self.kinds.iter().find(|resolved| is_same(&resolved.settings.kind, kind))
    }

    fn find(&mut self, entry: usize, subject: impl fmt::Display, (fault, why): (Fault, String)) {
        self.findings.push(Finding { entry, subject: subject.to_string(), fault, why });
    }

    fn add(&mut self, at: usize, entry: &Entry, served: &Served) -> Result<(), (Fault, String)> {
        let found = served.named(entry)?;
        let known = self.kinds.iter_mut().find(|known| is_same(&known.settings.kind, &found.kind));
        if let Some(known) = &known {
            may_be_said_of(known, entry)?;
        }
        check_usable(found)?;
        let excluded_names = Patterns::new(&entry.excluded_names)
            .map_err(|error| (Fault::Unusable, format!("excludedNames cannot be used: {error}")))?;
        // What is always propagated is so in the version that it has always been.
        let kind = known.as_ref().map_or_else(|| found.kind.clone(), |known| known.settings.kind.clone());
        let settings =
            KindSettings { kind, mode: entry.mode, on_conflict: entry.on_conflict, excluded_names };
        if let Some(known) = known {
            (known.settings, known.entry) = (settings, Some(at));
        } else {
            let (group, resource) = (entry.group.clone(), entry.resource.clone());
            self.kinds.push(Resolved { settings, group, resource, entry: Some(at) });
        }
        Ok(())
    }
}

/// Which kinds the entries mean, where `served` is what the API server serves. An entry that could not be read is given as
/// the reason why; it is in force no more than one that makes no sense.
pub fn resolve(entries: &[Result<Entry, String>], served: &Served) -> Resolution {
    let mut resolution = Resolution::enforced();
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            Ok(entry) => {
                if let Err(fault) = resolution.add(at, entry, served) {
                    resolution.find(at, entry, fault);
                }
            }
            Err(why) => resolution.find(at, "?", (Fault::Unusable, why.clone())),
        }
    }
    resolution
}

fn is_same(one: &Kind, other: &Kind) -> bool {
    one.group == other.group && one.kind == other.kind
}

/// The first entry about a kind counts. Of those that are always propagated it can be said that their objects have to opt in.
fn may_be_said_of(known: &Resolved, entry: &Entry) -> Result<(), (Fault, String)> {
    match known.entry {
        Some(earlier) => Err((
            Fault::Duplicate,
            format!("spec.resources[{earlier}] is already about {}", known.settings.kind),
        )),
        None if entry.mode == Mode::AllowPropagate => Ok(()),
        None => Err((
            Fault::Enforced,
            format!(
                "{} is always in mode {}; the only other mode it may be set to is AllowPropagate",
                known.settings.kind,
                Mode::Propagate
            ),
        )),
    }
}

fn check_usable(found: &ServedKind) -> Result<(), (Fault, String)> {
    if !found.namespaced {
        return Err((
            Fault::NotNamespaced,
            format!("{} is cluster-scoped, so there is nothing to propagate", found.kind),
        ));
    }
    if found.kind.group == keys::GROUP {
        return Err((
            Fault::Unusable,
            format!("{} is what the hierarchy is made of, so it is never propagated", found.kind),
        ));
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
