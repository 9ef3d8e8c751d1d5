//! The names of the two finalizers.

/// On an anchor, until its subnamespace is deleted or is known to belong to another parent. It is the plain
/// group name.
pub const SUBNAMESPACE_ANCHOR: &str = "hnc.x-k8s.io";

/// On the hierarchy configuration of a namespace that holds an anchor. The spelling is HNC's.
pub const HAS_SUBNAMESPACE: &str = "hnc.x-k8s.io/hasSubnamespace";
