//! Failures of commands: the message, which scripts compare, and a hint.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hns_api::accurate::names::webhooks as accurate;
use hns_cluster::error_text::error_text;
use kube::client::AuthError;
use kube::core::Status;

use crate::installation::DEFINITIONS_GO;

/// The reason for exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The text on standard error, without the last line break.
    pub text: String,
    /// How to solve the problem.
    pub hint: Option<String>,
}

/// The hint for a problem that passes.
pub(crate) const TEMPORARY: &str = "The problem is temporary: try again.";

/// The hint for the answer of a webhook that lacks a right.
const WEBHOOK_LACKS_RIGHT: &str = "The webhook lacks a right: `kubectl hns doctor` names the missing right.";

/// The hint for a change of a namespace that is in a hierarchy of Accurate. Removing its labels would remove its copies.
pub(crate) const CONVERT: &str = "To take a whole tree of Accurate, with its copies, into HNC's hierarchy, use `kubectl hns convert ROOT --to hnc`; \
                                  `kubectl accurate list` shows the roots. A template or an instance cannot be converted: \
                                  `kubectl accurate template unset NAME` and, for a template without instances, \
                                  `kubectl accurate namespace set-type NAME none` take it out of Accurate's hierarchy.";

/// What is said of a server whose certificate is refused.
const UNTRUSTED: &str = "has a certificate that is not trusted";

/// The end of the hint where a right is lacking in a namespace that may not exist.
const CHECK_NAME: &str = " Check the name, too: the answer is the same for a namespace that does not exist.";

