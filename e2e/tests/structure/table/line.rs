//! One line of the table: who asks for what, and the answer. Knows what an answer has to hold, and no rule.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hns_e2e::Cluster;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::request::{Answer, Request, Target};

/// How long "try again" is obeyed.
const PATIENCE: Duration = Duration::from_secs(10);

const ALLOWED: &str = "allowed";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// The rule. Each has lines that are allowed and lines that are refused.
    pub(crate) row: String,
    /// What is special about this line.
    what: String,
    who: String,
    /// Groups of the user beside `system:authenticated`.
    #[serde(default)]
    groups: Vec<String>,
    /// A manifest.
    create: Option<Value>,
    /// `namespace N`, `anchor N in P` or `hierarchy of N`.
    change: Option<String>,
    /// A subresource.
    through: Option<String>,
    /// What is merged into the object that changes.
    with: Option<Value>,
    delete: Option<String>,
    /// `allowed`, or a code and a reason.
    answer: String,
    /// What the message of a refusal names.
    #[serde(default)]
    names: Vec<String>,
    /// The field that a refusal names as its cause.
    field: Option<String>,
    /// What a warning names.
    warns: Option<String>,
    /// All the labels of the object in the answer.
    labels: Option<BTreeMap<String, String>>,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}), by {}: should be {}", self.row, self.what, self.who, self.answer)
    }
}

impl Line {
    pub(crate) fn is_allowed(&self) -> bool {
        self.answer == ALLOWED
    }

    /// The answer, as the table has it or not.
    pub(crate) async fn run(&self, cluster: &Cluster) -> Result<Result<Answer, Answer>> {
        let request = self.request().with_context(|| self.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer =
                request.send(cluster, &self.who, &self.groups).await.with_context(|| self.to_string())?;
            if answer.code == 503 && Instant::now() < deadline {
                continue;
            }
            return Ok(if self.is_right(&answer) { Ok(answer) } else { Err(answer) });
        }
    }

    fn request(&self) -> Result<Request> {
        Ok(match (&self.create, &self.change, &self.delete, &self.with) {
            (Some(manifest), None, None, None) => Request::create(manifest.clone())?,
            (None, Some(target), None, Some(patch)) => {
                Request::Change(Target::parse(target)?, self.through.clone(), patch.clone())
            }
            (None, None, Some(target), None) => Request::Delete(Target::parse(target)?),
            _ => bail!("a line says one of create, delete, and change with something"),
        })
    }

    fn is_right(&self, answer: &Answer) -> bool {
        let warned =
            self.warns.as_ref().is_none_or(|word| answer.warnings.iter().any(|it| it.contains(word)));
        if self.is_allowed() {
            let labelled = self.labels.as_ref().is_none_or(|labels| *labels == answer.labels_of_others());
            return (200..300).contains(&answer.code) && warned && labelled;
        }
        let said = format!("{} {}", answer.code, answer.reason());
        let named = self.names.iter().all(|name| answer.message().contains(name));
        let caused = self.field.as_ref().is_none_or(|field| answer.fields().contains(&field.as_str()));
        // A denial without names could come from any rule.
        said == self.answer && !self.names.is_empty() && named && caused && warned
    }
}
