//! From an HTTP request to an admission request, or to an error response.
//!
//! Decodes only the envelope; the webhooks decode the objects. The result borrows from the body, and fields that no webhook reads
//! are skipped: most of a review is `managedFields`.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use hns_api::annotations::GUARD_PROBE;
use hns_cluster::ingest::request_object::{ByName, RequestObject};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::admission::{META_API_VERSION_V1, META_KIND, Operation};
use serde::Deserialize;

/// The timeout of the API server if the request does not state it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The error response to something that is no admission review: an HTTP status and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Unreadable {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<ByName<Request<'a>>>,
}

/// The request of a review, limited to the fields that are read here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) kind: GroupKind<'a>,
    #[serde(borrow)]
    pub(crate) resource: GroupResource<'a>,
    /// Empty if the name is not generated yet, and for a deleted collection.
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    pub(crate) namespace: Option<String>,
    pub(crate) operation: Operation,
    pub(crate) user_info: UserInfo,
    #[serde(borrow)]
    pub(crate) object: Option<RequestObject<'a>>,
    #[serde(borrow)]
    pub(crate) old_object: Option<RequestObject<'a>>,
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl Request<'_> {
    /// Whether this is the controller's probe whether a copy is guarded: it expects a denial.
    pub(crate) fn is_probe(&self) -> bool {
        let annotations = self.object.as_ref().and_then(|object| object.metadata.annotations.as_ref());
        self.dry_run && annotations.is_some_and(|all| all.contains_key(GUARD_PROBE))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GroupKind<'a> {
    #[serde(borrow)]
    pub(crate) group: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GroupResource<'a> {
    #[serde(borrow)]
    pub(crate) group: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource: Cow<'a, str>,
}

/// Reads a review.
pub(crate) fn review<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<Request<'a>, Unreadable> {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    if content_type.and_then(|value| value.split(';').next()).map(str::trim) != Some("application/json") {
        return Err(Unreadable::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "an AdmissionReview is expected as application/json, not {}",
                content_type.unwrap_or("untyped")
            ),
        ));
    }
    let bad = |message: String| Unreadable::new(StatusCode::BAD_REQUEST, message);
    if body.is_empty() {
        return Err(bad("an AdmissionReview is expected, but the body is empty".into()));
    }
    let unread = |error: &dyn std::fmt::Display| bad(format!("the body is not an AdmissionReview: {error}"));
    // Checking the whole body for UTF-8 at once is fast.
    let text = std::str::from_utf8(body).map_err(|error| unread(&error))?;
    let ByName(review): ByName<Review<'a>> = serde_json::from_str(text).map_err(|error| unread(&error))?;
    let (kind, version) = (&review.kind, &review.api_version);
    if kind != META_KIND || version != META_API_VERSION_V1 {
        return Err(bad(format!(
            "{META_KIND} of {META_API_VERSION_V1} is expected, not {kind:?} of {version:?}"
        )));
    }
    let request = review.request.ok_or_else(|| bad("the AdmissionReview holds no request".into()))?;
    Ok(request.0)
}

/// How long the API server waits for the response, as stated in the URL (`?timeout=5s`), in Go's syntax.
pub(crate) fn timeout(uri: &Uri) -> Duration {
    let said = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
    said.and_then(seconds).unwrap_or(DEFAULT_TIMEOUT).min(LONGEST_TIMEOUT)
}

fn seconds(said: &str) -> Option<Duration> {
    let (number, unit) = said.split_at(said.find(|c: char| c.is_ascii_alphabetic())?);
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "application/json";
    const REVIEW: &str = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7",
        "kind":{"group":"","version":"v1","kind":"Namespace"},
        "resource":{"group":"","version":"v1","resource":"namespaces"},
        "operation":"DELETE","userInfo":{"username":"alice"}}}"#;

    fn read<'a>(content_type: Option<&str>, body: &'a str) -> Result<Request<'a>, Unreadable> {
        let value = content_type.and_then(|value| value.parse().ok());
        let headers = value.map(|value| (CONTENT_TYPE, value)).into_iter().collect();
        review(&headers, body.as_bytes())
    }

    #[test]
    fn a_review_without_objects_is_read() {
        for content_type in [JSON, "application/json; charset=utf-8"] {
            let request = read(Some(content_type), REVIEW).unwrap();
            assert_eq!(request.uid, "7");
            assert!(request.object.is_none() && request.old_object.is_none());
        }
    }

    #[test]
    fn what_is_no_review_is_refused_with_a_reason() {
        let other_version = REVIEW.replace("k8s.io/v1\"", "k8s.io/v1beta1\"");
        let twice = REVIEW.replace("\"uid\":\"7\"", "\"uid\":\"7\",\"uid\":\"8\"");
        let trailing = format!("{REVIEW}{REVIEW}");
        let cases = [
            (None, REVIEW, 415, "untyped"),
            (Some("text/plain"), REVIEW, 415, "text/plain"),
            (Some(JSON), "", 400, "empty"),
            (Some(JSON), "{", 400, "EOF"),
            (Some(JSON), "[]", 400, "not an AdmissionReview"),
            (Some(JSON), "{}", 400, "AdmissionReview"),
            (Some(JSON), r#"["AdmissionReview","admission.k8s.io/v1",{}]"#, 400, "not an AdmissionReview"),
            (Some(JSON), &twice, 400, "duplicate"),
            (Some(JSON), &trailing, 400, "trailing"),
            (
                Some(JSON),
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
                400,
                "no request",
            ),
            (Some(JSON), &other_version, 400, "v1beta1"),
        ];
        for (content_type, body, status, said) in cases {
            let refusal = read(content_type, body).unwrap_err();
            assert_eq!(refusal.status.as_u16(), status, "{body}");
            assert!(refusal.message.contains(said), "{body}: {}", refusal.message);
        }
    }

    #[test]
    fn the_timeout_is_the_api_servers() {
        let cases = [
            ("/x?timeout=5s", 5_000),
            ("/x?dry=1&timeout=2s", 2_000),
            ("/x?timeout=1500ms", 1_500),
            ("/x?timeout=600s", 30_000),
            ("/x?timeout=-5s", 10_000),
            ("/x?timeout=nonsense", 10_000),
            ("/x", 10_000),
        ];
        for (uri, millis) in cases {
            assert_eq!(timeout(&uri.parse().unwrap()).as_millis(), millis, "{uri}");
        }
    }
}
