//! The conditions of a namespace in its `HierarchyConfiguration` (section 4.1 of docs/compatibility.md).
//!
//! This module has no clock: the writer of a condition sets its time.

use super::settings::Settings;
use crate::core::managed::Unmanaged;
use crate::core::text::{MESSAGE, limited};
pub(crate) use crate::core::tree::Halt;

/// A condition. Its status is always `True`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `ActivitiesHalted` or `BadConfiguration`.
    pub type_: Box<str>,
    /// The reason, one CamelCase word.
    pub reason: Box<str>,
    /// One sentence for users.
    pub message: Box<str>,
    /// `lastTransitionTime` in RFC 3339; `None` when the condition is new and its writer sets the time.
    pub since: Option<Box<str>>,
}

impl Condition {
    /// A new condition. A message that is too long for the API server is shortened in the middle.
    pub fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        Self {
            type_: reason.condition_type().into(),
            reason: reason.as_str().into(),
            message: limited(message.as_ref(), MESSAGE).into(),
            since: None,
        }
    }

    /// Keeps the time of the same condition in `shown`, so that the time changes only with the condition.
    #[must_use]
    pub fn since_shown(mut self, shown: &[Self]) -> Self {
        let same = |other: &&Self| other.type_ == self.type_ && other.reason == self.reason;
        self.since = shown.iter().find(same).and_then(|other| other.since.clone());
        self
    }
}

/// Why a condition is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The parent is a namespace that is not managed.
    IllegalParent,
    /// The parent does not exist.
    ParentMissing,
    /// The namespace is its own ancestor.
    InCycle,
    /// An ancestor is halted.
    AncestorHaltActivities,
    /// The `HierarchyConfiguration` could not be parsed.
    Unreadable,
    /// The CRD of `HierarchyConfiguration` is being deleted.
    DeletingCRD,
    /// The anchor of a subnamespace is missing.
    SubnamespaceAnchorMissing,
    /// A requested label is not managed.
    IllegalManagedLabel,
    /// A requested annotation is not managed.
    IllegalManagedAnnotation,
    /// A requested managed label or annotation has another value, because an ancestor sets it.
    OverriddenByAncestor,
    /// A copy could not be written or removed.
    CannotPropagateObject,
    /// Bindings wait because a `ResourceQuota` from above is not in force.
    QuotaNotInForce,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::IllegalParent,
        Self::ParentMissing,
        Self::InCycle,
        Self::AncestorHaltActivities,
        Self::Unreadable,
        Self::DeletingCRD,
        Self::SubnamespaceAnchorMissing,
        Self::IllegalManagedLabel,
        Self::IllegalManagedAnnotation,
        Self::OverriddenByAncestor,
        Self::CannotPropagateObject,
        Self::QuotaNotInForce,
    ];

    /// The reason that a stored condition shows. A user can store a condition with any other.
    pub fn of(shown: &Condition) -> Option<Self> {
        let is_shown = |it: &Self| *shown.type_ == *it.condition_type() && *shown.reason == *it.as_str();
        Self::ALL.into_iter().find(is_shown)
    }

    /// The value of `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IllegalParent => "IllegalParent",
            Self::ParentMissing => "ParentMissing",
            Self::InCycle => "InCycle",
            Self::AncestorHaltActivities => "AncestorHaltActivities",
            Self::Unreadable => "Unreadable",
            Self::DeletingCRD => "DeletingCRD",
            Self::SubnamespaceAnchorMissing => "SubnamespaceAnchorMissing",
            Self::IllegalManagedLabel => "IllegalManagedLabel",
            Self::IllegalManagedAnnotation => "IllegalManagedAnnotation",
            Self::OverriddenByAncestor => "OverriddenByAncestor",
            Self::CannotPropagateObject => "CannotPropagateObject",
            Self::QuotaNotInForce => "QuotaNotInForce",
        }
    }

    /// The value of `type`.
    pub fn condition_type(self) -> &'static str {
        match self {
            Self::IllegalParent
            | Self::ParentMissing
            | Self::InCycle
            | Self::AncestorHaltActivities
            | Self::DeletingCRD
            | Self::Unreadable => "ActivitiesHalted",
            Self::SubnamespaceAnchorMissing
            | Self::IllegalManagedLabel
            | Self::IllegalManagedAnnotation
            | Self::OverriddenByAncestor
            | Self::CannotPropagateObject
            | Self::QuotaNotInForce => "BadConfiguration",
        }
    }
}

