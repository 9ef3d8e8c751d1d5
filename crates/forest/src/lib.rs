//! The hierarchy of namespaces as a value: facts go in, answers come out.
//!
//! Two questions are asked of a [`Forest`]. Admission asks *may this happen?* and gets a [`rules::Verdict`];
//! reconciliation asks *what should exist?* and gets a [`plan::Plan`]. People ask a third, *why is it so?* ([`why`]). All rest
//! on the same few predicates (who is whose ancestor, what is halted, what propagates where), so what is refused at the
//! door, what is reported when it slipped through, and what is explained cannot differ.
//!
//! The crate never does I/O, never reads a clock, and knows neither Kubernetes clients nor async runtimes. Looking
//! something up never changes the forest, and the order in which facts arrive does not matter: what counts is the last
//! fact told of each object.
#![warn(missing_docs)]

#[cfg(test)]
extern crate self as forest;
#[cfg(test)]
#[allow(dead_code, reason = "the tests in tests/ share it, and each uses a part")]
#[path = "../tests/support/cluster.rs"]
mod cluster;

pub mod core;
pub mod hnc;

pub use crate::core::text;
pub(crate) use crate::core::{content, kind, object, patterns, store, stream, tree, version};
pub(crate) use crate::hnc::{anchor, condition, fact, settings, tracking};
pub use crate::hnc::{configuration, exceptions, exclusion, keys, plan, preview, rules, why};

pub use crate::core::change::{Change, ObjectScope, Scope};
pub use crate::core::labels::Labels;
pub use anchor::AnchorState;
pub use condition::{Condition, Reason};
pub use content::{Canonical, Digest};
pub use fact::{
    AnchorFact, Content, Definition, Fact, Foreign, HierarchyFact, HierarchyStatus, NamespaceFact,
    ObjectFact, Version,
};
pub use kind::{Kind, KindId, KindSettings, Mode, ObjectKey, OnConflict, WAY_OUT};
pub use object::Counts;
pub use patterns::{PatternError, Patterns};
pub use settings::{Identity, Settings, Unmanaged};
pub use store::{Forest, Lag, Listing, Sizes, Unmatched};
pub use stream::{Stream, StreamState};
pub use tracking::{is_tracking_key, tracking_keys};
pub use tree::Illegal;

/// The name of a namespace or an object, shared between everything that mentions it.
pub type Name = std::sync::Arc<str>;
