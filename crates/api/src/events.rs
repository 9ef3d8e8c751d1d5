//! The events that are published, by name. It never words a message.

/// The component of every event, in `source.component`: readers filter on that field.
pub const COMPONENT: &str = crate::GROUP;

/// The type of every event.
pub const TYPE_WARNING: &str = "Warning";

/// On a source: it cannot be propagated, at all or to one namespace.
pub const CANNOT_PROPAGATE_OBJECT: &str = "CannotPropagateObject";

/// On a copy, or where it would be: it cannot be written or removed.
pub const CANNOT_UPDATE_OBJECT: &str = "CannotUpdateObject";

/// On a copy: an object that was no copy has been replaced by it.
pub const OBJECT_OVERWRITTEN: &str = "ObjectOverwritten";

/// On a source: one of its propagation annotations cannot be understood.
pub const CANNOT_PARSE_SELECTOR: &str = "CannotParseSelector";

/// On a hierarchical quota: the resource quota derived from it cannot be written.
pub const CANNOT_WRITE_RESOURCE_QUOTA: &str = "CannotWriteResourceQuota";
