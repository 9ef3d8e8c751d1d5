//! The labels, annotations and finalizers that the forest reads or plans, by name.
//!
//! This crate does not import the API crate, which has the same names. A test of the crate `hns-cluster` compares both.

/// The suffix of the key of a tree label. Before it stands the name of an ancestor, and the value is the distance to it.
pub const TREE_LABEL: &str = ".tree.hnc.x-k8s.io/depth";
/// On every managed namespace, `true`.
pub const INCLUDED: &str = "hnc.x-k8s.io/included-namespace";
/// On namespaces that are excluded by name, `true`.
pub const EXCLUDED: &str = "hnc.x-k8s.io/excluded-namespace";
/// On every namespace with a child or an anchor, `true`.
pub const HAS_CHILDREN: &str = "hnc.x-k8s.io/has-children";
/// On a subnamespace: the name of its parent.
pub const SUBNAMESPACE_OF: &str = "hnc.x-k8s.io/subnamespace-of";
/// On a namespace whose place in a hierarchy another tool manages: the name of the tool.
pub const EXTERNALLY_MANAGED_BY: &str = "hnc.x-k8s.io/managed-by";
/// On an anchor and on a new namespace: the first administrator of the subnamespace.
pub const INITIAL_ADMIN: &str = "hnc.x-k8s.io/initial-admin";
/// The project's API group; also the value of `managed-by` when no other tool manages the namespace.
pub const GROUP: &str = "hnc.x-k8s.io";
/// On anchors.
pub const ANCHOR_FINALIZER: &str = "hnc.x-k8s.io";
/// On a `HierarchyConfiguration` in a namespace with anchors.
pub const HIERARCHY_FINALIZER: &str = "hnc.x-k8s.io/hasSubnamespace";
/// On a namespace, where a flag asks for it: the names of its ancestors and its own, the root's first, joined by dots.
pub const ANCESTRY: &str = "hnc.x-k8s.io/ancestry";
/// On a source: a label selector that destinations must match.
pub const SELECT: &str = "propagate.hnc.x-k8s.io/select";
/// On a source: the subtrees that it propagates to, or with `!` does not propagate to.
pub const TREE_SELECT: &str = "propagate.hnc.x-k8s.io/treeSelect";
/// On a source: true keeps it in its own namespace.
pub const NONE: &str = "propagate.hnc.x-k8s.io/none";
/// On a source: true opts in where its kind is in mode `AllowPropagate`.
pub const ALL: &str = "propagate.hnc.x-k8s.io/all";
/// On a copy: the namespace of its source.
pub const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";
/// The name of the `ResourceQuota` that the controller derives from hierarchical quotas.
pub const DERIVED_QUOTA: &str = "hrq.hnc.x-k8s.io";
/// On a derived quota, `true`.
pub const HRQ: &str = "hnc.x-k8s.io/hrq";
/// On a derived quota: the quotas that it is derived from, for programs.
pub const HRQ_SOURCES: &str = "hnc.x-k8s.io/hrq-sources";
/// On a derived quota: what limits each resource, and how much is left, for people.
pub const HRQ_LIMITS: &str = "hnc.x-k8s.io/hrq-limits";
/// Of `OpenShift`. An object with it, with any value, never propagates.
pub const OPENSHIFT_DESCRIPTION: &str = "openshift.io/description";
/// The prefix of the name of the binding for the creator of a subnamespace. The namespace follows, because the binding propagates
/// to the namespaces below, where the creators of other subnamespaces have their own.
pub const INITIAL_ADMIN_BINDING: &str = "hns-initial-admin-";
