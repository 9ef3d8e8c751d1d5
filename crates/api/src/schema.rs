//! The pieces of schema that Rust types cannot say: conditions, quantities, modes and counts as the API
//! server has always checked them. It never describes a whole kind.

use schemars::{Schema, SchemaGenerator, json_schema};

/// What the API server accepts as the text of a quantity.
const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

/// A condition's type: an optional DNS prefix and a name.
const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
);

/// A condition's reason: one word, as programs compare it.
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A list of conditions with the checks that every Kubernetes condition has.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One thing that is the matter.",
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
                    "description": "What is the matter, in words for people.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the object that the condition was concluded from.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": CONDITION_REASON,
                    "description": "Why, in one word for programs.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE,
                    "description": "The kind of condition.",
                },
            },
        },
    })
}

/// Amounts by resource name, each an integer or a text with the usual suffixes.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// The four modes that a user may ask for.
pub(crate) fn mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Propagate", "Ignore", "Remove", "AllowPropagate"],
    })
}

/// What may become of an object that is in the way of a copy.
pub(crate) fn conflict_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Keep", "Report", "Overwrite"],
    })
}

/// Any text.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

/// A number of objects.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}
