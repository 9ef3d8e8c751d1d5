//! What the response of the API server to a write means.

use std::time::Duration;

use forest::{Fact, Kind};
use kube::core::Status;

/// The outcome of a write. The texts say why it did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The write succeeded.
    Done,
    /// The object, or its namespace, does not exist or is being deleted.
    NotFound,
    /// The object is not in the planned state.
    Conflict,
    /// The write was not sent, because copies of the kind are not guarded yet. The namespace is marked when they are.
    Deferred,
    /// The API server failed, and a retry may succeed. The duration is its `Retry-After`, if it gave one.
    Transient(String, Option<Duration>),
    /// The API server could not be reached, or its response could not be read. That says nothing about the object.
    Unreachable(String),
    /// The API server refused the write.
    Refused(String),
}

impl Outcome {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Deferred => "deferred",
            Self::Transient(..) | Self::Unreachable(_) => "transient",
            Self::Refused(_) => "refused",
        }
    }
}

/// The outcome of a write, and the facts that its responses contain.
#[derive(Debug)]
pub(crate) struct WriteResult {
    pub(crate) outcome: Outcome,
    pub(crate) facts: Vec<Fact>,
}

impl WriteResult {
    pub(super) fn done(facts: impl IntoIterator<Item = Fact>) -> Self {
        Self { outcome: Outcome::Done, facts: facts.into_iter().collect() }
    }

    /// The API server refused a part of the write, and answered this to the other part alone.
    pub(super) fn refused_in_part(refused: Box<Status>, rest: Result<Fact, kube::Error>) -> Self {
        match rest {
            Ok(fact) => Self { outcome: kube::Error::Api(refused).into(), facts: vec![fact] },
            Err(error) => error.into(),
        }
    }

    /// Puts the facts of earlier requests of the same write first.
    pub(super) fn after(mut self, earlier: Vec<Fact>) -> Self {
        self.facts.splice(0..0, earlier);
        self
    }
}

impl From<Outcome> for WriteResult {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, facts: Vec::new() }
    }
}

impl From<kube::Error> for WriteResult {
    fn from(error: kube::Error) -> Self {
        Outcome::from(error).into()
    }
}

impl From<Result<Fact, kube::Error>> for WriteResult {
    fn from(written: Result<Fact, kube::Error>) -> Self {
        match written {
            Ok(fact) => Self::done([fact]),
            Err(error) => error.into(),
        }
    }
}

/// A request about an object of a propagated kind: the details that the text about its failure needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyRequest<'a> {
    pub(super) verb: &'static str,
    pub(super) kind: &'a Kind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl CopyRequest<'_> {
    pub(super) fn outcome(&self, error: kube::Error) -> Outcome {
        match error {
            kube::Error::Api(status) if is_missing_right(&status) => {
                Outcome::Refused(self.no_right(&status.message))
            }
            kube::Error::Api(status)
                if status.code == 404
                    && !is_not_found(&status, self.name)
                    && !is_not_found(&status, self.namespace) =>
            {
                let message = &status.message;
                Outcome::Transient(
                    format!("the API server does not serve the requested resource ({message})"),
                    None,
                )
            }
            error => error.into(),
        }
    }

    fn no_right(&self, text: &str) -> String {
        let Self { verb, kind, namespace, .. } = self;
        let resource = kind.group_resource();
        format!(
            "the controller has no right to {verb} {resource} in namespace {namespace:?}; grant it to its service account \
             ({text})"
        )
    }
}

