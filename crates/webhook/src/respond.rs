//! From a verdict to an `AdmissionReview` with a response: the only place where one is built.
//!
//! Denials are Status objects as in section 7.2 of docs/compatibility.md: code, reason, details, and the standard beginnings that
//! the API machinery gives to messages of each code. Decides nothing.

use std::borrow::Cow;

use forest::rules::{Denial, DenialKind, FieldFault};
use forest::text::shown;
use hns_api::GROUP;
use json_patch::Patch;
use kube::core::admission::{META_API_VERSION_V1, META_KIND, PatchType};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};
use serde::Serialize;

use crate::decode::Request;

/// A review with a response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answered<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<PatchType>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl<'a> Answered<'a> {
    fn new(request: &'a Request<'_>, status: Status) -> Self {
        let allowed = status.status.is_none();
        let response = Response {
            uid: &request.uid,
            allowed,
            status,
            patch: None,
            patch_type: None,
            warnings: Vec::new(),
        };
        Self { api_version: META_API_VERSION_V1, kind: META_KIND, response }
    }
}

/// The object of a denial.
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

    /// There is one in each namespace, always with the same name.
    pub(crate) fn hierarchy() -> Self {
        let name = hns_api::names::HIERARCHY_CONFIGURATION;
        Self::known(GROUP, "hierarchyconfigurations", "HierarchyConfiguration", name)
    }

    pub(crate) fn anchor(name: &str) -> Self {
        Self::known(GROUP, "subnamespaceanchors", "SubnamespaceAnchor", name)
    }

    /// There is only one.
    pub(crate) fn configuration() -> Self {
        Self::known(GROUP, "hncconfigurations", "HNCConfiguration", hns_api::names::HNC_CONFIGURATION)
    }

    pub(crate) fn quota(name: &str) -> Self {
        Self::known(GROUP, "hierarchicalresourcequotas", "HierarchicalResourceQuota", name)
    }

    pub(crate) fn sub_namespace(name: &str) -> Self {
        Self::known(hns_api::accurate::GROUP, "subnamespaces", "SubNamespace", name)
    }

    /// The message of a denial is only the text: the user creates another object, and does not know the quota's status.
    pub(crate) fn usage() -> Self {
        Self::known("", "resourcequotas", "ResourceQuota", "")
    }

    /// An object of any kind; like HNC, includes the namespace.
    pub(crate) fn object(request: &Request<'_>, namespace: &str, name: &str) -> Self {
        Self {
            group: request.resource.group.to_string().into(),
            resource: request.resource.resource.to_string().into(),
            kind: request.kind.kind.to_string().into(),
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
        let (text, name) = (&denial.message, shown(&self.name));
        match denial.kind {
            DenialKind::Forbidden | DenialKind::Conflict if name.is_empty() => text.clone(),
            DenialKind::Forbidden => {
                format!("{} {:?} is forbidden: {text}", self.qualified(&self.resource), name)
            }
            DenialKind::Conflict => format!(
                "Operation cannot be fulfilled on {} {:?}: {text}",
                self.qualified(&self.resource),
                name
            ),
            DenialKind::Invalid => {
                format!("{} {:?} is invalid: {text}", self.qualified(&self.kind), name)
            }
            // The API server's own words.
            DenialKind::AlreadyExists => {
                format!("{} {:?} already exists", self.qualified(&self.resource), name)
            }
            // kubectl prints "You must be logged in" before it, which is not the reason.
            DenialKind::Unauthorized => format!("forbidden: {text}"),
            DenialKind::BadRequest | DenialKind::Internal | DenialKind::Unavailable => text.clone(),
        }
    }
}

/// The response that allows the request.
pub(crate) fn allow<'a>(request: &'a Request<'_>, warnings: Vec<String>) -> Answered<'a> {
    let mut answered = Answered::new(request, Status::default().with_code(200));
    answered.response.warnings = warnings;
    answered
}

/// The response that allows the request with a patch.
pub(crate) fn patch<'a>(request: &'a Request<'_>, patch: &Patch) -> Answered<'a> {
    let mut answered = allow(request, Vec::new());
    // A patch that cannot be written is left out: the controller makes the same change later.
    if let Ok(patch) = serde_json::to_vec(patch) {
        answered.response.patch = Some(patch);
        answered.response.patch_type = Some(PatchType::JsonPatch);
    }
    answered
}

/// The response that denies the request.
pub(crate) fn deny<'a>(request: &'a Request<'_>, subject: &Subject, denial: &Denial) -> Answered<'a> {
    let (code, reason) = denial.kind.code_and_reason();
    let status = Status {
        status: Some(StatusSummary::Failure),
        code,
        message: subject.message(denial),
        metadata: None,
        reason: reason.into(),
        details: Some(details(subject, denial)),
    };
    Answered::new(request, status)
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

#[cfg(test)]
mod tests {
    use forest::rules::Cause;
    use kube::core::DynamicObject;
    use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
    use serde_json::json;

    use super::*;

    const REQUEST: &str = r#"{"uid":"7\n","kind":{"group":"","version":"v1","kind":"Namespace"},
        "resource":{"group":"","version":"v1","resource":"namespaces"},
        "operation":"DELETE","userInfo":{"username":"alice"}}"#;

    /// The client library's form of the same response.
    fn as_library(change: impl FnOnce(AdmissionResponse) -> AdmissionResponse) -> String {
        let review =
            format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{REQUEST}}}"#);
        let review: AdmissionReview<DynamicObject> = serde_json::from_str(&review).unwrap();
        let request: AdmissionRequest<DynamicObject> = review.try_into().unwrap();
        serde_json::to_string(&change(AdmissionResponse::from(&request)).into_review()).unwrap()
    }

    fn allowed(mut response: AdmissionResponse) -> AdmissionResponse {
        response.result.code = 200;
        response
    }

    #[test]
    fn answers_are_written_as_the_client_library_writes_them() {
        let request: Request<'_> = serde_json::from_str(REQUEST).unwrap();
        let text = |answered: &Answered<'_>| serde_json::to_string(answered).unwrap();
        assert_eq!(text(&allow(&request, vec![])), as_library(allowed));
        let warned = as_library(|it| {
            let mut warned = allowed(it);
            warned.warnings = Some(vec!["w".into()]);
            warned
        });
        assert_eq!(text(&allow(&request, vec!["w".into()])), warned);

        let change: Patch =
            serde_json::from_value(json!([{ "op": "add", "path": "/a", "value": "b" }])).unwrap();
        let patched = as_library(|it| allowed(it).with_patch(change.clone()).unwrap());
        assert_eq!(text(&patch(&request, &change)), patched);

        let fault = |fault| Cause { field: "f".into(), message: "m".into(), fault };
        let denial = Denial::invalid(vec![fault(FieldFault::Invalid), fault(FieldFault::Duplicate)]);
        let subject = Subject::anchor("a");
        let denied = as_library(|it| {
            let mut denied = it.deny(subject.message(&denial));
            denied.result.status = Some(StatusSummary::Failure);
            (denied.result.code, denied.result.reason) = (422, "Invalid".into());
            denied.result.details = Some(details(&subject, &denial));
            denied
        });
        assert_eq!(text(&deny(&request, &subject, &denial)), denied);
        assert!(denied.contains(r#""allowed":false"#), "{denied}");
    }
}
