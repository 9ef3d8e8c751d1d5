//! The two finalizers, by name. It never says when one is set.

/// On an anchor, until its subnamespace is gone or known not to be its own. It is the bare group name.
pub const SUBNAMESPACE_ANCHOR: &str = "hnc.x-k8s.io";

/// On the hierarchy configuration of a namespace that holds an anchor. The spelling is HNC's.
pub const HAS_SUBNAMESPACE: &str = "hnc.x-k8s.io/hasSubnamespace";
