//! The keys of annotations.

/// On a subnamespace: its parent. This annotation, not the anchor, makes a namespace a subnamespace.
pub const SUBNAMESPACE_OF: &str = "hnc.x-k8s.io/subnamespace-of";

/// On a namespace: the manager of its place in the hierarchy. Any value except the empty one and
/// [`MANAGED_BY_HNC`] makes it an external namespace.
pub const MANAGED_BY: &str = "hnc.x-k8s.io/managed-by";

/// The value of [`MANAGED_BY`] that means the same as no annotation.
pub const MANAGED_BY_HNC: &str = crate::GROUP;

/// On an anchor: the user who created it. This user becomes the first administrator of the subnamespace.
pub const INITIAL_ADMIN: &str = "hnc.x-k8s.io/initial-admin";

/// On a namespace: the full names of its ancestors, joined by dots. HNC does not have this annotation; it
/// is written only if a flag enables it.
pub const ANCESTRY: &str = "hnc.x-k8s.io/ancestry";

/// On a source: a label selector for the namespaces that get a copy.
pub const PROPAGATE_SELECT: &str = "propagate.hnc.x-k8s.io/select";

/// On a source: the subtrees that get copies, or with `!` do not get copies.
pub const PROPAGATE_TREE_SELECT: &str = "propagate.hnc.x-k8s.io/treeSelect";

/// On a source: `true` stops its propagation.
pub const PROPAGATE_NONE: &str = "propagate.hnc.x-k8s.io/none";

/// On a source: `true` opts in if its kind is in mode `AllowPropagate`.
pub const PROPAGATE_ALL: &str = "propagate.hnc.x-k8s.io/all";

/// The four annotations that control the propagation of a source.
pub const PROPAGATE: [&str; 4] = [PROPAGATE_SELECT, PROPAGATE_TREE_SELECT, PROPAGATE_NONE, PROPAGATE_ALL];

/// On a derived resource quota, for people: the hierarchical quota that binds for each resource, and how much of it is left.
pub const HRQ_LIMITS: &str = "hnc.x-k8s.io/hrq-limits";

/// On a derived resource quota, for programs: the version from which the controller changed it, to end an increase of usage that
/// was allowed and not stored.
pub const HRQ_RELEASED: &str = "hnc.x-k8s.io/hrq-released";

/// On a derived resource quota, for programs: the hierarchical quotas that it was derived from.
pub const HRQ_SOURCES: &str = "hnc.x-k8s.io/hrq-sources";

/// Set by `OpenShift`. An object with this annotation, whatever its value, is never propagated.
pub const OPENSHIFT_DESCRIPTION: &str = "openshift.io/description";

/// On a dry-run request with which the controller checks that copies are guarded. The request must be
/// refused although the controller sends it.
pub const GUARD_PROBE: &str = "hnc.x-k8s.io/guard-probe";
