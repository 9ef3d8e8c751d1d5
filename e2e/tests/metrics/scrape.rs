//! Both binaries' metrics, the alerts and the dashboard, as Prometheus sees them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::eventually;
use hns_e2e::programs::Prometheus;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::fixture::fixture;
use super::prometheus::{Running, file};

const PATIENCE: Duration = Duration::from_secs(60);

/// Queries of the dashboard that a healthy installation may answer with nothing, and why.
const IN_A_FAULT: [(&str, &str); 3] = [
    ("Answered with \"try again\"", "the webhook knows enough to judge"),
    ("Requests that were no review", "only the API server sends requests"),
    ("Watches that failed", "the API server answers"),
];

/// Alerts that a healthy installation does not raise, however busy the machine is that it runs on.
const CALM: [&str; 5] =
    ["HnsNoLeader", "HnsWebhookAbsent", "HnsCertificateExpires", "HnsSettingsRefused", "HnsNamespacesHalted"];

/// Metrics that alerts and dashboard name and that are not there: but in a fault, and where no certificates are made.
const ELSEWHERE: [&str; 3] = [
    "hns_watch_failures_total",
    "hns_admission_unreadable_requests_total",
    "hns_certificate_not_after_seconds",
];

/// What promtool finds fault with and HNC's users rely on.
const HNCS: (&str, &str) =
    ("hnc_reconcilers_object_", "label names should be written in 'snake_case' not 'camelCase'");

#[tokio::test]
async fn prometheus_scrapes_both_and_answers_alerts_and_dashboard() -> Result<()> {
    let began = Instant::now();
    let programs = match Prometheus::find_or_fetch() {
        Ok(programs) => programs,
        Err(error) if std::env::var("HNS_NODE").is_ok_and(|it| it == "require") => return Err(error),
        Err(error) => {
            println!("NOT CHECKED: metrics with Prometheus: {error:#}");
            return Ok(());
        }
    };
    promtool(&programs.promtool, &["check", "rules", &file("alerts.yaml").to_string_lossy()], "").await?;
    let fixture = fixture().await?;
    let controller = &fixture.controller;
    println!("installed after {:.1?}", began.elapsed());
    let targets =
        [("hns-webhook", fixture.webhook.metrics_port()), ("hns-controller", controller.metrics_port())];
    let (prometheus, ()) =
        tokio::try_join!(Running::start(&programs.server, &targets), fixture.work("sc-one"))?;
    for replica in [&fixture.webhook, controller] {
        lint(&programs.promtool, replica.pod_name(), &replica.metrics().await?).await?;
    }
    eventually("both have been scraped", PATIENCE, async || {
        let up =
            prometheus.query("count(hns_build_info) == 2").await.map_err(|error| format!("{error:#}"))?;
        if up.is_empty() { Err("not yet".into()) } else { Ok(()) }
    })
    .await?;
    println!("scraped after {:.1?}", began.elapsed());
    // The series are there now; this is what rates are made of.
    fixture.work("sc-two").await?;
    dashboard(&prometheus).await?;
    alerts(&prometheus, &[]).await?;
    named(&prometheus).await?;
    println!("asked after {:.1?}", began.elapsed());

    controller.terminate().await?;
    alerts(&prometheus, &["HnsNoLeader"]).await?;
    println!("took {:.1?}", began.elapsed());
    Ok(())
}

/// Runs promtool, and gives what it says on standard error.
async fn promtool(program: &Path, args: &[&str], input: &str) -> Result<String> {
    let (ok, said) = try_promtool(program, args, input).await?;
    ensure!(ok, "promtool {args:?}: {said}");
    println!("promtool {} {}: passed", args[0], args[1]);
    Ok(said)
}

async fn try_promtool(program: &Path, args: &[&str], input: &str) -> Result<(bool, String)> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("promtool")?;
    child.stdin.take().context("promtool's input")?.write_all(input.as_bytes()).await?;
    let output = child.wait_with_output().await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

async fn lint(program: &Path, who: &str, metrics: &str) -> Result<()> {
    let (ok, said) = try_promtool(program, &["check", "metrics"], metrics).await?;
    let faults: Vec<&str> =
        said.lines().filter(|it| !(it.starts_with(HNCS.0) && it.ends_with(HNCS.1))).collect();
    ensure!(faults.is_empty() && (ok || !said.is_empty()), "promtool check metrics of {who}: {said}");
    let families = metrics.lines().filter(|it| it.starts_with("# TYPE ")).count();
    ensure!(families > 10, "{who} shows {families} metrics");
    println!("promtool check metrics: {families} metrics of {who} pass (HNC's label GroupKind aside)");
    Ok(())
}