/// Whether the response says that no object of this name exists. Any other 404 is about the URL, or comes from a proxy in front
/// of the API server, and says nothing about the object.
pub(super) fn is_not_found(status: &Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// Whether the API server creates nothing in the namespace, because it is being deleted.
pub(super) fn is_in_ending_namespace(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Whether the API server does not accept the content of a write.
pub(super) fn is_refusal(status: &Status) -> bool {
    let outcome = Outcome::from(kube::Error::Api(Box::new(status.clone())));
    matches!(outcome, Outcome::Refused(_)) && !is_missing_right(status)
}

/// Whether an authorizer refused the request, not an admission plugin. Every API server that uses the Kubernetes library has
/// these words in its message.
fn is_missing_right(status: &Status) -> bool {
    status.code == 403 && status.message.contains(" cannot ") && status.message.contains(" in API group ")
}

impl From<kube::Error> for Outcome {
    fn from(error: kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            // No retry: the same request can never be built.
            kube::Error::BuildRequest(error) => {
                return Self::Refused(format!("the request could not be built: {error}"));
            }
            error => return Self::Unreachable(error.to_string()),
        };
        let details = status.details.as_ref();
        let wait = details.map(|details| Duration::from_secs(details.retry_after_seconds.into()));
        match status.code {
            404 => Self::NotFound,
            403 if is_in_ending_namespace(&status) => Self::NotFound,
            409 => Self::Conflict,
            500.. if is_too_large(&status.message) => Self::Refused(status.message),
            401 | 408 | 429 | 500.. => Self::Transient(status.message, wait.filter(|wait| !wait.is_zero())),
            _ => Self::Refused(status.message),
        }
    }
}

/// etcd has its own size limit, a little above that of objects. A copy has more labels than its source, so it can exceed the
/// limit when the source does not. The API server reports this as an internal error.
pub(super) fn is_too_large(message: &str) -> bool {
    ["request is too large", "message larger than max"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: u16, message: &str, details: &serde_json::Value) -> kube::Error {
        let status = json!({ "status": "Failure", "code": code, "message": message, "details": details });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn each_status_code_has_an_outcome() {
        let refused = |text: &str| Outcome::Refused(text.into());
        let transient = |text: &str, seconds: Option<u64>| {
            Outcome::Transient(text.into(), seconds.map(Duration::from_secs))
        };
        let terminating =
            json!({ "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "" }] });
        let table = [
            (404, "gone", json!({}), Outcome::NotFound),
            (403, "namespace b is being terminated", terminating, Outcome::NotFound),
            (403, "exceeded quota: q", json!({}), refused("exceeded quota: q")),
            (409, "the object has been modified", json!({}), Outcome::Conflict),
            (
                413,
                "Request entity too large: limit is 3145728",
                json!({}),
                refused("Request entity too large: limit is 3145728"),
            ),
            (422, "is invalid", json!({}), refused("is invalid")),
            (429, "slow down", json!({ "retryAfterSeconds": 3 }), transient("slow down", Some(3))),
            (500, "failed calling webhook", json!({}), transient("failed calling webhook", None)),
            (500, "etcdserver: request is too large", json!({}), refused("etcdserver: request is too large")),
        ];
        for (code, message, details, meaning) in table {
            assert_eq!(Outcome::from(error(code, message, &details)), meaning, "{code} {message}");
        }
    }

    #[test]
    fn a_missing_right_is_named_by_verb_resource_and_namespace() {
        let kind = Kind {
            group: "apps.example.com".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            resource: "widgets".into(),
        };
        let request = CopyRequest { verb: "update", kind: &kind, namespace: "team-b", name: "w" };
        let denied = "widgets.apps.example.com \"w\" is forbidden: User \"hns\" cannot update resource \"widgets\" in API \
                      group \"apps.example.com\" in the namespace \"team-b\"";
        let Outcome::Refused(text) = request.outcome(error(403, denied, &json!({}))) else { unreachable!() };
        let start = "the controller has no right to update widgets.apps.example.com in namespace \"team-b\"; grant it";
        assert!(text.starts_with(start) && text.contains(denied), "{text}");

        let quota = "widgets \"w\" is forbidden: exceeded quota: q";
        assert_eq!(request.outcome(error(403, quota, &json!({}))), Outcome::Refused(quota.into()));

        for (details, is_gone) in [
            (json!({ "name": "w", "kind": "widgets" }), true),
            (json!({ "name": "team-b", "kind": "namespaces" }), true),
            (json!({ "name": "other", "kind": "widgets" }), false),
            (json!({}), false),
        ] {
            let outcome = request.outcome(error(404, "not found", &details));
            let wanted = if is_gone { "not_found" } else { "transient" };
            assert_eq!(outcome.label(), wanted, "{details}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_built_is_refused_and_an_unreachable_api_server_is_no_response() {
        let impossible = kube::Error::BuildRequest(kube::core::request::Error::Validation("too long".into()));
        assert!(matches!(Outcome::from(impossible), Outcome::Refused(why) if why.contains("too long")));
        let unreachable = kube::Error::Service("connection refused".into());
        assert!(matches!(Outcome::from(unreachable), Outcome::Unreachable(_)));
    }
}
