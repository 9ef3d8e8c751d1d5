//! Restarts both programs on a large cluster in which nothing is to be done.

use std::time::{Duration, Instant};

use anyhow::ensure;
use http::Method;
use serde_json::json;

use crate::bench::client::Call;
use crate::bench::report::{Figure, Outcome, Target, decimal};
use crate::bench::testbed::{FILLING, Testbed, Window};
use crate::bench::{Scale, say};

pub(super) const ROOT: &str = "tree-big";
const SECRET_BYTES: usize = 10 * 1024;
const SECRETS_EACH: usize = 1000;

/// The period without activity that ends the measurement.
const QUIET: Duration = Duration::from_secs(1);
/// The interval of these checks, and the processor time that both programs and the API server may use in it.
const LOOK: Duration = Duration::from_millis(100);
const IDLE_PRODUCT: f64 = 0.02;
const IDLE_API_SERVER: f64 = 0.03;

pub(crate) async fn measure(testbed: &mut Testbed<'_>, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    fill(testbed, scale).await?;
    testbed.rest().await?;

    let (mut window, clock) = testbed.restart()?;
    let ready = wait_ready(testbed, clock).await?;
    let quiet = wait_quiet(testbed, &mut window, clock).await?;
    let seen = testbed.seen(&window, quiet.as_secs_f64(), &testbed.cpu()?)?;
    let watched = |who: &str| {
        let of = seen.records.iter().filter(|record| record.who == who && record.verb == "watch");
        ["roles", "secrets"].iter().all(|kind| of.clone().any(|record| record.resource == *kind))
    };
    ensure!(watched("webhook") && watched("controller"), "not every kind is watched again");

    let what = format!(
        "{} namespaces, {} copies, {} Secrets of 10 KiB outside any tree",
        scale.big_namespaces,
        scale.big_namespaces * scale.sources,
        scale.secrets
    );
    let mut outcome = Outcome::new("restart", what, seen, 0);
    let webhook = outcome.webhook;
    let controller = outcome.controller;
    outcome.figures = vec![
        Figure::new("ready", ready.as_secs_f64(), "s"),
        Figure::new("ready and quiet", quiet.as_secs_f64(), "s").held_to(Target::AtMost(3.0)),
        Figure::new("writes", decimal(outcome.made), "").held_to(Target::AtMost(0.0)),
        Figure::new("controller's memory", controller.rss(), "MiB").held_to(Target::AtMost(60.0)),
        Figure::new("controller's peak", controller.peak(), "MiB"),
        Figure::new("webhook's memory", webhook.rss(), "MiB").held_to(Target::AtMost(40.0)),
        Figure::new("webhook's peak", webhook.peak(), "MiB"),
    ];
    Ok(vec![outcome])
}

/// Creates the large cluster.
pub(super) async fn fill(testbed: &mut Testbed<'_>, scale: &Scale) -> anyhow::Result<()> {
    testbed.propagate("secrets").await?;
    let below: Vec<String> = (0..scale.big_namespaces).map(below).collect();
    let alone: Vec<String> =
        (0..scale.secrets.div_ceil(SECRETS_EACH)).map(|number| format!("tree-alone-{number:03}")).collect();
    say(&format!("planting {} namespaces", below.len()));
    let names: Vec<String> = [ROOT.to_owned()].iter().chain(&below).chain(&alone).cloned().collect();
    testbed.create_namespaces(&names).await?;
    testbed.set_parents(below.iter().map(|name| (name.as_str(), ROOT))).await?;

    say(&format!("creating {} Secrets", scale.secrets));
    let secrets = (0..scale.secrets).map(|number| secret(&alone[number / SECRETS_EACH], number));
    testbed.client.send(secrets.collect(), FILLING).await?;

    let copies = below.len() * scale.sources;
    say(&format!("spreading {copies} copies"));
    let sources = (0..scale.sources).map(source).collect();
    let mut window = testbed.open()?;
    testbed.client.send(sources, FILLING).await?;
    let counts = |record: &crate::bench::audit::Record| {
        record.who == "controller"
            && record.verb == "create"
            && record.resource == "roles"
            && record.succeeded()
    };
    let seen = testbed.until(&mut window, copies, counts).await?;
    say(&format!("spread {copies} copies in {:.1} s", seen.wall));
    testbed.wait_idle(&mut window).await
}

/// The name of a namespace below the root.
pub(super) fn below(number: usize) -> String {
    format!("{ROOT}-{number:05}")
}

async fn wait_ready(testbed: &Testbed<'_>, clock: Instant) -> anyhow::Result<Duration> {
    while !testbed.is_ready().await {
        ensure!(clock.elapsed() < Duration::from_secs(300), "not ready in five minutes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(clock.elapsed())
}

/// Waits until neither program sends requests or works, nor the API server for them.
async fn wait_quiet(
    testbed: &mut Testbed<'_>,
    window: &mut Window,
    clock: Instant,
) -> anyhow::Result<Duration> {
    let mut last = clock.elapsed();
    let mut used = testbed.cpu()?;
    while clock.elapsed() < last + QUIET {
        ensure!(clock.elapsed() < Duration::from_secs(300), "not quiet in five minutes");
        tokio::time::sleep(LOOK).await;
        let asked = testbed.follow(window)?;
        let now = testbed.cpu()?;
        let spent = |name: &str| now[name] - used[name];
        let product = spent("webhook") + spent("controller");
        if asked || product > IDLE_PRODUCT || spent("API server") > IDLE_API_SERVER {
            last = clock.elapsed();
        }
        used = now;
    }
    Ok(last)
}

fn source(number: usize) -> Call {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": format!("role-{number:02}") },
        "rules": [{ "apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"] }],
    });
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ROOT}/roles");
    Call::new(Method::POST, path, role.to_string())
}

fn secret(namespace: &str, number: usize) -> Call {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": format!("secret-{number:05}") },
        "stringData": { "content": format!("{number:016}").repeat(SECRET_BYTES / 16) },
    });
    Call::new(Method::POST, format!("/api/v1/namespaces/{namespace}/secrets"), secret.to_string())
}
