//! The limit: the best throughput of the plain client, as the reference for the product.

use std::collections::BTreeMap;

use http::Method;
use serde_json::json;

use super::client::{Call, Sent};
use super::report::{Rate, decimal, each, total};
use super::usage::Cpu;
use super::{Scale, say};

/// In this many rounds, every number of connections is tried; later rounds use only the best one.
const SCOUTING: usize = 2;

/// The program that is measured.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    Limit,
    Product,
}

/// The order in a round. It alternates between rounds.
pub(crate) fn turns(round: usize) -> [Turn; 2] {
    if round.is_multiple_of(2) { [Turn::Limit, Turn::Product] } else { [Turn::Product, Turn::Limit] }
}

/// Measures one more round: sends the requests of `calls` with each number of connections that is to be tried after
/// `rounds`, by `raw`, that of a testbed or of a bare cluster. `calls` gets the number of attempts so far in this round.
pub(crate) async fn round(
    mut raw: impl AsyncFnMut(Vec<Call>, usize) -> anyhow::Result<(Sent, Cpu)>,
    scale: &Scale,
    rounds: &[Vec<Rate>],
    what: &str,
    calls: impl Fn(usize) -> Vec<Call>,
) -> anyhow::Result<Vec<Rate>> {
    let mut rates = Vec::new();
    for (tried, parallel) in numbers(&scale.parallel, rounds).into_iter().enumerate() {
        let calls = calls(tried);
        let count = calls.len();
        let (sent, cpu) = raw(calls, parallel).await?;
        anyhow::ensure!(sent.repeated == 0, "the API server asked for {} repetitions", sent.repeated);
        let per_second = decimal(count) / sent.wall.as_secs_f64();
        say(&format!("limit: {what} {per_second:.0}/s, {parallel} at a time"));
        rates.push(Rate { parallel, per_second, cpu_us: each(&cpu, count) });
    }
    Ok(rates)
}

/// The numbers of connections to try after these `rounds`.
fn numbers(all: &[usize], rounds: &[Vec<Rate>]) -> Vec<usize> {
    if rounds.len() < SCOUTING { all.to_vec() } else { vec![Limit::of(rounds).parallel] }
}

/// The throughput of the plain client with the best number of connections.
#[derive(Debug, PartialEq)]
pub(crate) struct Limit {
    /// The number of connections.
    pub(crate) parallel: usize,
    pub(crate) per_second: f64,
    /// Processor microseconds of all processes per request.
    pub(crate) cost: f64,
}

impl Limit {
    /// The limit of `rounds`, which hold the rate for each number of connections. The mean over all rounds counts, for
    /// a number that was tried in each of them, because the best of a single round is often luck.
    pub(crate) fn of(rounds: &[Vec<Rate>]) -> Self {
        let mut by_number: BTreeMap<usize, Vec<&Rate>> = BTreeMap::new();
        for rate in rounds.iter().flatten() {
            by_number.entry(rate.parallel).or_default().push(rate);
        }
        let always = by_number.into_iter().filter(|(_, rates)| rates.len() == rounds.len());
        let means = always.map(|(parallel, rates)| {
            let mean = |figure: fn(&Rate) -> f64| {
                rates.iter().map(|rate| figure(rate)).sum::<f64>() / decimal(rates.len())
            };
            // The harmonic mean: all requests by all the time.
            let per_second = 1.0 / mean(|rate| 1.0 / rate.per_second);
            Self { parallel, per_second, cost: mean(|rate| total(&rate.cpu_us)) }
        });
        means.max_by(|one, other| one.per_second.total_cmp(&other.per_second)).unwrap_or(Self {
            parallel: 0,
            per_second: 0.0,
            cost: 0.0,
        })
    }
}

/// Label patches of unmanaged namespaces: the most frequent write for the structure of a tree. Each one is a change if
/// `round` differs, and they make a namespace no larger than the product does.
pub(crate) fn label_patches(plain: &[String], count: usize, round: &str) -> Vec<Call> {
    let patch = |number: usize| {
        let pass = number / plain.len();
        let key = format!("parent-{}.bench.example/depth", pass % 2);
        let body = json!({ "metadata": { "labels": { key: format!("{round}-{pass}") } } });
        let path = format!("/api/v1/namespaces/{}", plain[number % plain.len()]);
        Call::new(Method::PATCH, path, body.to_string())
    };
    (0..count).map(patch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(parallel: usize, per_second: f64, used: f64) -> Rate {
        let cpu_us = [("API server", used), (crate::bench::usage::OTHERS, 1000.0)].into();
        Rate { parallel, per_second, cpu_us }
    }

    #[test]
    fn the_best_number_of_connections_is_the_best_on_average() {
        let lucky_once = [
            vec![rate(16, 80.0, 5.0), rate(32, 100.0, 4.0)],
            vec![rate(16, 140.0, 7.0), rate(32, 100.0, 6.0)],
            vec![rate(16, 80.0, 6.0), rate(32, 100.0, 5.0)],
        ];
        assert_eq!(Limit::of(&lucky_once), Limit { parallel: 32, per_second: 100.0, cost: 5.0 });
        // Half of the requests took three times as long as the other half.
        let uneven = [vec![rate(16, 50.0, 5.0)], vec![rate(16, 150.0, 5.0)]];
        assert_eq!(Limit::of(&uneven), Limit { parallel: 16, per_second: 75.0, cost: 5.0 });
    }

    #[test]
    fn after_some_rounds_only_the_best_number_is_tried_and_counts() {
        let all = [16, 32, 64];
        let mut rounds = vec![];
        for sixteen in [200.0, 80.0] {
            assert_eq!(numbers(&all, &rounds), all);
            rounds.push(vec![rate(16, sixteen, 5.0), rate(32, 130.0, 5.0), rate(64, 120.0, 5.0)]);
        }
        assert_eq!(numbers(&all, &rounds), [32]);
        rounds.push(vec![rate(32, 100.0, 5.0)]);
        assert_eq!((numbers(&all, &rounds), Limit::of(&rounds).parallel), (vec![32], 32));
    }
}
