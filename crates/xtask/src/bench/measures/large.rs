//! A webhook with a tenth of a processor over 10,000 namespaces and 100,000 copies: when it is ready, and how long requests wait
//! for it then.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hns_e2e::CpuLimit;
use http::Method;
use serde_json::json;

use super::restart;
use crate::bench::client::{Call, Sent};
use crate::bench::report::{Figure, Outcome, Target, decimal};
use crate::bench::stage::Stage;
use crate::bench::{Scale, say};

/// What the webhook may use of a processor.
const THOUSANDTHS: u32 = 100;
/// How often it is asked whether it is ready; each question costs it some of what it has.
const ASK: Duration = Duration::from_millis(500);
/// Users at a time, and requests in all.
const USERS: usize = 16;
const REQUESTS: usize = 6000;

pub(crate) async fn measure(stage: &mut Stage<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    restart::fill(stage, scale).await?;
    stage.rest().await?;

    let limit = CpuLimit::new(THOUSANDTHS)?;
    let clock = Instant::now();
    stage.restart_webhook(&limit)?;
    // What the process before it has used does not count.
    let mut window = stage.open()?;
    while !stage.is_ready().await {
        ensure!(clock.elapsed() < Duration::from_secs(600), "not ready in ten minutes");
        tokio::time::sleep(ASK).await;
    }
    let ready = clock.elapsed();
    say(&format!("ready after {:.1} s", ready.as_secs_f64()));
    stage.calm(&mut window).await?;

    let reviews = stage.reviews().await?;
    let sent = stage.client.send(requests(scale), USERS).await?;
    let reviewed = stage.reviews().await? - reviews;
    ensure!(reviewed >= decimal(REQUESTS), "{reviewed} reviews of {REQUESTS} requests");
    stage.calm(&mut window).await?;

    let after = stage.cpu()?;
    let seen = stage.seen(&window, clock.elapsed().as_secs_f64(), &after)?;
    let what = format!(
        "{} namespaces, {} copies, a webhook with {THOUSANDTHS}m of a processor",
        scale.big_namespaces,
        scale.big_namespaces * scale.sources
    );
    // The product has nothing to write: nothing follows from what is changed.
    let mut outcome = Outcome::new("large", what, seen, 0);
    outcome.figures = figures(&outcome, ready, &sent)?;
    Ok(vec![outcome])
}

/// Half of them change something of a hierarchy, half would create a source in the root of all.
fn requests(scale: &Scale) -> Vec<Call> {
    let change = |number: usize| {
        let namespace = restart::below(number % scale.big_namespaces);
        let path =
            format!("/apis/hnc.x-k8s.io/v1alpha2/namespaces/{namespace}/hierarchyconfigurations/hierarchy");
        let body = json!({ "spec": { "allowCascadingDeletion": true } });
        Call::new(Method::PATCH, path, body.to_string())
    };
    let rehearse = |number: usize| {
        let path =
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles?dryRun=All", restart::ROOT);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": format!("new-{number:05}") },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
        });
        Call::new(Method::POST, path, role.to_string())
    };
    (0..REQUESTS / 2).flat_map(|number| [change(number), rehearse(number)]).collect()
}

fn figures(outcome: &Outcome, ready: Duration, sent: &Sent) -> anyhow::Result<Vec<Figure>> {
    let (webhook, controller) = (outcome.webhook, outcome.controller);
    let at = |hundredths: usize| {
        let place = sent.waits.len() * hundredths / 100;
        sent.waits.get(place).map(Duration::as_secs_f64).context("no requests")
    };
    let rate = decimal(sent.waits.len()) / sent.wall.as_secs_f64();
    Ok(vec![
        Figure::new("webhook ready", ready.as_secs_f64(), "s").held_to(Target::AtMost(60.0)),
        Figure::new("99 of 100 requests answered within", at(99)?, "s").held_to(Target::AtMost(2.0)),
        Figure::new("half of them within", at(50)?, "s"),
        Figure::new("requests", rate, "/s"),
        Figure::new("asked to come again", decimal(sent.repeated), ""),
        Figure::new("webhook's memory", webhook.rss(), "MiB"),
        Figure::new("webhook's peak", webhook.peak(), "MiB"),
        Figure::new("controller's memory", controller.rss(), "MiB"),
    ])
}
