//! Measures a webhook with a tenth of a processor, 10,000 namespaces and 100,000 copies: when it is ready, and how long
//! requests take then.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hns_e2e::CpuLimit;
use http::Method;
use serde_json::json;

use super::restart;
use crate::bench::client::{Call, Sent};
use crate::bench::report::{Figure, Outcome, Target, decimal};
use crate::bench::testbed::Testbed;
use crate::bench::{Scale, say};

/// The processor limit of the webhook.
const THOUSANDTHS: u32 = 100;
/// The interval of readiness checks, each of which costs the webhook processor time.
const ASK: Duration = Duration::from_millis(500);
/// The number of concurrent users, and of all requests.
const USERS: usize = 16;
const REQUESTS: usize = 6000;

pub(crate) async fn measure(testbed: &mut Testbed<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    restart::fill(testbed, scale).await?;
    testbed.rest().await?;

    let limit = CpuLimit::new(THOUSANDTHS)?;
    let clock = Instant::now();
    testbed.restart_webhook(&limit)?;
    // The usage of the earlier process does not count.
    let mut window = testbed.open()?;
    while !testbed.is_ready().await {
        ensure!(clock.elapsed() < Duration::from_secs(600), "not ready in ten minutes");
        tokio::time::sleep(ASK).await;
    }
    let ready = clock.elapsed();
    say(&format!("ready after {:.1} s", ready.as_secs_f64()));
    testbed.wait_idle(&mut window).await?;

    let reviews = testbed.reviews().await?;
    let sent = testbed.client.send(requests(scale), USERS).await?;
    let reviewed = testbed.reviews().await? - reviews;
    ensure!(reviewed >= decimal(REQUESTS), "{reviewed} reviews of {REQUESTS} requests");
    testbed.wait_idle(&mut window).await?;

    let after = testbed.cpu()?;
    let seen = testbed.seen(&window, clock.elapsed().as_secs_f64(), &after)?;
    let what = format!(
        "{} namespaces, {} copies, a webhook with {THOUSANDTHS}m of a processor",
        scale.big_namespaces,
        scale.big_namespaces * scale.sources
    );
    // The changes have no effects, so the product has nothing to write.
    let mut outcome = Outcome::new("large", what, seen, 0);
    outcome.figures = figures(&outcome, ready, &sent)?;
    Ok(vec![outcome])
}

/// Half of the requests change a hierarchy, half would create a source in the root of all namespaces.
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
