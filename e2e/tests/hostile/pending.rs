//! Changes of parent that were allowed and then failed: how long they delay other requests, and that they never do more.
//!
//! Only one webhook runs here, and no controller.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Cluster, Options, Product, Replica, Steps, eventually, refusal};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A change whose end is not observed is dropped after this time.
const LONGEST: Duration = Duration::from_secs(60);
/// For the request that finds it dropped.
const SLACK: Duration = Duration::from_secs(10);

struct Fixture {
    product: Product<'static>,
    _webhook: Replica,
}

async fn fixture() -> Result<&'static Fixture> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
    WORLD
        .get_or_try_init(async || {
            let product = Product::install(cluster, Options::default()).await?;
            let webhook = product.start_webhook().await?;
            Ok(Fixture { product, _webhook: webhook })
        })
        .await
}

/// Namespaces that are roots, each with a `HierarchyConfiguration`, and the administrator's steps.
async fn roots(names: &[&str]) -> Result<Steps> {
    let steps = Steps::of(fixture().await?.product.cluster().admin());
    for name in names {
        steps.create_namespace(name).await?;
        steps.set_parent(name, "").await?;
    }
    Ok(steps)
}

/// The code of an answer; 200 for success.
fn code<T>(answer: &Result<T, kube::Error>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(anyhow::anyhow!("{error}")),
    }
}

/// Asks for the parent and changes nothing.
async fn dry(steps: &Steps, child: &str, parent: &str) -> Result<u16> {
    let patch = Patch::Merge(json!({ "spec": { "parent": parent } }));
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    code(&steps.hierarchies(child).patch(HIERARCHY, &params, &patch).await)
}

#[tokio::test]
async fn a_dry_run_delays_no_request() -> Result<()> {
    const ROUNDS: usize = 30;
    let steps = roots(&["dry-a", "dry-b"]).await?;
    for round in 0..ROUNDS {
        // Until the webhook has seen the end of the last round, this would make a cycle. It is never held up.
        let answer = eventually("the dry run", PATIENCE, async || {
            match dry(&steps, "dry-a", "dry-b").await.map_err(|error| format!("{error:#}"))? {
                409 => Err("it would make a cycle".to_owned()),
                other => Ok(other),
            }
        });
        ensure!(answer.await? == 200, "round {round}: the dry run");
        // The other way round, at once: with the first one pending this would have to wait.
        let real = steps.set_parent("dry-b", "dry-a").await;
        ensure!(code(&real)? == 200, "round {round}: {real:?}");
        steps.set_parent("dry-b", "").await?;
    }
    println!("{ROUNDS} dry runs, and each time the crossing change was let through at once");
    Ok(())
}

/// Another webhook that cannot be reached and fails closed: it refuses every change of the hierarchies of these namespaces, while
/// ours allows it at the same time.
async fn other_webhook(name: &str, namespaces: &[&str]) -> Result<()> {
    let api = Api::<ValidatingWebhookConfiguration>::all(fixture().await?.product.cluster().admin());
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": name },
        "webhooks": [{
            "name": "refuses.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 5,
            // No program listens there.
            "clientConfig": { "url": "https://127.0.0.1:1/refuse" },
            "matchConditions": [{ "name": "where", "expression": format!("request.namespace in {namespaces:?}") }],
            "rules": [{
                "apiGroups": [hns_api::GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["hierarchyconfigurations"],
            }],
        }],
    }))?;
    api.create(&PostParams::default(), &configuration).await?;
    Ok(())
}

/// A change of `child` that ours allows and the other refuses; then the other is removed. `probe` is a namespace that the other
/// refuses too.
async fn refused_by_another(steps: &Steps, name: &str, [child, parent, probe]: [&str; 3]) -> Result<Instant> {
    other_webhook(name, &[child, probe]).await?;
    eventually("the other webhook is asked", PATIENCE, async || {
        let answer = dry(steps, probe, "").await.map_err(|error| error.to_string())?;
        if answer == 500 { Ok(()) } else { Err(format!("{answer}")) }
    })
    .await?;
    let status = refusal(steps.set_parent(child, parent).await);
    ensure!(status.message.contains("refuses.example.com"), "{}", status.message);
    let refused = Instant::now();
    let api = Api::<ValidatingWebhookConfiguration>::all(steps.client.clone());
    api.delete(name, &DeleteParams::default()).await?;
    eventually("the other webhook is not asked any more", PATIENCE, async || {
        let answer = dry(steps, probe, "").await.map_err(|error| error.to_string())?;
        if answer == 200 { Ok(()) } else { Err(format!("{answer}")) }
    })
    .await?;
    Ok(refused)
}

