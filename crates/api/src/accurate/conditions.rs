//! The condition of a `SubNamespace`, and the words for its state in version v1.

/// The type of the condition while the sub-namespace cannot be created.
pub const STALLED: &str = "Stalled";

/// The reason of [`STALLED`]: a namespace of that name exists and has another parent.
pub const CONFLICT: &str = "Conflict";

/// The message of [`STALLED`] with the reason [`CONFLICT`].
pub const CONFLICT_MESSAGE: &str = "Conflicting namespace already exists";

/// The status of version v1 if the sub-namespace exists.
pub const V1_OK: &str = "ok";

/// The status of version v1 while [`STALLED`] is true.
pub const V1_CONFLICT: &str = "conflict";
