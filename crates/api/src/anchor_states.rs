//! The states in `status.status` of an anchor, by name. It never says which one applies.

/// The subnamespace does not exist: not yet, not possible, or not any more.
pub const MISSING: &str = "Missing";

/// The subnamespace exists and names the anchor's namespace as its parent.
pub const OK: &str = "Ok";

/// A namespace of that name exists and does not belong to the anchor.
pub const CONFLICT: &str = "Conflict";

/// The name is that of a namespace that is not managed.
pub const FORBIDDEN: &str = "Forbidden";
