//! The form of a denial: code, reason, the object in its details, and the beginning of its message.

use std::fmt::Debug;

use hns_e2e::refusal;
use kube::core::Status;

/// The object of a denial, which identifies the webhook.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a> {
    Hierarchy,
    Namespace(&'a str),
}

impl Of<'_> {
    fn webhook(self) -> &'static str {
        match self {
            Of::Hierarchy => "hierarchyconfigurations.hnc.x-k8s.io",
            Of::Namespace(_) => "namespaces.hnc.x-k8s.io",
        }
    }

    /// Name, group, and plural and singular of the kind.
    fn object(&self) -> (&str, &'static str, &'static str, &'static str) {
        match self {
            Of::Hierarchy => {
                ("hierarchy", hns_api::GROUP, "hierarchyconfigurations", "HierarchyConfiguration")
            }
            Of::Namespace(name) => (name, "", "namespaces", "Namespace"),
        }
    }
}

/// The reason of a code, and the beginning of its messages in the API machinery.
fn form(code: u16, of: Of<'_>) -> (&'static str, String) {
    let (name, group, resource, kind) = of.object();
    let dot = if group.is_empty() { "" } else { "." };
    match code {
        401 => ("Unauthorized", String::new()),
        403 => ("Forbidden", format!("{resource}{dot}{group} \"{name}\" is forbidden: ")),
        409 => ("Conflict", format!("Operation cannot be fulfilled on {resource}{dot}{group} \"{name}\": ")),
        422 => ("Invalid", format!("{kind}{dot}{group} \"{name}\" is invalid: ")),
        503 => ("ServiceUnavailable", String::new()),
        other => panic!("no denial has the code {other}"),
    }
}

/// The webhook denied with this code, in the right form, and the message contains these texts.
pub(crate) fn denied<T: Debug>(
    what: &str,
    result: Result<T, kube::Error>,
    of: Of<'_>,
    code: u16,
    said: &[&str],
) -> Status {
    let status = refusal(result);
    let (reason, beginning) = form(code, of);
    let beginning = format!("admission webhook {:?} denied the request: {beginning}", of.webhook());
    let seen = format!("{what}: {status:?}");
    assert_eq!((status.code, status.reason.as_str()), (code, reason), "{seen}");
    assert!(status.message.starts_with(&beginning), "{seen}");
    for words in said {
        assert!(status.message.contains(words), "{words:?} is not said in {seen}");
    }
    let (name, group, resource, kind) = of.object();
    let kind = if code == 422 { kind } else { resource };
    let details = status.details.as_ref().expect(&seen);
    let object = (details.name.as_str(), details.group.as_str(), details.kind.as_str());
    assert_eq!(object, (name, group, kind), "{seen}");
    assert_eq!(details.causes.is_empty(), code != 422, "{seen}");
    println!("{what}: {code} {}", status.message);
    status
}

/// Missing authority: the user, the namespace whose admin is required, and its role in the change.
pub(crate) fn unauthorized<T: Debug>(
    what: &str,
    result: Result<T, kube::Error>,
    user: &str,
    needed: (&str, &str),
) {
    let (namespace, role) = needed;
    let user = format!("user {user:?}");
    let namespace = format!("in namespace {namespace:?}, which is {role}");
    denied(what, result, Of::Hierarchy, 401, &[&user, &namespace]);
}

/// The API server could not reach the webhook, and denied the request.
pub(crate) fn unreachable<T: Debug>(what: &str, result: Result<T, kube::Error>, of: Of<'_>) {
    let status = refusal(result);
    let beginning = format!("failed calling webhook {:?}", of.webhook());
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{what}: {status:?}");
    assert!(status.message.contains(&beginning), "{what}: {status:?}");
    println!("{what}: {} {}", status.code, status.message);
}

/// RBAC denied before any webhook was called.
pub(crate) fn denied_by_rbac<T: Debug>(what: &str, result: Result<T, kube::Error>, user: &str) {
    let status = refusal(result);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{what}: {status:?}");
    let said = format!("User {user:?} cannot");
    assert!(status.message.contains(&said) && !status.message.contains("webhook"), "{what}: {status:?}");
}
