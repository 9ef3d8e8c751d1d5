//! The measurements as data: for the terminal, for JSON and for `BENCHMARKS.md`.

mod tables;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::audit::{self, Record};
use super::testbed::Measurement;
use super::usage::{Cpu, Memory, OTHERS};

pub(crate) use self::tables::tables;

/// The target of a figure.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure of a measure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) target: Option<Target>,
    pub(crate) met: Option<bool>,
}

/// The rate of many requests of the plain client.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rate {
    pub(crate) parallel: usize,
    pub(crate) per_second: f64,
    /// Processor microseconds per request, by process.
    pub(crate) cpu_us: Cpu,
}

/// The median of at least one value.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// The outcome of a measure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) seconds: f64,
    /// Processor seconds by process.
    pub(crate) cpu: Cpu,
    pub(crate) webhook: Memory,
    pub(crate) controller: Memory,
    /// The requests by user, verb and resource.
    pub(crate) requests: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// The smallest number of writes, and the writes of the product except for its lease.
    pub(crate) needed: usize,
    pub(crate) made: usize,
    /// The rates of the plain client, by round.
    pub(crate) limits: Vec<Vec<Rate>>,
}

impl Figure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, target: None, met: None }
    }

    pub(crate) fn held_to(self, target: Target) -> Self {
        let met = match target {
            Target::AtLeast(bound) => self.value >= bound,
            Target::AtMost(bound) => self.value <= bound,
        };
        Self { target: Some(target), met: Some(met), ..self }
    }
}

impl Outcome {
    pub(crate) fn new(name: impl Into<String>, what: String, seen: Measurement, needed: usize) -> Self {
        let made = |record: &&Record| record.who != "client" && record.is_write() && !record.is_lease();
        Self {
            name: name.into(),
            what,
            figures: Vec::new(),
            seconds: seen.wall,
            cpu: seen.cpu,
            webhook: seen.webhook,
            controller: seen.controller,
            requests: audit::counts(&seen.records),
            needed,
            made: seen.records.iter().filter(made).count(),
            limits: Vec::new(),
        }
    }

    /// The outcome as text for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}: {} in {:.2} s", self.name, self.what, self.seconds);
        for figure in &self.figures {
            let _ = writeln!(text, "  {}", figure.text());
        }
        let _ = writeln!(
            text,
            "  memory MiB (peak): webhook {}, controller {}",
            mebibytes(self.webhook),
            mebibytes(self.controller)
        );
        let _ = writeln!(text, "  processor seconds: {}", times(&self.cpu, 2));
        for (round, rates) in self.limits.iter().enumerate() {
            for rate in rates {
                let _ = writeln!(
                    text,
                    "  limit {round}, {} at a time: {:.0}/s; processor µs each: {}",
                    rate.parallel,
                    rate.per_second,
                    times(&rate.cpu_us, 0)
                );
            }
        }
        let _ = writeln!(text, "  writes made {}, needed {}", self.made, self.needed);
        for (who, requests) in &self.requests {
            let list: Vec<String> = requests.iter().map(|(what, count)| format!("{count} {what}")).collect();
            let _ = writeln!(text, "  requests of {who}: {}", list.join(", "));
        }
        text
    }
}

impl Figure {
    fn text(&self) -> String {
        let Self { what, value, unit, .. } = self;
        let verdict = match (self.target, self.met) {
            (Some(Target::AtLeast(bound)), Some(met)) => {
                format!("  (target at least {bound}: {})", word(met))
            }
            (Some(Target::AtMost(bound)), Some(met)) => format!("  (target at most {bound}: {})", word(met)),
            _ => String::new(),
        };
        format!("{what}: {value:.2} {unit}{verdict}")
    }
}

/// The total cost of the requests: all usage except `others`.
pub(crate) fn total(cpu: &Cpu) -> f64 {
    cpu.iter().filter(|(name, _)| **name != OTHERS).map(|(_, used)| used).sum()
}

fn times(cpu: &Cpu, digits: usize) -> String {
    let list: Vec<String> = cpu.iter().map(|(name, used)| format!("{name} {used:.digits$}")).collect();
    format!("{}; without others {:.digits$}", list.join(", "), total(cpu))
}

fn word(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn mebibytes(memory: Memory) -> String {
    format!("{:.1} ({:.1})", memory.rss(), memory.peak())
}

/// Microseconds per request.
pub(crate) fn each(cpu: &Cpu, count: usize) -> Cpu {
    cpu.iter().map(|(name, used)| (*name, used * 1e6 / decimal(count))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of requests")]
pub(crate) fn decimal(count: usize) -> f64 {
    count as f64
}