/// The result of a command that prints its own output.
pub(crate) type Done = Result<(), Failure>;

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The failure with a line before the others of the hint.
    pub(crate) fn but_first(self, line: &str) -> Self {
        let hint = self.hint.as_ref().map_or_else(|| line.to_owned(), |hint| format!("{line}\n{hint}"));
        self.with_hint(hint)
    }

    /// The failure with one more line of the hint.
    pub(crate) fn and_hint(self, line: &str) -> Self {
        let hint = self.hint.as_ref().map_or_else(|| line.to_owned(), |hint| format!("{hint}\n{line}"));
        self.with_hint(hint)
    }

    /// The failure of a request about a namespace that is known to exist.
    pub(crate) fn where_it_exists(self) -> Self {
        Self { hint: self.hint.map(|it| it.replace(CHECK_NAME, "")), ..self }
    }

    /// The failure of a command that has changed something already, and goes on from there if it is run again.
    pub(crate) fn resumable(self) -> Self {
        const SOLVE: &str = "Nothing is lost. Solve the problem and run the same command again to continue.";
        if self.hint.as_deref() == Some(TEMPORARY) {
            return self.with_hint("Nothing is lost. Run the same command again to continue.");
        }
        self.and_hint(SOLVE)
    }

    /// The text as part of another one.
    pub(crate) fn clause(&self) -> Cow<'_, str> {
        match self.text.strip_prefix("Error reading ") {
            Some(what) => format!("cannot read {what}").into(),
            None => self.text.trim_start_matches("Error: ").into(),
        }
    }

    /// `Error: WHAT: reason`.
    pub(crate) fn because(what: impl fmt::Display, problem: &Problem) -> Self {
        Self { text: format!("Error: {what}: {problem}"), hint: problem.hint() }
    }

    /// The form of HNC's writing commands: a blank line, `Could not WHAT.`, and the reason.
    pub(crate) fn could_not(what: impl fmt::Display, problem: &Problem) -> Self {
        Self { text: format!("\nCould not {what}.\nReason: {problem}"), hint: problem.hint() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Why a request to the API server failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Problem {
    /// The API server refused the request.
    Refused(Box<Status>),
    /// The API server was not reached, or its answer is invalid.
    Unreachable(String),
    /// There was no answer within this time.
    TimedOut(Duration),
}

impl Problem {
    /// The HTTP code of the answer; 0 without an answer.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Refused(status) => status.code,
            Self::Unreachable(_) | Self::TimedOut(_) => 0,
        }
    }

    /// Whether the object does not exist. A missing kind is a different problem ([`Self::is_not_installed`]).
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == 404 && !self.is_not_installed()
    }

    /// Whether RBAC refused the request. A 403 from an admission webhook or policy does not count.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 403
            && status.message.contains("forbidden: User ") && status.message.contains(" cannot "))
    }

    /// Fails if the user may not act as the user of `--as`, which the API server refuses for every request.
    pub(crate) fn refuses_impersonation(&self) -> Result<(), Failure> {
        if !self.is_forbidden() || !self.to_string().contains(" cannot impersonate") {
            return Ok(());
        }
        Err(Failure::new(format!("Error: you may not act as another user: {self}"))
            .with_hint("Leave out --as, --as-group and --as-uid, or ask an administrator of the cluster for the right to impersonate."))
    }

    /// Whether an admission webhook refused the request.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Refused(status) if status.message.contains("admission webhook"))
    }

    /// Whether the object was changed after it was read.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Refused(status)
            if status.code == 409 && status.message.contains("the object has been modified"))
    }

    /// Whether the API server does not serve the kind.
    pub(crate) fn is_not_installed(&self) -> bool {
        let unknown = ["404 page not found", "could not find the requested resource"];
        matches!(self, Self::Refused(status)
            if status.code == 404 && unknown.iter().any(|text| status.message.contains(text)))
    }

    /// The name of an admission webhook that the API server could not call.
    pub(crate) fn silent_webhook(&self) -> Option<&str> {
        let Self::Refused(status) = self else { return None };
        status.message.split_once("failed calling webhook \"")?.1.split('"').next()
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.code(), 429 | 500 | 502 | 503 | 504)
    }

    /// Whether the API server or an admission webhook decided against the request.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code() != 0 && !self.is_temporary()
    }

    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            _ if self.is_not_installed() => {
                "Either hns is not installed in this cluster (check --context), or a definition of hnc.x-k8s.io/v1alpha2 was deleted \
                 (`kubectl hns doctor` says which)."
            }
            Self::Refused(status) if status.message.contains("custom resource definition is terminating") => {
                DEFINITIONS_GO
            }
            Self::Refused(status) if is_in_accurate(&status.message) => CONVERT,
            _ if self.is_forbidden() => return Some(lacking_right(&self.to_string())),
            _ if let Some(webhook) = self.silent_webhook() => {
                return Some(if is_ours(webhook) {
                    "hns-webhook does not answer. `kubectl hns doctor` checks the installation; docs/repair.md describes what \
                     works meanwhile."
                        .to_owned()
                } else {
                    format!("The webhook {webhook}, which is not part of hns, does not answer.")
                });
            }
            _ if self.is_temporary()
                && self.is_denied()
                && self.to_string().contains(" is forbidden: User ") =>
            {
                WEBHOOK_LACKS_RIGHT
            }
            _ if self.is_temporary() && self.to_string().contains("CustomResourceDefinition") => {
                "`kubectl hns doctor` says which definition is missing."
            }
            // The webhook says itself what to do: now, and if the problem is not temporary.
            Self::Refused(status) if self.is_temporary() && status.message.contains("if this lasts") => {
                return None;
            }
            _ if self.is_temporary() => TEMPORARY,
            Self::Refused(status) if status.message.contains("already exists") => {
                "Choose another name, or show the existing namespace with `kubectl hns describe`."
            }
            // HNC refuses with 401 as well, which kubectl's text calls a failed login. A setting makes it 403.
            Self::Refused(status) if status.code == 401 && self.is_denied() => {
                "You are logged in, but you may not make this change of the hierarchy. It needs an administrator at least of the \
                 namespaces that the reason names."
            }
            Self::Refused(status) if status.code == 401 => {
                "The API server does not accept your credentials. Log in again, or check --user and --token."
            }
            Self::Unreachable(text) if text.contains(UNTRUSTED) => {
                "Check --certificate-authority, or the certificate authority of the cluster in the kubeconfig; and --tls-server-name, \
                 if the certificate is for another name."
            }
            Self::Unreachable(_) => {
                "Check --server, --context and --kubeconfig: `kubectl version` should work."
            }
            Self::TimedOut(_) => {
                "The API server does not answer, or it waits for a webhook such as hns-webhook: `kubectl hns doctor` checks both. \
                 --request-timeout sets a longer timeout."
            }
            Self::Refused(_) => return None,
        };
        Some(text.to_owned())
    }
}