/// Each query with the title of its panel.
fn queries() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file("dashboard.json"))?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let of = |panel: &Value| -> Vec<(String, String)> {
        let title = panel["title"].as_str().unwrap_or_default();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let query = |target: &Value| target["expr"].as_str().map(|it| it.replace("$__rate_interval", "5m"));
        targets.iter().filter_map(query).map(|query| (title.to_owned(), query)).collect()
    };
    let queries: Vec<_> = panels.iter().flat_map(of).collect();
    ensure!(queries.len() > 20, "only {} queries", queries.len());
    ensure!(
        queries.iter().all(|(_, query)| !query.contains('$')),
        "a variable that is not known here: {queries:?}"
    );
    Ok(queries)
}

async fn dashboard(prometheus: &Running) -> Result<()> {
    let (mut answered, mut silent) = (0, BTreeSet::new());
    for (title, query) in queries()? {
        if let Some((title, why)) = IN_A_FAULT.iter().find(|(it, _)| *it == title) {
            prometheus.query(&query).await?;
            println!("dashboard: {title:?} is answered, and need not have data: {why}");
            silent.insert(*title);
            continue;
        }
        eventually(&format!("{title:?} has data: {query}"), PATIENCE, async || {
            let data = prometheus.query(&query).await.map_err(|error| format!("{error:#}"))?;
            let is_number = |it: &Value| it["value"][1].as_str().is_some_and(|it| it != "NaN");
            if data.iter().any(is_number) { Ok(()) } else { Err(format!("{data:?}")) }
        })
        .await?;
        answered += 1;
    }
    ensure!(silent.len() == IN_A_FAULT.len(), "queries that the dashboard no longer has: {IN_A_FAULT:?}");
    println!("dashboard: {answered} queries have data");
    Ok(())
}

/// Waits until Prometheus has evaluated all alerts, and of those that must be calm just these are about to fire.
async fn alerts(prometheus: &Running, pending: &[&str]) -> Result<()> {
    let count = eventually(&format!("the alerts {pending:?} are pending"), PATIENCE, async || {
        let rules = prometheus.rules().await.map_err(|error| format!("{error:#}"))?;
        let state = |rule: &Value| {
            let name = rule["name"].as_str().unwrap_or_default();
            CALM.contains(&name).then(|| if pending.contains(&name) { "pending" } else { "inactive" })
        };
        let is_right =
            |rule: &Value| rule["health"] == "ok" && state(rule).is_none_or(|it| rule["state"] == *it);
        if let Some(wrong) = rules.iter().find(|rule| !is_right(rule)) {
            return Err(wrong.to_string());
        }
        let calm = rules.iter().filter(|rule| state(rule).is_some()).count();
        if calm == CALM.len() { Ok(rules.len()) } else { Err(format!("{calm} of {CALM:?}")) }
    })
    .await?;
    println!("{count} alerts are evaluated without an error; pending: {pending:?}");
    Ok(())
}

/// Alerts and queries use only existing metrics, and the documentation names all of them.
async fn named(prometheus: &Running) -> Result<()> {
    let shown = prometheus.names().await?;
    let rules = prometheus.rules().await?;
    let alerts = rules.iter().filter_map(|it| Some(it["query"].as_str()?.to_owned()));
    let texts: Vec<String> = alerts.chain(queries()?.into_iter().map(|(_, query)| query)).collect();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = texts.iter().flat_map(|text| text.split(|letter| !is_part(letter)));
    let metrics: BTreeSet<&str> =
        words.filter(|it| ["hns_", "hnc_", "process_"].iter().any(|prefix| it.starts_with(prefix))).collect();
    let unknown: Vec<_> = metrics
        .iter()
        .filter(|it| !shown.iter().any(|name| name == *it) && !ELSEWHERE.contains(it))
        .collect();
    ensure!(
        unknown.is_empty() && metrics.len() > 15,
        "metrics that do not exist: {unknown:?} of {metrics:?}"
    );
    let documentation = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md"))?;
    let ours = shown.iter().filter(|it| it.starts_with("hns_") || it.starts_with("hnc_"));
    let silent: Vec<_> = ours.filter(|it| !is_documented(&documentation, it)).collect();
    ensure!(silent.is_empty(), "docs/metrics.md does not name {silent:?}");
    println!("all {} metrics that alerts and dashboard name are there, {ELSEWHERE:?} aside", metrics.len());
    Ok(())
}

/// By its name, or by its suffix after the previous one; the series of a histogram by the histogram's name.
fn is_documented(documentation: &str, metric: &str) -> bool {
    let family =
        ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end)).unwrap_or(metric);
    let short = family.replace("hnc_reconcilers_", "…_");
    documentation.contains(&format!("`{family}`")) || documentation.contains(&format!("`{short}`"))
}
