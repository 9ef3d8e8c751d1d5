//! The values of `status.status` of an anchor.

/// The subnamespace does not exist.
pub const MISSING: &str = "Missing";

/// The subnamespace exists and names the anchor's namespace as its parent.
pub const OK: &str = "Ok";

/// A namespace of that name exists and does not belong to the anchor.
pub const CONFLICT: &str = "Conflict";

/// The name belongs to a namespace that is not managed.
pub const FORBIDDEN: &str = "Forbidden";
