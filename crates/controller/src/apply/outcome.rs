//! What an answer of the API server to a write means. Asks nothing, and never decides what is done about it.

use std::time::Duration;

use forest::{Fact, Kind};
use kube::core::Status;

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was made.
    Done,
    /// There was nothing left to write to.
    NotFound,
    /// The object is not in the state that was planned for.
    Conflict,
    /// The object is going, but not gone: somebody else holds it up. What is to take its place comes when it is gone.
    Blocked(String),
    /// It was not tried, because copies of the kind are not guarded yet. The namespace is marked when they are.
    Deferred,
    /// The API server answered that it could not; it may be able to later, and said how long to wait if it did.
    Transient(String, Option<Duration>),
    /// The API server could not be reached, or its answer not be read. That says nothing about the object.
    Unreachable(String),
    /// The API server would not.
    Refused(String),
}

impl Outcome {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Blocked(_) => "blocked",
            Self::Deferred => "deferred",
            Self::Transient(..) | Self::Unreachable(_) => "transient",
            Self::Refused(_) => "refused",
        }
    }
}

/// What became of a write, and what is known since.
#[derive(Debug)]
pub(crate) struct WriteResult {
    pub(crate) outcome: Outcome,
    pub(crate) facts: Vec<Fact>,
}

impl WriteResult {
    pub(super) fn done(facts: impl IntoIterator<Item = Fact>) -> Self {
        Self { outcome: Outcome::Done, facts: facts.into_iter().collect() }
    }

    /// The same after something else had been done.
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

impl From<Result<Fact, kube::Error>> for WriteResult {
    fn from(written: Result<Fact, kube::Error>) -> Self {
        match written {
            Ok(fact) => Self::done([fact]),
            Err(error) => failure(error).into(),
        }
    }
}

/// A request about an object of a propagated kind, to speak of when it is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) verb: &'static str,
    pub(super) kind: &'a Kind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Asked<'_> {
    /// What its failure means.
    pub(super) fn failure(&self, error: kube::Error) -> Outcome {
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
                    format!("the API server does not know what was asked for ({message})"),
                    None,
                )
            }
            error => failure(error),
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

/// Whether an API server says that there is no object of this name. Any other 404 is about the URL, or is somebody else's who stands
/// before the API server, and says nothing about the object.
pub(super) fn is_not_found(status: &Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// Whether an authorizer said no, not an admission plugin: these are the words of every API server built on Kubernetes' own
/// library.
fn is_missing_right(status: &Status) -> bool {
    status.code == 403 && status.message.contains(" cannot ") && status.message.contains(" in API group ")
}

/// What a failure means.
pub(crate) fn failure(error: kube::Error) -> Outcome {
    let status = match error {
        kube::Error::Api(status) => status,
        // The same request can never be made: trying again changes nothing.
        kube::Error::BuildRequest(error) => {
            return Outcome::Refused(format!("the request about it cannot be made: {error}"));
        }
        error => return Outcome::Unreachable(error.to_string()),
    };
    let details = status.details.as_ref();
    let terminating = details
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
    let wait = details.map(|details| Duration::from_secs(details.retry_after_seconds.into()));
    match status.code {
        404 => Outcome::NotFound,
        403 if terminating => Outcome::NotFound,
        409 => Outcome::Conflict,
        500.. if is_too_large(&status.message) => Outcome::Refused(status.message),
        401 | 408 | 429 | 500.. => Outcome::Transient(status.message, wait.filter(|wait| !wait.is_zero())),
        _ => Outcome::Refused(status.message),
    }
}

/// Storage has a limit of its own, a little above what objects may have: labels that copies bear more than their source can
/// make the difference. The API server calls that an error of its own.
fn is_too_large(message: &str) -> bool {
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
    fn what_answers_mean() {
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
            assert_eq!(failure(error(code, message, &details)), meaning, "{code} {message}");
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
        let asked = Asked { verb: "update", kind: &kind, namespace: "team-b", name: "w" };
        let denied = "widgets.apps.example.com \"w\" is forbidden: User \"hns\" cannot update resource \"widgets\" in API \
                      group \"apps.example.com\" in the namespace \"team-b\"";
        let Outcome::Refused(text) = asked.failure(error(403, denied, &json!({}))) else { unreachable!() };
        let start = "the controller has no right to update widgets.apps.example.com in namespace \"team-b\"; grant it";
        assert!(text.starts_with(start) && text.contains(denied), "{text}");

        let quota = "widgets \"w\" is forbidden: exceeded quota: q";
        assert_eq!(asked.failure(error(403, quota, &json!({}))), Outcome::Refused(quota.into()));

        for (details, is_gone) in [
            (json!({ "name": "w", "kind": "widgets" }), true),
            (json!({ "name": "team-b", "kind": "namespaces" }), true),
            (json!({ "name": "other", "kind": "widgets" }), false),
            (json!({}), false),
        ] {
            let outcome = asked.failure(error(404, "not found", &details));
            let wanted = if is_gone { "not_found" } else { "transient" };
            assert_eq!(outcome.label(), wanted, "{details}");
        }
    }

    #[test]
    fn what_can_never_be_asked_is_refused_and_an_api_server_out_of_reach_is_no_answer() {
        let impossible = kube::Error::BuildRequest(kube::core::request::Error::Validation("too long".into()));
        assert!(matches!(failure(impossible), Outcome::Refused(why) if why.contains("too long")));
        let unreachable = kube::Error::Service("connection refused".into());
        assert!(matches!(failure(unreachable), Outcome::Unreachable(_)));
    }
}
