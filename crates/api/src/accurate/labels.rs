//! Labels.

/// On a namespace: [`TYPE_ROOT`] or [`TYPE_TEMPLATE`].
pub const TYPE: &str = "accurate.cybozu.com/type";

/// The value of [`TYPE`] for a namespace that may have sub-namespaces.
pub const TYPE_ROOT: &str = "root";

/// The value of [`TYPE`] for a namespace that may have instances.
pub const TYPE_TEMPLATE: &str = "template";

/// On a namespace: the name of its template.
pub const TEMPLATE: &str = "accurate.cybozu.com/template";

/// On a sub-namespace: the name of its parent.
pub const PARENT: &str = "accurate.cybozu.com/parent";

/// On sub-namespaces and copies: [`CREATED_BY_ACCURATE`].
pub const CREATED_BY: &str = "app.kubernetes.io/created-by";

/// The value of [`CREATED_BY`].
pub const CREATED_BY_ACCURATE: &str = "accurate";
