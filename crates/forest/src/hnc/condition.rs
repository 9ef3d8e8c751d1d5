//! The conditions of a namespace, as its `HierarchyConfiguration` shows them (section 4.1 of docs/compatibility.md).
//!
//! Says what is wrong with a namespace; never when it began, which the shell that writes it down knows.

use crate::core::text::{MESSAGE, limited};
pub(crate) use crate::core::tree::Halt;

/// A condition to show or as shown. Its status is always `True`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `ActivitiesHalted` or `BadConfiguration`.
    pub type_: Box<str>,
    /// The reason, one CamelCase word.
    pub reason: Box<str>,
    /// One sentence for a person.
    pub message: Box<str>,
    /// `lastTransitionTime` in RFC 3339; `None` when the condition is new and its writer has to say the time.
    pub since: Option<Box<str>>,
}

impl Condition {
    /// A new condition. Of a message that the API server would refuse for its length, the middle is left out.
    pub fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        Self {
            type_: reason.condition_type().into(),
            reason: reason.as_str().into(),
            message: limited(message.as_ref(), MESSAGE).into(),
            since: None,
        }
    }

    /// Takes over the time of the same condition in `shown`, so that it moves only when the condition does.
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
    /// Another namespace above is halted.
    AncestorHaltActivities,
    /// The `HierarchyConfiguration` could not be understood.
    Unreadable,
    /// The definition of `HierarchyConfiguration` is being deleted.
    DeletingCRD,
    /// A subnamespace whose anchor is not there.
    SubnamespaceAnchorMissing,
    /// A label that is asked for is not managed.
    IllegalManagedLabel,
    /// An annotation that is asked for is not managed.
    IllegalManagedAnnotation,
    /// A managed label or annotation that is asked for has another value, because an ancestor says so.
    OverriddenByAncestor,
    /// A copy could not be written or removed.
    CannotPropagateObject,
    /// Bindings wait because a `ResourceQuota` from above is not in force.
    QuotaNotInForce,
}

impl Reason {
    /// The word in `reason`.
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

    /// The word in `type`.
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
    pub(crate) fn condition(&self) -> Condition {
        match self {
            Self::IllegalParent(parent) => Condition::new(
                Reason::IllegalParent,
                format!(
                    "The parent {parent:?} is not managed, so it can have no children; choose another parent, or have \
                     the administrator include it"
                ),
            ),
            Self::ParentMissing(parent) => Condition::new(
                Reason::ParentMissing,
                format!("The parent {parent:?} does not exist; create it, or choose another parent"),
            ),
            Self::InCycle(members) => Condition::new(
                Reason::InCycle,
                format!("Namespace is a member of the cycle: {}", members.join(" <- ")),
            ),
            Self::Unreadable(why) => Condition::new(
                Reason::Unreadable,
                format!("The HierarchyConfiguration cannot be understood: {why}"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cycle_makes_a_message_that_the_api_server_refuses() {
        let members = (0..2_000).map(|number| format!("{number:063}").into()).collect();
        let condition = Halt::InCycle(members).condition();
        assert_eq!(condition.message.len(), MESSAGE);
        assert!(condition.message.ends_with(&format!("{:063}", 1_999)));
    }
}
