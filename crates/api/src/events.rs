//! The component, type and reasons of events.

/// The component of every event, in `source.component`. Clients filter by this field.
pub const COMPONENT: &str = crate::GROUP;

/// The type of every event.
pub const TYPE_WARNING: &str = "Warning";

/// On a source: it cannot be propagated, at all or to one namespace.
pub const CANNOT_PROPAGATE_OBJECT: &str = "CannotPropagateObject";

/// On a copy, or on the namespace of a missing copy: it cannot be written or removed.
pub const CANNOT_UPDATE_OBJECT: &str = "CannotUpdateObject";

/// On a copy: it has replaced an object that was not a copy.
pub const OBJECT_OVERWRITTEN: &str = "ObjectOverwritten";

/// On a source: one of its propagation annotations is invalid.
pub const CANNOT_PARSE_SELECTOR: &str = "CannotParseSelector";

/// On an anchor: it creates no subnamespace, because another request named its name as a missing parent at the same moment.
pub const CANNOT_CREATE_SUBNAMESPACE: &str = "CannotCreateSubnamespace";

/// On a hierarchical quota: the resource quota derived from it cannot be written.
pub const CANNOT_WRITE_RESOURCE_QUOTA: &str = "CannotWriteResourceQuota";
