//! The hierarchy of namespaces as a value: facts go in, answers come out.
//!
//! Admission asks a [`Forest`] *may this happen?* and gets a [`rules::Verdict`]; reconciliation asks *what should exist?* and gets
//! a [`plan::Plan`]; users ask *why is it so?* ([`why`]). All answers use the same predicates: who is an ancestor of whom, what
//! is halted, what propagates where. So rules, plans and explanations cannot contradict each other.
//!
//! [`core`] holds what all dialects have in common, [`hnc`] is the API of the Hierarchical Namespace Controller, [`accurate`]
//! is that of Accurate, and [`Forest`] is the table of dialects. The rules and plans of a dialect import the forest. The forest imports the state of each dialect. These
//! states import the core. [`preview`] tries changes with the rules and plans of all dialects.
//!
//! The crate never does I/O, never reads a clock, and knows neither Kubernetes clients nor async runtimes. Looking
//! something up never changes the forest, and the order in which facts arrive does not matter: the forest
//! uses the last fact about each object.
#![warn(missing_docs)]

#[cfg(test)]
extern crate self as forest;
#[cfg(test)]
#[allow(dead_code, reason = "the tests in tests/ share it, and each uses a part")]
#[path = "../tests/support/cluster.rs"]
mod cluster;

pub mod accurate;
pub mod core;
mod dialects;
pub mod hnc;
pub mod preview;

pub use crate::core::change::{Change, ObjectScope, Scope};
pub use crate::core::content::{Canonical, Digest};
pub use crate::core::expression;
pub use crate::core::hop::{Hop, HopMode};
pub use crate::core::kind::{Kind, KindId, KindSettings, Mode, ObjectKey, OnConflict};
pub use crate::core::labels::Labels;
pub use crate::core::managed::Unmanaged;
pub use crate::core::name::{Name, is_namespace_name};
pub use crate::core::namespace::{Applied, Foreign, NamespaceFact};
pub use crate::core::object::{KnownContent, ObjectFact};
pub use crate::core::patterns::{PatternError, Patterns};
pub use crate::core::quantity::{NoQuantity, Quantity};
pub use crate::core::store::{Counts, Lag, Listing, Sizes, Unverified};
pub use crate::core::stream::{Stream, StreamState};
pub use crate::core::text;
pub use crate::core::tree::{EdgeKind, Illegal};
pub use crate::core::version::Version;
pub use crate::dialects::{Fact, Forest};
pub use crate::hnc::anchor::AnchorState;
pub use crate::hnc::condition::{Condition, Reason};
pub use crate::hnc::fact::{AnchorFact, CrdState, HierarchyFact, HierarchyStatus};
pub use crate::hnc::settings::{Identity, Settings, group_in};
pub use crate::hnc::tracking::{is_tracking_key, tracking_keys};
pub use crate::hnc::tree_limit::{TreeFault, TreeLimit};
pub use crate::hnc::{configuration, exceptions, exclusion, keys, plan, rules, why};
