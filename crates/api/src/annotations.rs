//! The annotations that are read or written, by name. It never parses a value.

/// On a subnamespace: the namespace it is a subnamespace of. This, not the anchor, makes it one.
pub const SUBNAMESPACE_OF: &str = "hnc.x-k8s.io/subnamespace-of";

/// On a namespace: who manages its place in the hierarchy. Neither empty nor [`MANAGED_BY_HNC`] makes it an
/// external one.
pub const MANAGED_BY: &str = "hnc.x-k8s.io/managed-by";

/// The value of [`MANAGED_BY`] that means the same as none.
pub const MANAGED_BY_HNC: &str = crate::GROUP;

/// On an anchor: the user who created it, and who becomes the first administrator of the subnamespace.
pub const INITIAL_ADMIN: &str = "hnc.x-k8s.io/initial-admin";

/// On a namespace: the full names of its ancestors, joined by dots. HNC has no such annotation, so it is
/// written only where a flag asks for it.
pub const ANCESTRY: &str = "hnc.x-k8s.io/ancestry";

/// On a source: a label selector that destination namespaces must match.
pub const PROPAGATE_SELECT: &str = "propagate.hnc.x-k8s.io/select";

/// On a source: the subtrees it goes to, or with `!` does not go to.
pub const PROPAGATE_TREE_SELECT: &str = "propagate.hnc.x-k8s.io/treeSelect";

/// On a source: true keeps it from going anywhere.
pub const PROPAGATE_NONE: &str = "propagate.hnc.x-k8s.io/none";

/// On a source: true opts in where its kind is in mode `AllowPropagate`.
pub const PROPAGATE_ALL: &str = "propagate.hnc.x-k8s.io/all";

/// The four annotations by which a source says where it goes.
pub const PROPAGATE: [&str; 4] = [PROPAGATE_SELECT, PROPAGATE_TREE_SELECT, PROPAGATE_NONE, PROPAGATE_ALL];

/// Not ours: an object that has it, with any value, is never propagated.
pub const OPENSHIFT_DESCRIPTION: &str = "openshift.io/description";

/// On a dry run with which the controller asks whether copies are guarded: it must be refused although the controller sends it.
pub const GUARD_PROBE: &str = "hnc.x-k8s.io/guard-probe";
