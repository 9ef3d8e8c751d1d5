//! The parts of the schemas that Rust types cannot express: conditions, quantities, modes and counts.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The pattern of a quantity.
const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

/// The pattern of a condition's type: an optional DNS prefix and a name.
const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
);

/// The pattern of a condition's reason.
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A list of conditions with the checks that all Kubernetes conditions have.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the condition last changed.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "A message for people.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the object that the condition was set for.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": CONDITION_REASON,
                    "description": "The reason, in one word for programs.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "The status of the condition.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE,
                    "description": "The type of the condition.",
                },
            },
        },
    })
}

/// A list of conditions with at most one of each type, which server-side apply merges by type.
pub(crate) fn conditions_by_type(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = conditions(generator);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), ["type"].as_slice().into());
    schema
}

/// Quantities by resource name: texts or numbers. No type of a structural schema includes texts and all
/// numbers, so values of all types are accepted, and the other types are refused one by one.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "pattern": QUANTITY,
            "not": { "enum": [true, false, {}, []] },
            "maxProperties": 0,
            "maxItems": 0,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// The allowed modes.
pub(crate) fn mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Propagate", "Ignore", "Remove", "AllowPropagate"],
    })
}

/// The allowed conflict policies.
pub(crate) fn conflict_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Keep", "Report", "Overwrite"],
    })
}

/// A string without further checks.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// A limit of a number, as a 32-bit integer.
pub(crate) fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0 })
}

/// A number of objects.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}
