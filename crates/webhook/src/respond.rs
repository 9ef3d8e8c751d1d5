//! From a verdict to an `AdmissionResponse`: the only place where one is built.
//!
//! Denials are Status objects as section 7.2 of HNC's contract has them: code, reason, details, and the stock beginnings
//! that the API machinery gives to messages of each code. Decides nothing.

use std::borrow::Cow;

use forest::rules::{Denial, DenialKind, FieldFault};
use hns_api::GROUP;
use json_patch::Patch;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};

/// What a denial is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) group: Cow<'static, str>,
    pub(crate) resource: Cow<'static, str>,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) name: String,
}

impl Subject {
    pub(crate) fn namespace(name: &str) -> Self {
        Self::known("", "namespaces", "Namespace", name)
    }

    /// There is one in each namespace, and all have the same name.
    pub(crate) fn hierarchy() -> Self {
        let name = hns_api::names::HIERARCHY_CONFIGURATION;
        Self::known(GROUP, "hierarchyconfigurations", "HierarchyConfiguration", name)
    }

    pub(crate) fn anchor(name: &str) -> Self {
        Self::known(GROUP, "subnamespaceanchors", "SubnamespaceAnchor", name)
    }

    /// There is one.
    pub(crate) fn configuration() -> Self {
        Self::known(GROUP, "hncconfigurations", "HNCConfiguration", hns_api::names::HNC_CONFIGURATION)
    }

    /// An object of whatever kind; HNC names the namespace too.
    pub(crate) fn object(request: &AdmissionRequest<DynamicObject>, namespace: &str, name: &str) -> Self {
        Self {
            group: request.resource.group.clone().into(),
            resource: request.resource.resource.clone().into(),
            kind: request.kind.kind.clone().into(),
            name: format!("{namespace}/{name}"),
        }
    }

    fn known(group: &'static str, resource: &'static str, kind: &'static str, name: &str) -> Self {
        Self { group: group.into(), resource: resource.into(), kind: kind.into(), name: name.into() }
    }

    fn qualified(&self, name: &str) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{name}{dot}{}", self.group)
    }

    fn message(&self, denial: &Denial) -> String {
        let text = &denial.message;
        match denial.kind {
            DenialKind::Forbidden => {
                format!("{} {:?} is forbidden: {text}", self.qualified(&self.resource), self.name)
            }
            DenialKind::Conflict => format!(
                "Operation cannot be fulfilled on {} {:?}: {text}",
                self.qualified(&self.resource),
                self.name
            ),
            DenialKind::Invalid => {
                format!("{} {:?} is invalid: {text}", self.qualified(&self.kind), self.name)
            }
            DenialKind::BadRequest
            | DenialKind::Unauthorized
            | DenialKind::Internal
            | DenialKind::Unavailable => text.clone(),
        }
    }
}

/// The answer that lets the request pass.
pub(crate) fn allow(
    request: &AdmissionRequest<DynamicObject>,
    warnings: Vec<String>,
) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request);
    response.result.code = 200;
    response.warnings = (!warnings.is_empty()).then_some(warnings);
    response.into_review()
}

/// The answer that lets the request pass with a change.
pub(crate) fn patch(
    request: &AdmissionRequest<DynamicObject>,
    patch: Patch,
) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request);
    response.result.code = 200;
    let patched = response.clone().with_patch(patch);
    // A patch that cannot be written is left out: the controller makes the same change later.
    patched.unwrap_or(response).into_review()
}

/// The answer that refuses the request.
pub(crate) fn deny(
    request: &AdmissionRequest<DynamicObject>,
    subject: &Subject,
    denial: &Denial,
) -> AdmissionReview<DynamicObject> {
    let mut response = AdmissionResponse::from(request).deny(subject.message(denial));
    let (code, reason) = denial.kind.code_and_reason();
    response.result = Status {
        status: Some(StatusSummary::Failure),
        code,
        reason: reason.into(),
        details: Some(details(subject, denial)),
        ..response.result
    };
    response.into_review()
}

fn details(subject: &Subject, denial: &Denial) -> StatusDetails {
    let kind = if denial.kind == DenialKind::Invalid { &subject.kind } else { &subject.resource };
    let cause = |cause: &forest::rules::Cause| StatusCause {
        reason: match cause.fault {
            FieldFault::Invalid => "FieldValueInvalid".into(),
            FieldFault::Duplicate => "FieldValueDuplicate".into(),
        },
        message: cause.message.clone(),
        field: cause.field.clone(),
    };
    StatusDetails {
        name: subject.name.clone(),
        group: subject.group.to_string(),
        kind: kind.to_string(),
        causes: denial.causes.iter().map(cause).collect(),
        uid: String::new(),
        retry_after_seconds: 0,
    }
}
