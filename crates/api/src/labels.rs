//! The keys and values of labels.

/// The suffix of the key of every tree label. The name of an ancestor stands before it.
pub const TREE_DEPTH_SUFFIX: &str = ".tree.hnc.x-k8s.io/depth";

/// On every managed namespace, with the value [`TRUE`]; absent from all other namespaces. Webhook selectors
/// match it.
pub const INCLUDED_NAMESPACE: &str = "hnc.x-k8s.io/included-namespace";

/// On namespaces that the configuration excludes, with the value [`TRUE`].
pub const EXCLUDED_NAMESPACE: &str = "hnc.x-k8s.io/excluded-namespace";

/// On every namespace that has a child or an anchor, with any value. It shows the API server, which sees
/// one object at a time, that there are namespaces below.
pub const HAS_CHILDREN: &str = "hnc.x-k8s.io/has-children";

/// On every copy; the value is the namespace of the source. The presence of the label makes an object a
/// copy.
pub const INHERITED_FROM: &str = "hnc.x-k8s.io/inherited-from";

/// The well-known label for the manager of an object; on copies always [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The value of [`MANAGED_BY`] on copies.
pub const MANAGED_BY_VALUE: &str = crate::GROUP;

/// On resource quotas that are derived from hierarchical ones, with the value [`TRUE`].
pub const HRQ: &str = "hnc.x-k8s.io/hrq";

/// The value of labels that have no other meaning than their presence.
pub const TRUE: &str = "true";

/// The key of the tree label for an ancestor `namespace`. The value of the label is the distance to that
/// ancestor in decimal; it is `0` on `namespace` itself.
///
/// ```
/// assert_eq!(hns_api::labels::tree_label("acme"), "acme.tree.hnc.x-k8s.io/depth");
/// ```
pub fn tree_label(namespace: &str) -> String {
    format!("{namespace}{TREE_DEPTH_SUFFIX}")
}

/// The ancestor of a tree label; `None` for any other key.
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
