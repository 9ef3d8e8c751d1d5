//! Every line of a log is one JSON object with a time, and what was said during a review names it.

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::fixture::fixture;

#[tokio::test]
async fn lines_are_objects_with_a_time_and_the_uid_of_the_review() -> Result<()> {
    let fixture = fixture().await?;
    let steps = Steps::of(fixture.cluster.admin());
    steps.create_namespace("lo-self").await?;
    let status = refusal(steps.set_parent("lo-self", "lo-self").await);
    ensure!(status.code == 409, "{status:?}");
    let denial = eventually("the denial is in the log", PATIENCE, async || {
        let lines = lines(&fixture.webhook.log()).map_err(|error| format!("{error:#}"))?;
        let found = lines.into_iter().find(|it| it["msg"] == "denied" && it["namespace"] == "lo-self");
        found.ok_or_else(|| "not there".to_owned())
    })
    .await?;
    ensure!(denial["webhook"] == "hierarchyconfigurations.hnc.x-k8s.io", "{denial}");
    ensure!(denial["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{denial}");
    ensure!(denial["verdict"] == "Conflict" && denial["level"] == "info", "{denial}");
    let (ours, theirs) = (lines(&fixture.webhook.log())?.len(), lines(&fixture.controller.log())?.len());
    ensure!(ours > 1 && theirs > 1, "{ours} and {theirs} lines");
    println!("{ours} lines of the webhook and {theirs} of the controller are JSON with a time; {denial}");
    Ok(())
}

/// All complete lines.
fn lines(log: &str) -> Result<Vec<Value>> {
    let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let parse = |line: &str| {
        let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let time = line["ts"].as_str().with_context(|| format!("no time: {line}"))?;
        time.parse::<Timestamp>().with_context(|| format!("{line}"))?;
        ensure!(line["level"].is_string() && line["msg"].is_string(), "{line}");
        Ok(line)
    };
    complete.lines().map(parse).collect()
}
