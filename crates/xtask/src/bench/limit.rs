//! The limit: what the plain client reaches at best, and how it compares. Knows no measure.

use std::collections::BTreeMap;

use http::Method;
use serde_json::json;

use super::client::Call;
use super::report::{Rate, decimal, each, total};
use super::stage::Stage;
use super::{Scale, say};

/// Sends what `calls` makes with each number of connections that the scale tries.
pub(crate) async fn rates(
    stage: &mut Stage<'_>,
    scale: &Scale,
    what: &str,
    calls: impl Fn(usize) -> Vec<Call>,
) -> anyhow::Result<Vec<Rate>> {
    let mut rates = Vec::new();
    for parallel in &scale.parallel {
        let calls = calls(*parallel);
        let count = calls.len();
        stage.rest().await?;
        let (sent, cpu) = stage.raw(calls, *parallel).await?;
        anyhow::ensure!(
            sent.repeated == 0,
            "the API server would not be hurried: {} repetitions",
            sent.repeated
        );
        let per_second = decimal(count) / sent.wall.as_secs_f64();
        say(&format!("limit: {what} {per_second:.0}/s, {parallel} at a time"));
        rates.push(Rate { parallel: *parallel, per_second, cpu_us: each(&cpu, count) });
    }
    Ok(rates)
}

/// What the plain client reached with the best number of connections.
#[derive(Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) per_second: f64,
    /// Processor microseconds for each request, whoever used them.
    pub(crate) cost: f64,
}

impl Limit {
    /// `rounds` holds what was reached with each number of connections, the same ones each time. What counts is the mean over all
    /// rounds: the best of a single round is mostly the luckiest.
    pub(crate) fn of(rounds: &[Vec<Rate>]) -> Self {
        let mut by_number: BTreeMap<usize, Vec<&Rate>> = BTreeMap::new();
        for rate in rounds.iter().flatten() {
            by_number.entry(rate.parallel).or_default().push(rate);
        }
        let means = by_number.values().map(|rates| {
            let mean = |figure: fn(&Rate) -> f64| {
                rates.iter().map(|rate| figure(rate)).sum::<f64>() / decimal(rates.len())
            };
            Self { per_second: mean(|rate| rate.per_second), cost: mean(|rate| total(&rate.cpu_us)) }
        });
        means
            .max_by(|one, other| one.per_second.total_cmp(&other.per_second))
            .unwrap_or(Self { per_second: 0.0, cost: 0.0 })
    }
}

/// Gives labels to namespaces that nobody manages: the write that the structure of a tree is mostly made of. `round` makes them
/// new ones.
pub(crate) fn label_patches(plain: &[String], count: usize, round: &str) -> Vec<Call> {
    let patch = |number: usize| {
        let key = format!("{round}-{}.bench.example/depth", number / plain.len());
        let body = json!({ "metadata": { "labels": { key: "1" } } });
        let path = format!("/api/v1/namespaces/{}", plain[number % plain.len()]);
        Call::new(Method::PATCH, path, body.to_string())
    };
    (0..count).map(patch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_number_of_connections_is_the_best_on_average() {
        let rate = |parallel, per_second: f64, used| {
            let cpu_us = [("API server", used), (crate::bench::usage::OTHERS, 1000.0)].into();
            Rate { parallel, per_second, cpu_us }
        };
        let lucky_once = [
            vec![rate(16, 90.0, 5.0), rate(32, 100.0, 4.0)],
            vec![rate(16, 130.0, 7.0), rate(32, 110.0, 6.0)],
            vec![rate(16, 80.0, 6.0), rate(32, 120.0, 5.0)],
        ];
        assert_eq!(Limit::of(&lucky_once), Limit { per_second: 110.0, cost: 5.0 });
    }
}
