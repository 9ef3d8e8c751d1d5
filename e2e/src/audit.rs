//! The API server's audit log: which user wrote what. Contains only writes, and only their metadata.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

/// The recorded verbs, which are those that change something.
const MUTATING: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The annotation in which the API server names the token.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// No line is longer, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// A cluster's audit log.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// A position in the log; readers skip everything before it.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

/// One answered write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// The user; with impersonation, the impersonated one.
    pub user: String,
    /// The user's credential, if the API server names it; see [`crate::Replica::credential`].
    pub credential: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The plural of the kind; empty for a request that is not about a resource.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object's name; empty for collections and for creations whose name the server generates.
    pub name: String,
    /// The HTTP code of the response.
    pub code: u16,
    /// When the request arrived (RFC 3339, microseconds, UTC).
    pub timestamp: String,
    /// The request's path and query.
    pub uri: String,
}

impl Audit {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The log file, for programs that follow it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the last complete line. Writes whose response was read before this call lie before it; the API server may be
    /// writing the next line.
    pub fn mark(&self) -> anyhow::Result<Mark> {
        let mut log = File::open(&self.path).context("opening the audit log")?;
        let length = log.metadata()?.len();
        let start = length.saturating_sub(LONGEST_LINE);
        log.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        log.take(length - start).read_to_end(&mut tail)?;
        Ok(Mark(start + complete_lines(&tail).1 as u64))
    }

    /// Every write that was answered since `mark`, in the order of the responses.
    pub fn since(&self, mark: Mark) -> anyhow::Result<Vec<AuditEvent>> {
        let mut log = File::open(&self.path).context("opening the audit log")?;
        log.seek(SeekFrom::Start(mark.0))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        let (complete, _) = complete_lines(&bytes);
        complete
            .map(|line| Ok(serde_json::from_slice::<Line>(line)?.into()))
            .collect::<Result<_, io::Error>>()
            .context("parsing the audit log")
    }

    /// The writes of one user since `mark`, including refused ones.
    pub fn mutating_by(&self, user: &str, mark: Mark) -> anyhow::Result<Vec<AuditEvent>> {
        Ok(mutating_by(&self.since(mark)?, user))
    }
}

/// The lines of a log, and how many bytes they are with their ends. A last line without its end is still being written.
pub fn complete_lines(log: &[u8]) -> (impl Iterator<Item = &[u8]>, usize) {
    let end = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = log[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    (lines, end)
}

/// The events of one user that would change something.
pub fn mutating_by(events: &[AuditEvent], user: &str) -> Vec<AuditEvent> {
    let by_user = events.iter().filter(|event| event.user == user && event.is_mutating());
    by_user.cloned().collect()
}

/// How many writes each user made to each resource (`group/resource`, or `resource` in the core group).
pub fn counts(events: &[AuditEvent]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry((event.user.clone(), event.resource_and_group())).or_default() += 1;
    }
    counts
}

impl AuditEvent {
    /// Whether it could have changed an object. Access reviews, token requests and dry runs are writes only by verb.
    pub fn is_mutating(&self) -> bool {
        let asks = self.group == "authorization.k8s.io" || self.group == "authentication.k8s.io";
        let token = self.subresource == "token";
        MUTATING.contains(&self.verb.as_str()) && !asks && !token && !self.uri.contains("dryRun=")
    }

    /// Whether the API server did what was requested.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    fn resource_and_group(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.group, self.resource)
        }
    }
}

/// The fields of `audit.k8s.io/v1` Event that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    object_ref: ObjectReference,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Line> for AuditEvent {
    fn from(line: Line) -> Self {
        let credential = line.user.extra.get(CREDENTIAL).and_then(|ids| ids.first()).cloned();
        Self {
            credential: credential.unwrap_or_default(),
            user: line.impersonated_user.unwrap_or(line.user).username,
            verb: line.verb,
            resource: line.object_ref.resource,
            subresource: line.object_ref.subresource,
            group: line.object_ref.api_group,
            namespace: line.object_ref.namespace,
            name: line.object_ref.name,
            code: line.response_status.map_or(0, |status| status.code),
            timestamp: line.request_received_timestamp,
            uri: line.uri,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_before_a_line_that_is_being_written() {
        let directory = tempfile::tempdir().unwrap();
        let audit = Audit::new(directory.path().join("audit.log"));
        std::fs::write(audit.path(), "{}\n{\"half").unwrap();
        assert_eq!(audit.mark().unwrap().0, 3);
        std::fs::write(audit.path(), "").unwrap();
        assert_eq!(audit.mark().unwrap().0, 0);
    }
}
