//! The labels, annotations and finalizers that the forest itself reads or has written, by name.
//!
//! The same words stand in the API crate, which this one does not know; a test of the runtime crate holds them together.

/// Ends the key of a tree label; before it stands the name of an ancestor, and the value is the distance to it.
pub const TREE_LABEL: &str = ".tree.hnc.x-k8s.io/depth";
/// On every managed namespace, `true`.
pub const INCLUDED: &str = "hnc.x-k8s.io/included-namespace";
/// On listed namespaces only, `true`.
pub const EXCLUDED: &str = "hnc.x-k8s.io/excluded-namespace";
/// On every namespace with a child or an anchor, `true`.
pub const HAS_CHILDREN: &str = "hnc.x-k8s.io/has-children";
/// On a subnamespace: its parent.
pub const SUBNAMESPACE_OF: &str = "hnc.x-k8s.io/subnamespace-of";
/// On a namespace whose place in a hierarchy another tool keeps: which tool.
pub const EXTERNALLY_MANAGED_BY: &str = "hnc.x-k8s.io/managed-by";
/// On an anchor and on a new namespace: who is to be its first administrator.
pub const INITIAL_ADMIN: &str = "hnc.x-k8s.io/initial-admin";
/// The project's own group; also what `managed-by` says when no other tool is meant.
pub const GROUP: &str = "hnc.x-k8s.io";
/// On anchors.
pub const ANCHOR_FINALIZER: &str = "hnc.x-k8s.io";
/// On a `HierarchyConfiguration` in a namespace with anchors.
pub const HIERARCHY_FINALIZER: &str = "hnc.x-k8s.io/hasSubnamespace";
/// On a namespace, where a flag asks for it: the names of its ancestors and its own, the root's first, joined by dots.
pub const ANCESTRY: &str = "hnc.x-k8s.io/ancestry";
/// On a source: a label selector that destinations must match.
pub const SELECT: &str = "propagate.hnc.x-k8s.io/select";
/// On a source: the subtrees it goes to, or with `!` does not go to.
pub const TREE_SELECT: &str = "propagate.hnc.x-k8s.io/treeSelect";
/// On a source: true keeps it where it is.
pub const NONE: &str = "propagate.hnc.x-k8s.io/none";
/// On a source: true opts in where its kind is in mode `AllowPropagate`.
pub const ALL: &str = "propagate.hnc.x-k8s.io/all";
/// On a copy: the namespace of its source.
pub const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";
/// Not ours: an object with it, whatever its value, never propagates.
pub const OPENSHIFT_DESCRIPTION: &str = "openshift.io/description";
/// How the name of the binding of a subnamespace's creator begins. The namespace follows: the binding is propagated to what is
/// below, where another creator's must have room beside it.
pub const INITIAL_ADMIN_BINDING: &str = "hns-initial-admin-";