/// The hint for a request that RBAC refused with this text.
fn lacking_right(refusal: &str) -> String {
    let namespace = refusal.rsplit_once("in the namespace \"").and_then(|(_, it)| it.split('"').next());
    let verb = refusal.split_once(" cannot ").and_then(|(_, it)| it.split(' ').next());
    // A request for a namespace is one in it, but its administrator may only read it, and so can give no other right to others.
    let changes_namespace =
        verb != Some("get") && refusal.contains(" resource \"namespaces\" in API group \"\"");
    let is_of_cluster = changes_namespace || refusal.contains("at the cluster scope");
    let giver = if is_of_cluster { "cluster" } else { "namespace" };
    // The sentence would be wrong where the command has read something there: what it changes, mostly what it deletes, and a namespace
    // for any request but the one that reads it.
    let is_unread = match verb {
        Some("get") => true,
        Some("update" | "patch" | "delete") => false,
        _ => !is_of_cluster,
    };
    let place = match namespace {
        Some(name) => format!(" -n {name}"),
        None if is_of_cluster => String::new(),
        None => " -n NAMESPACE".to_owned(),
    };
    let check = if namespace.is_some() && is_unread { CHECK_NAME } else { "" };
    format!(
        "You lack this right; `kubectl auth can-i --list{place}`, with the same --as and --context, shows your rights. An administrator \
         of the {giver} can give it to you.{check}"
    )
}

/// Whether a refusal says that a namespace is in a hierarchy of Accurate.
pub(crate) fn is_in_accurate(message: &str) -> bool {
    message.contains("is in a hierarchy of accurate.cybozu.com")
}

/// Whether the webhook is one of hns, for HNC's API or Accurate's.
fn is_ours(webhook: &str) -> bool {
    use accurate::{NAMESPACE, SUB_NAMESPACE, SUB_NAMESPACE_FINALIZER};
    webhook.ends_with(hns_api::GROUP)
        || [NAMESPACE, SUB_NAMESPACE, SUB_NAMESPACE_FINALIZER].contains(&webhook)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_) if self.is_not_installed() => {
                f.write_str("the API server does not serve this kind")
            }
            Self::Refused(status) if status.message.trim().is_empty() => {
                write!(f, "{} {}", status.code, status.reason)
            }
            Self::Refused(status) => f.write_str(status.message.trim()),
            Self::Unreachable(text) => f.write_str(text),
            Self::TimedOut(time) => write!(f, "no answer within {}s", time.as_secs_f32()),
        }
    }
}

impl Problem {
    /// The problem of a request to the API server at this address.
    pub(crate) fn of(error: kube::Error, server: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Unreachable(match (causes(&other).find_map(failed_plugin), &other) {
                (Some(text), _) => text,
                (None, kube::Error::Service(_) | kube::Error::HyperError(_)) => {
                    // The libraries between name themselves.
                    let root = causes(&other).last().map(ToString::to_string).unwrap_or_default();
                    let root = root.split(" (os error").next().unwrap_or_default().to_owned();
                    match root.strip_prefix("invalid peer certificate: ") {
                        Some(why) => format!("{server} {UNTRUSTED}: {why}"),
                        None => format!("{server} does not answer: {root}"),
                    }
                }
                (None, _) => error_text(&other),
            }),
        }
    }
}

type Error = dyn std::error::Error + 'static;

fn causes(error: &Error) -> impl Iterator<Item = &Error> {
    std::iter::successors(Some(error), |error: &&Error| (*error).source())
}

/// The failure of a credential plugin. The text of the error would show its output, which holds the credentials.
fn failed_plugin(error: &Error) -> Option<String> {
    match error.downcast_ref()? {
        AuthError::AuthExecRun { cmd, out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            Some(format!("the credential plugin {cmd:?} failed ({}): {}", out.status, said.trim()))
        }
        AuthError::AuthExecParse(_) => {
            Some("the output of the credential plugin is not an ExecCredential".to_owned())
        }
        _ => None,
    }
}

impl From<kube::config::KubeconfigError> for Failure {
    fn from(error: kube::config::KubeconfigError) -> Self {
        if let kube::config::KubeconfigError::ReadConfig(why, path) = &error {
            let text = format!("Error: the kubeconfig {} cannot be read: {why}", path.display());
            return Self::new(text).with_hint("Name another file with --kubeconfig or KUBECONFIG.");
        }
        Self::new(format!("Error: {}", error_text(&error)))
    }
}
