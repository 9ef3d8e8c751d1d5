//! The configuration of Accurate's API (section 5 of its contract): Accurate's own file, and what it means. Pure.
//!
//! The patterns of keys stay texts here. What is checked with the cluster (that the watched kinds exist, and that there are rights
//! for them) is a function of what the API server has answered.

mod config;
mod gates;
mod glob;
mod naming;
mod watches;

use serde::{Deserialize, Deserializer};

pub use self::config::Config;
pub use self::gates::{FeatureGates, parse_flag};
pub use self::glob::validate_glob;
pub use self::naming::{NamingPolicies, NamingPolicy, Refusal};
pub use self::watches::{VERBS, Watch, missing_rights, self_review};

/// Reads a value that may be null, as Go does: null is the default.
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
