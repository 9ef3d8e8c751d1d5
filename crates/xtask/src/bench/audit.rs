//! Follows the audit log. It sends no requests to the API server, so waiting does not affect the measurements.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use hns_e2e::audit::complete_lines;
use hns_e2e::product::{CONTROLLER_USER, WEBHOOK_USER};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// The user of the plain client.
pub(crate) const BENCH_USER: &str = "system:serviceaccount:kube-system:bench";

/// The audit policy: the requests of the three measured users by metadata, and nothing else, because logging costs the
/// API server time.
pub(crate) fn policy() -> String {
    let users = [WEBHOOK_USER, CONTROLLER_USER, BENCH_USER].join("\", \"");
    format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
         - level: Metadata\n  users: [\"{users}\"]\n- level: None\n"
    )
}

/// A policy that records nothing: requests of hns alone would be slower for being recorded.
pub(crate) const OFF: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n";

/// An answered request.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) who: &'static str,
    pub(crate) verb: String,
    /// The plural of the kind, with its subresource after a slash.
    pub(crate) resource: String,
    /// The namespace; for a namespace, its name.
    pub(crate) namespace: String,
    pub(crate) code: u16,
    /// When it was answered; for a watch, when it began.
    pub(crate) answered: Timestamp,
}

impl Record {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.is_review()
    }

    /// Whether it renews the lease, which also happens when idle.
    pub(crate) fn is_lease(&self) -> bool {
        self.resource == "leases"
    }

    fn is_review(&self) -> bool {
        self.resource.ends_with("accessreviews")
    }

    pub(crate) fn seconds_after(&self, time: Timestamp) -> f64 {
        self.answered.duration_since(time).as_secs_f64()
    }

    pub(crate) fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// A reader of the log that remembers its position.
pub(crate) struct Follower {
    log: File,
    rest: Vec<u8>,
}

impl Follower {
    /// A reader of new lines.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        let mut log = File::open(path).context("opening the audit log")?;
        log.seek(SeekFrom::End(0))?;
        Ok(Self { log, rest: Vec::new() })
    }

    /// The records since the last call.
    pub(crate) fn read(&mut self) -> anyhow::Result<Vec<Record>> {
        self.log.read_to_end(&mut self.rest)?;
        let (lines, end) = complete_lines(&self.rest);
        let mut records = Vec::new();
        for line in lines {
            let line: Line<'_> = serde_json::from_slice(line).context("a line of the audit log")?;
            records.extend(line.record()?);
        }
        self.rest.drain(..end);
        Ok(records)
    }
}

/// The number of requests of each user, by verb and resource.
pub(crate) fn counts(records: &[Record]) -> BTreeMap<&'static str, BTreeMap<String, usize>> {
    let mut counts: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for record in records {
        let what = if record.succeeded() {
            format!("{} {}", record.verb, record.resource)
        } else {
            format!("{} {} ({})", record.verb, record.resource, record.code)
        };
        *counts.entry(record.who).or_default().entry(what).or_default() += 1;
    }
    counts
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    user: User<'a>,
    #[serde(borrow, default)]
    object_ref: Object<'a>,
    #[serde(default)]
    response_status: Status,
    stage_timestamp: Cow<'a, str>,
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    username: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object<'a> {
    #[serde(borrow)]
    resource: Cow<'a, str>,
    #[serde(borrow)]
    subresource: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl Line<'_> {
    fn record(self) -> anyhow::Result<Option<Record>> {
        let who = match &*self.user.username {
            WEBHOOK_USER => "webhook",
            CONTROLLER_USER => "controller",
            _ => "client",
        };
        // A watch is logged at its start and at its end.
        let counts = match (&*self.verb, &*self.stage) {
            ("watch", stage) => stage == "ResponseStarted",
            (_, stage) => stage == "ResponseComplete",
        };
        if !counts {
            return Ok(None);
        }
        let Object { resource, subresource, namespace } = self.object_ref;
        let resource = if resource.is_empty() { Cow::from("discovery") } else { resource };
        let resource =
            if subresource.is_empty() { resource.into_owned() } else { format!("{resource}/{subresource}") };
        Ok(Some(Record {
            who,
            verb: self.verb.into_owned(),
            resource,
            namespace: namespace.into_owned(),
            code: self.response_status.code,
            answered: self.stage_timestamp.parse().context("a time in the audit log")?,
        }))
    }
}