impl Halt {
    pub(crate) fn condition(&self, settings: &Settings) -> Condition {
        match self {
            Self::IllegalParent { parent, is_missing } => {
                let unmanaged = settings.unmanaged(parent);
                let can_be_included = !is_missing && !matches!(unmanaged, Some(Unmanaged::Own));
                let or = if can_be_included { ", or have the administrator include it" } else { "" };
                let why = unmanaged.map_or_else(|| "is not managed".to_owned(), |why| why.to_string());
                let missing = if *is_missing { "does not exist, and " } else { "" };
                Condition::new(
                    Reason::IllegalParent,
                    format!(
                        "The parent {parent:?} {missing}{why}, so it can have no children; choose another parent{or}"
                    ),
                )
            }
            Self::ParentMissing(parent) => Condition::new(
                Reason::ParentMissing,
                format!(
                    "The parent {parent:?} does not exist; create it, or choose another parent. If the parent had a parent itself, \
                     create it there: as a root, it passes no copies and restrictions from further up on to this namespace"
                ),
            ),
            Self::InCycle(members) => Condition::new(
                Reason::InCycle,
                format!("Namespace is a member of the cycle: {}", members.join(" <- ")),
            ),
            Self::Unreadable(why) => Condition::new(
                Reason::Unreadable,
                format!("The HierarchyConfiguration cannot be understood: {why}"),
            ),
            Self::Crossed => Condition::new(
                Reason::IllegalParent,
                "Namespace is also in a hierarchy of accurate.cybozu.com, and can be in one hierarchy only; if \
                 `kubectl hns convert ROOT --to hnc` was interrupted, run it again; otherwise remove its labels accurate.cybozu.com/…, \
                 after those of the namespaces that name it, or, if it has no children here, its parent here",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_illegal_parent_is_told_why_it_is_one() {
        let settings = Settings::new("hnc-system", ["listed"], "team-.*").unwrap();
        for (parent, why, remedy) in [
            ("listed", "\"listed\" is excluded by excludedNamespaces", "have the administrator include it"),
            (
                "other",
                "\"other\" is excluded, because it does not match includedNamespaceRegex",
                "include it",
            ),
            ("hnc-system", "\"hnc-system\" is excluded, because hns runs in it", "; choose another parent"),
        ] {
            let message = |is_missing| {
                Halt::IllegalParent { parent: parent.into(), is_missing }.condition(&settings).message
            };
            let (present, missing) = (message(false), message(true));
            assert!(present.contains(why) && present.ends_with(remedy), "{present}");
            assert!(
                missing.contains("does not exist") && missing.ends_with("; choose another parent"),
                "{missing}"
            );
        }
    }

    /// While it is halted, its children cannot be changed.
    #[test]
    fn a_namespace_in_both_hierarchies_is_told_to_finish_the_conversion() {
        let message = Halt::Crossed.condition(&crate::cluster::settings()).message;
        assert!(message.contains("`kubectl hns convert ROOT --to hnc` was interrupted, run it again"));
        assert!(message.ends_with("or, if it has no children here, its parent here"), "{message}");
    }

    #[test]
    fn no_cycle_makes_a_message_that_the_api_server_refuses() {
        let members = (0..2_000).map(|number| format!("{number:063}").into()).collect();
        let condition = Halt::InCycle(members).condition(&crate::cluster::settings());
        assert_eq!(condition.message.len(), MESSAGE);
        assert!(condition.message.ends_with(&format!("{:063}", 1_999)));
    }
}
