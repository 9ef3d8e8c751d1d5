//! The labels that are read or written, by name. It never says who may set one.

/// Ends the key of every tree label; before it stands the name of an ancestor.
pub const TREE_DEPTH_SUFFIX: &str = ".tree.hnc.x-k8s.io/depth";

/// On every managed namespace with the value [`TRUE`], absent from all others. Webhook selectors match it.
pub const INCLUDED_NAMESPACE: &str = "hnc.x-k8s.io/included-namespace";

/// On namespaces that are excluded by configuration, with the value [`TRUE`].
pub const EXCLUDED_NAMESPACE: &str = "hnc.x-k8s.io/excluded-namespace";

/// On every namespace with a child or an anchor; any value counts. It tells the API server, which sees one
/// object at a time, that a namespace has something below it.
pub const HAS_CHILDREN: &str = "hnc.x-k8s.io/has-children";

/// On every copy, its value being the namespace of the source. Its presence alone makes an object a copy.
pub const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";

/// The well-known label naming the manager of an object; on copies always [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// What [`MANAGED_BY`] says on copies.
pub const MANAGED_BY_VALUE: &str = crate::GROUP;

/// On resource quotas that are derived from hierarchical ones, with the value [`TRUE`].
pub const HIERARCHICAL_RESOURCE_QUOTA: &str = "hnc.x-k8s.io/hrq";

/// The value of those labels whose presence is all they say.
pub const TRUE: &str = "true";

/// The key of the tree label that says how far below `namespace` the labelled namespace is. The value is
/// the distance in decimal, `0` on `namespace` itself.
///
/// ```
/// assert_eq!(hns_api::labels::tree_label("acme"), "acme.tree.hnc.x-k8s.io/depth");
/// ```
pub fn tree_label(namespace: &str) -> String {
    format!("{namespace}{TREE_DEPTH_SUFFIX}")
}

/// The ancestor that a tree label is about; `None` for any other key.
///
/// ```
/// use hns_api::labels::tree_label_namespace;
/// assert_eq!(tree_label_namespace("acme.tree.hnc.x-k8s.io/depth"), Some("acme"));
/// assert_eq!(tree_label_namespace(".tree.hnc.x-k8s.io/depth"), None);
/// assert_eq!(tree_label_namespace("hnc.x-k8s.io/included-namespace"), None);
/// ```
pub fn tree_label_namespace(key: &str) -> Option<&str> {
    key.strip_suffix(TREE_DEPTH_SUFFIX).filter(|namespace| !namespace.is_empty())
}
