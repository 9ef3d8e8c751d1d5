//! Annotations.

/// On an object of a watched kind: [`MODE_CREATE`] or [`MODE_UPDATE`]. Copies have it too, so that they are sources for the next
/// level.
pub const PROPAGATE: &str = "accurate.cybozu.com/propagate";

/// On a copy: the name of the namespace directly above or of the template that it was copied from. An object with this annotation
/// is a copy.
pub const FROM: &str = "accurate.cybozu.com/from";

/// On the owner of objects: the mode in which the objects that it owns are propagated. Deprecated.
pub const PROPAGATE_GENERATED: &str = "accurate.cybozu.com/propagate-generated";

/// On an object with an owner: [`GENERATED_FALSE`] if the owner does not ask for propagation. Deprecated.
pub const GENERATED: &str = "accurate.cybozu.com/generated";

/// The value of [`GENERATED`].
pub const GENERATED_FALSE: &str = "false";

/// The value of [`PROPAGATE`] with which a copy is created once and then left as it is.
pub const MODE_CREATE: &str = "create";

/// The value of [`PROPAGATE`] with which a copy follows its source.
pub const MODE_UPDATE: &str = "update";

/// On a `SubNamespace` in version v1: the generation that its status is about, as a decimal number.
pub const OBSERVED_GENERATION: &str = "internal.accurate.cybozu.com/observed-generation";

/// On a `SubNamespace` in version v1: the conditions of its status, as a JSON array.
pub const CONDITIONS: &str = "internal.accurate.cybozu.com/conditions";

/// On a namespace that is being moved or cut: the `SubNamespace` that has still to be deleted, as its namespace, `/` and its UID.
/// Accurate does not have this annotation; the plugin removes it at the end.
pub const MOVED_FROM: &str = "internal.accurate.cybozu.com/moved-from";
