//! The texts of HNC's objects and messages for what the core knows.

use std::collections::BTreeSet;
use std::fmt;

use crate::accurate::keys::FROM;
use crate::core::destination::{Unparsable, Withheld};
use crate::core::kind::{Kind, Mode, OnConflict};
use crate::core::managed::Unmanaged;
use crate::core::name::Name;
use crate::core::selector::shortened;
use crate::core::text::shown;
use crate::core::tree::Illegal;
use crate::core::verdict::{NamespacedRight, Question, Right, WaitFor};
use crate::hnc::keys;

/// As HNC's messages write a kind: `rbac.authorization.k8s.io/v1, Kind=Role`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// As in the `HNCConfiguration`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Propagate => "Propagate",
            Self::AllowPropagate => "AllowPropagate",
            Self::Remove => "Remove",
            Self::Ignore => "Ignore",
        })
    }
}

/// How many namespaces a message names; it counts the rest.
const NAMED: usize = 20;

/// The first names, and the number of the others.
pub(crate) fn listed(names: &BTreeSet<&Name>) -> String {
    let mut words: Vec<String> = names.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
    if let Some(more) = names.len().checked_sub(NAMED).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

/// How to resolve conflicts of objects of these kinds, in every message about one. As a clause. The configuration takes no
/// `onConflict` for roles that are always propagated, and objects that restrict a namespace must not be kept out of it.
pub(crate) fn way_out<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> String {
    let (mut by_kind, mut by_setting) = (false, false);
    for kind in kinds {
        by_setting |= kind.is_rbac();
        by_kind |= !kind.is_rbac() && !kind.restricts();
    }
    let ways = [
        (by_kind, ", or keep both with onConflict: Report for the kind in the HNCConfiguration"),
        (by_setting, ", or keep both with propagation.rbacOnConflict: Report in the settings of hns"),
    ];
    let ways = ways.into_iter().filter_map(|(is_open, way)| is_open.then_some(way));
    std::iter::once("rename or delete one of the two").chain(ways).collect()
}

/// As in the `HNCConfiguration`.
impl fmt::Display for OnConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep",
            Self::Report => "Report",
            Self::Overwrite => "Overwrite",
        })
    }
}

/// As a sentence, it says which annotation cannot be parsed, and why.
impl fmt::Display for Unparsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the annotation {} cannot be understood: {}", self.annotation, self.why)
    }
}

/// As a clause, it completes "… is not propagated because".
impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "its kind is in mode {mode}"),
            Self::Excluded(why) => f.write_str(why),
            Self::CopiedByHop => write!(
                f,
                "it is a copy of Accurate's API (annotation {FROM}); outside Accurate's hierarchy, remove the annotation to have it propagated"
            ),
            Self::ExcludedName(name) => {
                write!(f, "the name {:?} is excluded in the HNCConfiguration", shown(name))
            }
            Self::Unparsable(unparsable) => unparsable.fmt(f),
            Self::NotSelected => write!(f, "its annotation {} does not select the namespace", keys::SELECT),
            Self::NotInTree => {
                write!(f, "its annotation {} does not select the namespace", keys::TREE_SELECT)
            }
            Self::OptedOut => write!(f, "its annotation {} is true", keys::NONE),
            Self::NotOptedIn => write!(
                f,
                "its kind is in mode AllowPropagate and none of its annotations {}, {} and {} asks for it",
                keys::SELECT,
                keys::TREE_SELECT,
                keys::ALL
            ),
            Self::OtherRole { role, there: None, .. } => {
                write!(f, "it refers to the Role {}, which its own namespace does not have", shortened(role))
            }
            Self::OtherRole { role, there: Some(there), here: None } => {
                let role = shortened(role);
                write!(f, "it refers to the Role {role} of namespace {there:?}, which is not copied here")
            }
            Self::OtherRole { role, there: Some(there), here: Some(here) } => write!(
                f,
                "it refers to the Role {} of namespace {there:?}, and the Role of that name here is the one of namespace {here:?}",
                shortened(role)
            ),
            Self::RoleTerminating(role) => {
                let role = shortened(role);
                write!(f, "it refers to the Role {role}, and an older one of that name is being deleted here")
            }
        }
    }
}

/// As a clause, it completes "the namespace …".
impl fmt::Display for Unmanaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("is excluded, because hns runs in it"),
            Self::Excluded => f.write_str("is excluded by excludedNamespaces in the settings of hns"),
            Self::NotIncluded(pattern) => {
                let pattern = pattern.trim_start_matches("^(?:").trim_end_matches(")$");
                write!(
                    f,
                    "is excluded, because it does not match includedNamespaceRegex ({pattern}) in the settings of hns"
                )
            }
        }
    }
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself => f.write_str("a namespace cannot be its own parent"),
            Self::Below(path) => {
                write!(
                    f,
                    "this would make a cycle, for the parent is already below it: {}",
                    path.join(" -> ")
                )
            }
        }
    }
}

/// As a clause: "whether you are …".
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsAdmin(name) => write!(f, "whether you are an admin of {name:?}"),
            Self::MayCreateNamespace(name) => write!(f, "whether you may create the namespace {name:?}"),
            Self::MayConfigure(name) => {
                write!(f, "whether you may create a HierarchyConfiguration in namespace {name:?}")
            }
            Self::Has(right @ NamespacedRight { verb, resource, .. }) => {
                write!(f, "whether you may {verb} {resource} in {}", right.place())
            }
            Self::Namespace(name) | Self::Await(WaitFor::Namespace(name)) => {
                write!(f, "whether namespace {name:?} exists")
            }
            Self::Account(Right { account, verb, resource, .. }) => {
                write!(f, "whether the service account {} may {verb} {resource}", account.name())
            }
            Self::Await(WaitFor::Objects(kind)) => write!(f, "which {} there are", kind.group_resource()),
            Self::Await(WaitFor::NoNamespace(name)) => write!(f, "whether namespace {name:?} is gone"),
            Self::Await(WaitFor::TreeLabels(name)) => {
                write!(f, "whether the tree labels of namespace {name:?} are up to date")
            }
            Self::Await(WaitFor::Parent(name, _)) => write!(f, "what the parent of namespace {name:?} is"),
        }
    }
}