#[tokio::test]
async fn a_change_that_another_webhook_refused_delays_its_namespaces_for_a_minute() -> Result<()> {
    let steps = roots(&["ref-a", "ref-b", "ref-probe", "ref-x", "ref-y"]).await?;
    let refused = refused_by_another(&steps, "refuses-for-a-minute", ["ref-a", "ref-b", "ref-probe"]).await?;
    let mut held = 0;
    loop {
        // The crossing change and the same one again: neither is allowed while the first may still be stored, and both are told
        // to try again.
        let crossing = dry(&steps, "ref-b", "ref-a").await?;
        // Other namespaces are not delayed.
        ensure!(dry(&steps, "ref-x", "ref-y").await? == 200, "a change that has nothing to do with it");
        match code(&steps.set_parent("ref-a", "ref-b").await)? {
            200 => break,
            503 => held += 1,
            other => anyhow::bail!("answered {other}"),
        }
        ensure!(crossing == 503, "the crossing change is answered {crossing}");
        ensure!(refused.elapsed() < LONGEST + SLACK, "still held up after {:?}", refused.elapsed());
    }
    let took = refused.elapsed();
    ensure!(held > 0, "nothing was pending");
    ensure!(took < LONGEST + SLACK, "held up for {took:?}");
    println!(
        "the honest change was let through {took:.1?} after the refusal, after {held} times \"try again\""
    );
    Ok(())
}

#[tokio::test]
async fn what_another_webhook_refused_is_over_when_the_object_is_seen_in_a_later_state() -> Result<()> {
    let steps = roots(&["seen-a", "seen-b", "seen-probe"]).await?;
    refused_by_another(&steps, "refuses-until-seen", ["seen-a", "seen-b", "seen-probe"]).await?;
    let answer = dry(&steps, "seen-b", "seen-a").await?;
    ensure!(answer == 503, "the crossing change is answered {answer} while the first may still come");
    // Any later state shows that the change is not there and, over the state that it was asked for, cannot come.
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } }));
    steps.hierarchies("seen-a").patch(HIERARCHY, &PatchParams::default(), &touch).await?;
    let touched = Instant::now();
    let real = steps.set_parent("seen-b", "seen-a").await;
    ensure!(code(&real)? == 200, "{real:?}");
    println!("the crossing change was let through {:.1?} after the object was seen again", touched.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_stale_resource_version_changes_nothing_and_delays_no_request() -> Result<()> {
    const ROUNDS: usize = 10;
    let steps = roots(&["old-a", "old-b"]).await?;
    let path = format!("/apis/{}/namespaces/old-a/hierarchyconfigurations/{HIERARCHY}", hns_api::API_VERSION);
    for round in 0..ROUNDS {
        let mut stale: Value = steps.client.request(http::Request::get(&path).body(Vec::new())?).await?;
        let touch = Patch::Merge(
            json!({ "metadata": { "annotations": { "example.com/round": round.to_string() } } }),
        );
        steps.hierarchies("old-a").patch(HIERARCHY, &PatchParams::default(), &touch).await?;
        stale["spec"]["parent"] = json!("old-b");
        let put = http::Request::put(&path).header("content-type", "application/json");
        let answer = steps.client.request::<Value>(put.body(serde_json::to_vec(&stale)?)?).await;
        let status = refusal(answer);
        ensure!((status.code, status.reason.as_str()) == (409, "Conflict"), "{status:?}");
        let real = steps.set_parent("old-b", "old-a").await;
        ensure!(code(&real)? == 200, "round {round}: {real:?}");
        steps.set_parent("old-b", "").await?;
    }
    let hierarchy = steps.hierarchies("old-a").get(HIERARCHY).await.context("the object")?;
    ensure!(hierarchy.spec.parent.unwrap_or_default().is_empty(), "a stale request was carried out");
    println!("{ROUNDS} stale requests, and each time the crossing change was let through at once");
    Ok(())
}
