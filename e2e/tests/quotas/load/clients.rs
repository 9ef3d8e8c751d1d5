//! The clients, and what they were answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use hns_cluster::api::Api;
use hns_e2e::{Cluster, Dice};
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::company::Company;
use crate::quotas::scene::service;

/// A failure that retries have not cured after this time is reported.
const CURED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

const CONFLICT: &str =
    "Operation cannot be fulfilled on resourcequotas \"hrq.hnc.x-k8s.io\": the object has been modified";

/// In percent: the clients would use much more than they may.
const CREATIONS: usize = 65;

/// What clients were answered.
#[derive(Default)]
pub(crate) struct Tally {
    created: usize,
    deleted: usize,
    /// By text, without the names.
    denials: BTreeMap<String, usize>,
    failures: BTreeMap<String, usize>,
    /// The API server's own answer when the quota controller changes a core quota too often while it stores usage. It gives this
    /// answer also where nothing but core quotas limits a namespace.
    conflicts: BTreeMap<String, usize>,
    unexpected: BTreeMap<String, usize>,
    uncured: Vec<String>,
    /// From the first failure of a request to its success or denial.
    longest_cure: Duration,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.created += other.created;
        self.deleted += other.deleted;
        for (mine, others) in [
            (&mut self.denials, other.denials),
            (&mut self.failures, other.failures),
            (&mut self.conflicts, other.conflicts),
            (&mut self.unexpected, other.unexpected),
        ] {
            for (text, count) in others {
                *mine.entry(text).or_default() += count;
            }
        }
        self.uncured.extend(other.uncured);
        self.longest_cure = self.longest_cure.max(other.longest_cure);
    }

    pub(crate) fn denied(&self) -> usize {
        self.denials.values().sum()
    }

    pub(crate) fn report(&self, lasted: Duration) -> String {
        let mut text = format!(
            "{} Services created and {} deleted in {lasted:?}; the longest cure of a failure took {:.1?}",
            self.created, self.deleted, self.longest_cure
        );
        for (what, answers) in [
            ("denied", &self.denials),
            ("failed", &self.failures),
            ("in conflict", &self.conflicts),
            ("unexpected", &self.unexpected),
        ] {
            for (answer, count) in answers {
                // Writing to a text cannot fail.
                let _ = write!(text, "\n{what} {count} times: {answer}");
            }
        }
        text
    }

    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.unexpected.is_empty(), "unexpected answers: {:#?}", self.unexpected);
        ensure!(self.uncured.is_empty(), "failures that retries did not cure: {:#?}", self.uncured);
        Ok(())
    }
}

/// Running clients.
pub(crate) struct Clients(JoinSet<Tally>);

impl Clients {
    pub(crate) fn start(cluster: &Cluster, company: &Company, count: usize, until: Instant) -> Result<Self> {
        let mut tasks = JoinSet::new();
        let mut config = cluster.config();
        // Each answer counts.
        config.default_retry = false;
        for number in 0..count {
            let client = User {
                client: Client::try_from(config.clone())?,
                number,
                namespaces: company.namespaces(),
                dice: Dice::new(0x5eed + number as u64),
                tally: Tally::default(),
            };
            tasks.spawn(client.work(until));
        }
        Ok(Self(tasks))
    }

    pub(crate) async fn end(mut self) -> Result<Tally> {
        let mut all = Tally::default();
        while let Some(one) = self.0.join_next().await {
            all.add(one?);
        }
        Ok(all)
    }
}

struct User {
    client: Client,
    number: usize,
    namespaces: Vec<String>,
    dice: Dice,
    tally: Tally,
}

impl User {
    async fn work(mut self, until: Instant) -> Tally {
        let mut own: Vec<(String, String)> = vec![];
        for round in 0.. {
            if Instant::now() >= until {
                break;
            }
            if own.is_empty() || self.dice.percent(CREATIONS) {
                let namespace = self.dice.pick(&self.namespaces);
                let name = format!("s-{}-{round}", self.number);
                if self.create(&namespace, &name).await {
                    own.push((namespace, name));
                }
            } else {
                let (namespace, name) = own.swap_remove(self.dice.below(own.len()));
                self.delete(&namespace, &name).await;
            }
        }
        self.tally
    }

    /// Whether it exists afterwards.
    async fn create(&mut self, namespace: &str, name: &str) -> bool {
        let created = self.request(namespace, name, true).await;
        self.tally.created += usize::from(created);
        created
    }

    async fn delete(&mut self, namespace: &str, name: &str) {
        let deleted = self.request(namespace, name, false).await;
        self.tally.deleted += usize::from(deleted);
    }

    async fn send(&self, namespace: &str, name: &str, creates: bool) -> kube::Result<()> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        if creates {
            api.create(&PostParams::default(), &service(name)).await.map(drop)
        } else {
            api.delete(name, &DeleteParams::default()).await.map(drop)
        }
    }

    /// Repeats a request until it succeeds or is denied. Returns whether it succeeded.
    async fn request(&mut self, namespace: &str, name: &str, creates: bool) -> bool {
        let mut failed: Option<Instant> = None;
        loop {
            let text = match self.send(namespace, name, creates).await {
                Ok(()) => break self.cured(failed, true),
                Err(kube::Error::Api(status)) => match (status.code, &*status.reason) {
                    (403, _) if status.message.contains("exceeded ") => {
                        *self.tally.denials.entry(denial(&status.message)).or_default() += 1;
                        break self.cured(failed, false);
                    }
                    // A request that failed had an effect.
                    (409, "AlreadyExists") | (404, _) if failed.is_some() => break self.cured(failed, true),
                    (500.., _) => {
                        let text = format!("{} {}", status.code, without_names(&status.message));
                        *self.tally.failures.entry(text).or_default() += 1;
                        status.message.clone()
                    }
                    (409, "Conflict") if status.message.starts_with(CONFLICT) => {
                        *self.tally.conflicts.entry(without_names(&status.message)).or_default() += 1;
                        status.message.clone()
                    }
                    _ => {
                        let text = format!("{} {}", status.code, without_names(&status.message));
                        *self.tally.unexpected.entry(text).or_default() += 1;
                        status.message.clone()
                    }
                },
                Err(error) => {
                    *self.tally.unexpected.entry(without_names(&error.to_string())).or_default() += 1;
                    error.to_string()
                }
            };
            let since = *failed.get_or_insert_with(Instant::now);
            if since.elapsed() > CURED {
                self.tally.uncured.push(text);
                break false;
            }
            sleep(PAUSE).await;
        }
    }

    fn cured(&mut self, failed: Option<Instant>, result: bool) -> bool {
        let took = failed.map(|since| since.elapsed()).unwrap_or_default();
        self.tally.longest_cure = self.tally.longest_cure.max(took);
        result
    }
}

fn denial(text: &str) -> String {
    for which in ["exceeded hierarchical quota", "exceeded quota: hrq.hnc.x-k8s.io"] {
        if text.contains(which) {
            return which.to_owned();
        }
    }
    without_names(text)
}

/// Numbers and quoted words as placeholders.
fn without_names(text: &str) -> String {
    let quoted = text.split('"').enumerate().map(|(at, part)| if at % 2 == 1 { "_" } else { part });
    let text = quoted.collect::<Vec<_>>().join("\"");
    let mut shown = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if !(letter == '0' && shown.ends_with('0')) {
            shown.push(letter);
        }
    }
    shown
}
