//! The labels, annotations and finalizers of Accurate that the forest reads or plans, by name (section 2 of its contract).
//!
//! This crate does not import the API crate, which has the same names. A test of the crate `hns-cluster` compares both.

/// The API group.
pub const GROUP: &str = "accurate.cybozu.com";
/// Label on a namespace: what it is to others, [`ROOT`] or [`TEMPLATE_TYPE`].
pub const TYPE: &str = "accurate.cybozu.com/type";
/// The value of [`TYPE`] on a namespace that can have sub-namespaces.
pub const ROOT: &str = "root";
/// The value of [`TYPE`] on a namespace that others can name as their template.
pub const TEMPLATE_TYPE: &str = "template";
/// Label on a namespace: the name of its template.
pub const TEMPLATE: &str = "accurate.cybozu.com/template";
/// Label on a namespace: the name of its parent.
pub const PARENT: &str = "accurate.cybozu.com/parent";
/// Label on sub-namespaces and on copies.
pub const CREATED_BY: &str = "app.kubernetes.io/created-by";
/// The value of [`CREATED_BY`].
pub const CREATOR: &str = "accurate";
/// Annotation on an object: how it is copied to the next namespaces, `create` or `update`.
pub const PROPAGATE: &str = "accurate.cybozu.com/propagate";
/// Annotation on a copy: the namespace of its source.
pub const FROM: &str = "accurate.cybozu.com/from";
/// Annotation on an object: how the objects that it owns are propagated, `create` or `update`. Deprecated.
pub const PROPAGATE_GENERATED: &str = "accurate.cybozu.com/propagate-generated";
/// Annotation on an object with an owner: whether the owner asks for its propagation. Deprecated.
pub const GENERATED: &str = "accurate.cybozu.com/generated";
/// The value of [`GENERATED`] if it does not.
pub const GENERATED_FALSE: &str = "false";
/// Finalizer on a `SubNamespace`.
pub const FINALIZER: &str = "accurate.cybozu.com/finalizer";

/// Whether no setting can make this key of a namespace flow downstream. The keys of a hierarchy say where a namespace is, and the
/// API server sets the label of its name.
pub fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    [GROUP, "hnc.x-k8s.io"].iter().any(|group| is_within(prefix, group))
        || key == "kubernetes.io/metadata.name"
}

/// Whether `prefix` is this group, or a subdomain of it.
fn is_within(prefix: &str, group: &str) -> bool {
    prefix.strip_suffix(group).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_hierarchy_are_reserved_and_no_others() {
        let reserved = [
            TYPE,
            PARENT,
            "internal.accurate.cybozu.com/conditions",
            "a.tree.hnc.x-k8s.io/depth",
            "hnc.x-k8s.io/included-namespace",
            "kubernetes.io/metadata.name",
        ];
        assert!(reserved.into_iter().all(is_reserved));
        let free =
            ["team", "cybozu.com/team", "inaccurate.cybozu.com/type", CREATED_BY, "accurate.cybozu.com"];
        assert!(!free.into_iter().any(is_reserved));
    }
}
