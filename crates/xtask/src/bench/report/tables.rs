//! The outcomes of a run as Markdown tables: results, cost, requests and limits.

use super::{Figure, Outcome, Rate, Target, mebibytes, total, word};

/// All tables.
pub(crate) fn tables(outcomes: &[Outcome]) -> String {
    let tables = [reached(outcomes), took(outcomes), requested(outcomes), limits(outcomes)];
    let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
    tables.map(|table| table.text()).collect::<Vec<_>>().join("\n")
}

struct Table {
    /// The headings; those of numeric columns begin with `>`.
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn text(&self) -> String {
        let head = self.head.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        let rule = self.head.iter().map(|name| if name.starts_with('>') { "---:" } else { "---" }.to_owned());
        let rows = [head, rule.collect()].into_iter().chain(self.rows.iter().cloned());
        rows.flat_map(|row: Vec<String>| ["| ".to_owned(), row.join(" | "), " |\n".to_owned()]).collect()
    }
}

/// The figures with targets, and the others.
fn reached(outcomes: &[Outcome]) -> Table {
    let row = |outcome: &Outcome, figure: &Figure| {
        let (target, verdict) = match (figure.target, figure.met) {
            (Some(Target::AtLeast(bound)), Some(met)) => (format!("≥ {bound}"), word(met)),
            (Some(Target::AtMost(bound)), Some(met)) => (format!("≤ {bound}"), word(met)),
            _ => (String::new(), ""),
        };
        let value = format!("{:.2} {}", figure.value, figure.unit);
        vec![outcome.name.clone(), figure.what.clone(), value.trim().to_owned(), target, verdict.to_owned()]
    };
    let rows =
        outcomes.iter().flat_map(|outcome| outcome.figures.iter().map(move |figure| row(outcome, figure)));
    Table { head: vec!["Measure", "Figure", ">Value", ">Target", ""], rows: rows.collect() }
}

const PROCESSES: [&str; 5] = ["webhook", "controller", "API server", "etcd", "others"];

fn took(outcomes: &[Outcome]) -> Table {
    let row = |outcome: &Outcome| {
        let used = |name: &&str| format!("{:.2}", outcome.cpu.get(*name).copied().unwrap_or_default());
        [outcome.name.clone(), outcome.what.clone(), format!("{:.2}", outcome.seconds)]
            .into_iter()
            .chain(PROCESSES.iter().map(used))
            .chain([mebibytes(outcome.webhook), mebibytes(outcome.controller)])
            .collect()
    };
    Table {
        head: vec![
            "Measure",
            "What",
            ">Time, s",
            ">CPU s: webhook",
            ">controller",
            ">API server",
            ">etcd",
            ">others",
            ">Webhook, MiB (peak)",
            ">Controller, MiB (peak)",
        ],
        rows: outcomes.iter().map(row).collect(),
    }
}

fn requested(outcomes: &[Outcome]) -> Table {
    let row = |outcome: &Outcome| {
        let made = |who: &str| {
            let requests = outcome.requests.get(who).into_iter().flatten();
            requests.map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
        };
        let (needed, all) = (outcome.needed.to_string(), outcome.made.to_string());
        vec![outcome.name.clone(), needed, all, made("controller"), made("webhook")]
    };
    Table {
        head: vec![
            "Measure",
            ">Writes needed",
            ">made",
            "Requests of the controller",
            "Requests of the webhook",
        ],
        rows: outcomes.iter().filter(|outcome| !outcome.requests.is_empty()).map(row).collect(),
    }
}

fn limits(outcomes: &[Outcome]) -> Table {
    let row = |outcome: &Outcome, round: usize, rate: &Rate| {
        let per_second = format!("{:.0}", rate.per_second);
        let cost = format!("{:.0}", total(&rate.cpu_us));
        vec![outcome.name.clone(), (round + 1).to_string(), rate.parallel.to_string(), per_second, cost]
    };
    let rows = outcomes.iter().flat_map(|outcome| {
        let rounds = outcome.limits.iter().enumerate();
        rounds.flat_map(move |(round, rates)| rates.iter().map(move |rate| row(outcome, round, rate)))
    });
    Table {
        head: vec!["Limit of", ">Round", ">At a time", ">Per second", ">CPU µs each"],
        rows: rows.collect(),
    }
}
