//! What the audit log tells about the derived quotas: all their states, in the order in which they were stored.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use hns_api::names::{DERIVED_QUOTA, users};
use hns_e2e::audit::complete_lines;
use serde_json::Value;

use super::company::{Company, LIMITED};

/// One stored status of a derived quota.
struct State {
    version: u64,
    namespace: String,
    user: String,
    used: i64,
}

/// What happened to the sums.
#[derive(Default)]
pub(crate) struct Record {
    states: usize,
    /// Increases by the API server, and answers that refused one.
    pub(crate) raises: usize,
    refused: BTreeMap<u64, usize>,
    lowered: usize,
    /// Increases by the quota controller, and those of them that exceeded a limit.
    recounts: usize,
    recounts_over: usize,
    /// The greatest sum for each limit.
    greatest: BTreeMap<i64, i64>,
    /// Increases by the API server that exceeded a limit.
    pub(crate) violations: Vec<String>,
}

impl Record {
    pub(crate) fn report(&self) -> String {
        let Self { states, raises, refused, lowered, recounts, recounts_over, greatest, violations } = self;
        format!(
            "{states} states of derived quotas were stored: {raises} increases by the API server, {recounts} by the quota controller \
             ({recounts_over} of them over a limit), {lowered} decreases; the API server's updates were refused, by code: \
             {refused:?}; the greatest sums by limit: {greatest:?}; increases by the API server over a limit: {}",
            violations.len()
        )
    }
}

/// Reads the log and adds up the states.
pub(crate) fn read(log: &Path, company: &Company) -> Result<Record> {
    let bytes = fs::read(log).context("reading the audit log")?;
    let (mut record, mut states) = (Record::default(), BTreeMap::new());
    for line in complete_lines(&bytes).0 {
        let event: Value = serde_json::from_slice(line)?;
        let object = &event["objectRef"];
        if object["subresource"] != "status" || object["name"] != DERIVED_QUOTA {
            continue;
        }
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        if code != 200 {
            if user == users::API_SERVER {
                *record.refused.entry(code).or_default() += 1;
            }
            continue;
        }
        let state = state(&event["responseObject"], user).with_context(|| event.to_string())?;
        states.entry(state.version).or_insert(state);
    }
    record.states = states.len();
    add_up(&mut record, states.into_values(), company);
    Ok(record)
}

fn state(object: &Value, user: &str) -> Option<State> {
    Some(State {
        version: object["metadata"]["resourceVersion"].as_str()?.parse().ok()?,
        namespace: object["metadata"]["namespace"].as_str()?.to_owned(),
        user: user.to_owned(),
        used: object["status"]["used"][LIMITED].as_str()?.parse().ok()?,
    })
}

fn add_up(record: &mut Record, states: impl Iterator<Item = State>, company: &Company) {
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for State { version, namespace, user, used: new } in states {
        let old = used.insert(namespace.clone(), new).unwrap_or_default();
        let by_api_server = user == users::API_SERVER;
        match (new > old, by_api_server) {
            (false, _) => record.lowered += usize::from(new < old),
            (true, true) => record.raises += 1,
            (true, false) => record.recounts += 1,
        }
        for quota in company.limiting(&namespace) {
            let limit = company.limits[quota];
            let sum =
                sums.entry(company.limits.get_key_value(quota).map_or("", |(name, _)| name)).or_default();
            *sum += new - old;
            let greatest = record.greatest.entry(limit).or_default();
            *greatest = (*greatest).max(*sum);
            if new > old && *sum > limit {
                if by_api_server {
                    record.violations.push(format!(
                        "version {version}: {namespace} from {old} to {new} by {user}: {sum} of {limit} in {quota}"
                    ));
                } else {
                    record.recounts_over += 1;
                }
            }
        }
    }
}
