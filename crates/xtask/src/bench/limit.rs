//! The limit: what the plain client reaches at best, and how it compares. Knows no measure.

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

/// What the plain client reached at best, as a mean over all rounds.
pub(crate) struct Limit {
    pub(crate) per_second: f64,
    /// Processor microseconds for each request, whoever used them.
    pub(crate) cost: f64,
}

impl Limit {
    /// `rounds` holds what was reached with each number of connections, before and after.
    pub(crate) fn of(rounds: &[Vec<Rate>]) -> Self {
        let best = rounds.iter().filter_map(|rates| {
            rates.iter().max_by(|one, other| one.per_second.total_cmp(&other.per_second))
        });
        let best: Vec<&Rate> = best.collect();
        let mean = |figure: &dyn Fn(&Rate) -> f64| {
            best.iter().map(|rate| figure(rate)).sum::<f64>() / decimal(best.len().max(1))
        };
        Self { per_second: mean(&|rate| rate.per_second), cost: mean(&|rate| total(&rate.cpu_us)) }
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
