//! Why a request is denied: the message for the user, and the kind for programs.

use std::fmt;

use super::text::{MESSAGE, QUOTE, limited};

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP answer.
    pub kind: DenialKind,
    /// One or two sentences: what is wrong, and what to do.
    pub message: String,
    /// The wrong fields; only with [`DenialKind::Invalid`].
    pub causes: Vec<Cause>,
}

/// A wrong field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The path of the field, `spec.labels[a/b]`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
    /// The same for programs.
    pub fault: FieldFault,
}

/// What may be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldFault {
    /// Its value makes no sense.
    Invalid,
    /// Its value is there already.
    Duplicate,
}

impl Cause {
    /// The fault of `value` in `field`; `why` is a clause.
    pub(crate) fn of(fault: FieldFault, field: impl Into<String>, value: &str, why: &str) -> Self {
        let word = match fault {
            FieldFault::Invalid => "Invalid",
            FieldFault::Duplicate => "Duplicate",
        };
        Self {
            field: field.into(),
            message: format!("{word} value: {:?}: {why}", limited(value, QUOTE)),
            fault,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self::of(FieldFault::Invalid, field, value, why)
    }
}

/// The HTTP answers of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenialKind {
    /// 400: the request is malformed.
    BadRequest,
    /// 401: the user lacks authority in the hierarchy.
    Unauthorized,
    /// 403: no user may do this in this state.
    Forbidden,
    /// 409: contradicts the present hierarchy.
    Conflict,
    /// 409: an object of this name exists.
    AlreadyExists,
    /// 422: a field is wrong.
    Invalid,
    /// 500: could not be reviewed.
    Internal,
    /// 503: cannot be reviewed yet; try again.
    Unavailable,
}

impl DenialKind {
    /// The HTTP code, and the reason of the status, which programs read.
    pub fn code_and_reason(self) -> (u16, &'static str) {
        match self {
            Self::BadRequest => (400, "BadRequest"),
            Self::Unauthorized => (401, "Unauthorized"),
            Self::Forbidden => (403, "Forbidden"),
            Self::Conflict => (409, "Conflict"),
            Self::AlreadyExists => (409, "AlreadyExists"),
            Self::Invalid => (422, "Invalid"),
            Self::Internal => (500, "InternalError"),
            Self::Unavailable => (503, "ServiceUnavailable"),
        }
    }
}

impl Denial {
    /// A denial without causes.
    pub fn new(kind: DenialKind, message: impl AsRef<str>) -> Self {
        Self { kind, message: limited(message.as_ref(), MESSAGE).into_owned(), causes: Vec::new() }
    }

    /// 422 with the fields at fault.
    pub fn invalid(causes: Vec<Cause>) -> Self {
        let message = causes.iter().map(Cause::to_string).collect::<Vec<_>>().join(", ");
        Self { causes, ..Self::new(DenialKind::Invalid, message) }
    }

    pub(crate) fn unauthorized(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::Unauthorized, message)
    }

    pub(crate) fn forbidden(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::Forbidden, message)
    }

    pub(crate) fn conflict(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::Conflict, message)
    }

    pub(crate) fn already_exists(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::AlreadyExists, message)
    }

    pub(crate) fn internal(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::Internal, message)
    }

    pub(crate) fn unavailable(message: impl AsRef<str>) -> Self {
        Self::new(DenialKind::Unavailable, message)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
