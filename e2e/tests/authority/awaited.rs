//! The name of a missing parent, attacked by users who may create namespaces: while no webhook answers, and at the moment in which
//! the parent goes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Signal, Steps, eventually, refusal};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::fixture;
use super::request::{APPLY, Request, configuration, hierarchies, namespace};

const ENTRY: &str = "awaited-namespaces.hnc.x-k8s.io";

/// So many parents are deleted at once while a user tries to create each name.
const PARENTS: usize = 20;

fn create(user: &Client, name: &str) -> Request {
    // With this label not even the mutating webhook has anything to say.
    let labels = json!({ hns_api::labels::INCLUDED_NAMESPACE: "true" });
    Request::post(user, "/api/v1/namespaces", json!({ "metadata": { "name": name, "labels": labels } }))
}

/// A namespace of which the API server makes a review of more than 8 MiB: it writes each `<` as six characters.
fn huge(user: &Client, name: &str) -> Request {
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "uid": "1", "name": "<".repeat(1_450_000) });
    let metadata = json!({ "name": name, "ownerReferences": [owner] });
    Request::post(user, "/api/v1/namespaces", json!({ "metadata": metadata })).dry()
}

/// The API server refuses the name, says this, and creates every other name at once.
async fn is_closed(user: &Client, state: &str, says: &str) -> Result<()> {
    let status = refusal(create(user, "aw-gone").send().await);
    println!("{state}: {} {}", status.code, status.message);
    ensure!(status.message.contains(ENTRY) && status.message.contains(says), "{state}: {status:?}");
    let (began, other) = (Instant::now(), format!("aw-{state}"));
    create(user, &other).send().await?;
    let took = began.elapsed();
    println!("{state}: another name after {took:.1?}");
    ensure!(took < Duration::from_secs(1), "{state}: another name took {took:?}");
    Ok(())
}

/// A server-side apply may name a version of an object that does not exist yet: the API server creates it all the same. One of the
/// two requests must know of the other, also when they are judged at the same moment.
#[tokio::test]
async fn an_applied_anchor_takes_no_namespace_that_names_it_at_the_same_moment() -> Result<()> {
    const ROUNDS: usize = 12;
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("ap-evil", "")]).await?;
    let thief = scene.local_admin("ap-thief", &["ap-evil"]).await?;
    scene.steps.create_role("ap-evil", "anchors", (&["*"], hns_api::GROUP, "subnamespaceanchors")).await?;
    scene.steps.create_binding("ap-evil", "anchors", ("Role", "anchors"), "ap-thief").await?;
    scene.may("ap-thief", (hns_api::GROUP, "subnamespaceanchors"), "ap-evil").await?;
    let owner = scene.user("ap-owner");
    scene.give_namespaces("ap-owner").await?;
    let role = ["create", "clusterrole", "ap-applies", "--verb=create"];
    let resource = format!("--resource=hierarchyconfigurations.{}", hns_api::GROUP);
    scene.cluster().kubectl().args(role).args([&*resource]).ok().await?;
    let binding =
        ["create", "clusterrolebinding", "ap-applies", "--clusterrole=ap-applies", "--user=ap-owner"];
    scene.cluster().kubectl().args(binding).ok().await?;
    let mut codes = std::collections::BTreeMap::<(u16, u16), usize>::new();
    for round in 0..ROUNDS {
        let (victim, missing) = (format!("ap-victim-{round}"), format!("ap-missing-{round}"));
        scene.steps.create_namespace(&victim).await?;
        scene.local_admin("ap-owner", &[&victim]).await?;
        let path = format!("/apis/{}/namespaces/ap-evil/subnamespaceanchors/{missing}", hns_api::API_VERSION);
        let anchor = json!({
            "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor",
            "metadata": { "name": missing, "resourceVersion": "1" },
        });
        let parent = configuration(&json!({ "parent": missing }));
        let (named, applied) = tokio::join!(
            Request::post(&owner, &hierarchies(&victim), parent).send(),
            Request::patch(&thief, &path, APPLY, anchor).send(),
        );
        let code = |answer: &Result<Value, kube::Error>| match answer {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(_) => 0,
        };
        *codes.entry((code(&named), code(&applied))).or_default() += 1;
        ensure!(named.is_err() || applied.is_err(), "round {round}: both were allowed");
    }
    println!("the codes of both, and how often: {codes:?}");
    ensure!(codes.keys().any(|(named, applied)| *named == 200 || *applied == 200), "none was allowed");
    Ok(())
}

#[tokio::test]
async fn the_name_of_a_missing_parent_stays_closed_while_no_webhook_answers() -> Result<()> {
    let mut scene = fixture::alone().await?;
    let steps = &scene.steps;
    steps.plant(&[("aw-gone", ""), ("aw-child", "aw-gone")]).await?;
    steps.labelled(&["aw-child", "aw-gone"]).await?;
    let thief = scene.user("aw-thief");
    scene.give_namespaces("aw-thief").await?;
    let owner = scene.local_admin("aw-owner", &["aw-child"]).await?;
    scene.give_namespaces("aw-owner").await?;
    steps.delete_namespace("aw-gone").await?;

    is_closed(&thief, "alive", "you are not admin of").await?;
    create(&owner, "aw-gone").dry().send().await?;
    let status = refusal(huge(&thief, "aw-gone").send().await);
    println!("too large: {} {}", status.code, status.message);
    ensure!(status.message.contains(&format!("failed calling webhook {ENTRY:?}")), "{status:?}");
    huge(&thief, "aw-large").send().await?;

    scene.webhook.process().signal(Signal::STOP)?;
    is_closed(&thief, "hanging", "failed calling webhook").await?;
    scene.webhook.process().signal(Signal::CONT)?;
    scene.webhook.kill().await?;
    is_closed(&thief, "dead", "failed calling webhook").await?;
    scene.webhook.restart().await?;

    create(&owner, "aw-gone").send().await?;
    let validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/\
                      hnc-validating-webhook-configuration";
    eventually("the name is not awaited any more", PATIENCE, async || {
        let found =
            Request::get(&scene.admin(), validating).send().await.map_err(|error| error.to_string())?;
        if found.to_string().contains("'aw-gone'") { Err("it is".to_owned()) } else { Ok(()) }
    })
    .await
}

/// What one parent saw, since its deletion.
struct Seen {
    /// The first refusal by the entry.
    closed: Duration,
    /// The first time it was not there.
    gone: Duration,
    attempts: usize,
}

/// Never is the name free, also while it is deleted and for a while afterwards.
#[tokio::test]
async fn nobody_takes_a_name_at_the_moment_in_which_the_parent_goes() -> Result<()> {
    let scene = fixture::scene().await?;
    let (admin, thief) = (scene.admin(), scene.user("mo-thief"));
    scene.give_namespaces("mo-thief").await?;
    let pairs: Vec<(String, String)> =
        (0..PARENTS).map(|number| (format!("mo-parent-{number}"), format!("mo-child-{number}"))).collect();
    for (parent, child) in &pairs {
        scene.steps.plant(&[(parent, ""), (child, parent)]).await?;
    }
    for (parent, child) in &pairs {
        scene.steps.labelled(&[child, parent]).await?;
    }
    let rounds = pairs.iter().map(async |(parent, _)| {
        let began = Instant::now();
        scene.steps.namespaces().delete(parent, &DeleteParams::default()).await?;
        let (seen, gone) = tokio::join!(besiege(&thief, parent, began), until_gone(&admin, parent, began));
        let (closed, attempts) = seen?;
        anyhow::Ok(Seen { closed: closed.context("no attempt met the entry")?, gone: gone?, attempts })
    });
    let mut rounds = try_join_all(rounds).await?;
    let attempts: usize = rounds.iter().map(|seen| seen.attempts).sum();
    rounds.sort_by_key(|seen| seen.closed);
    let slowest = rounds.last().context("there are rounds")?.closed;
    let soonest = rounds.iter().map(|seen| seen.gone).min().context("there are rounds")?;
    println!(
        "{PARENTS} parents, {attempts} attempts, no success; refused by the entry after {:.1?} (median) to {slowest:.1?}; gone after \
         {soonest:.1?} at the soonest",
        rounds[PARENTS / 2].closed
    );
    Ok(())
}

async fn until_gone(admin: &Client, name: &str, began: Instant) -> Result<Duration> {
    eventually(&format!("{name} goes"), Duration::from_secs(120), async || {
        match Request::get(admin, &namespace(name)).send().await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(began.elapsed()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Tries to create the name again and again, until a second after it is gone.
async fn besiege(user: &Client, name: &str, began: Instant) -> Result<(Option<Duration>, usize)> {
    let (mut closed, mut gone, mut attempts) = (None, None, 0);
    while gone.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(1)) {
        let status = match create(user, name).send().await {
            Err(kube::Error::Api(status)) => status,
            other => anyhow::bail!("{name} was created after {:?}: {other:?}", began.elapsed()),
        };
        attempts += 1;
        if status.message.contains(ENTRY) {
            closed.get_or_insert(began.elapsed());
        }
        if gone.is_none() && status.message.contains("is the missing parent") && absent(user, name).await? {
            gone = Some(Instant::now());
        }
    }
    Ok((closed, attempts))
}

async fn absent(user: &Client, name: &str) -> Result<bool> {
    match Request::get(user, &namespace(name)).send().await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A user who is admin of one root gets no namespace of somebody else by an anchor whose namespace does not exist yet: neither while
/// the controller cannot create it, nor if the anchor is created at the moment in which the other user names the missing parent.
#[tokio::test]
async fn an_anchor_takes_no_namespace_that_names_it_as_its_missing_parent() -> Result<()> {
    const ROUNDS: usize = 40;
    let scene = fixture::alone().await?;
    scene.steps.plant(&[("an-root", ""), ("an-child", "")]).await?;
    scene.steps.make_admin("an-root", "an-eve").await?;
    scene.give_namespaces("an-gus").await?;
    // Not `update`, which would make gus an admin of every namespace.
    let resource = "--resource=hierarchyconfigurations.hnc.x-k8s.io";
    for command in [
        &["create", "clusterrole", "an-hierarchies", "--verb=get,create,patch", resource][..],
        &["create", "clusterrolebinding", "an-gus", "--clusterrole=an-hierarchies", "--user=an-gus"],
    ] {
        scene.cluster().kubectl().args(command).ok().await?;
    }
    let (eve, gus) = (Steps::of(scene.user("an-eve")), Steps::of(scene.user("an-gus")));
    scene.local_admin("an-gus", &["an-child"]).await?;
    let controller = scene.controller().process();
    controller.signal(Signal::STOP)?;
    eve.create_anchor("an-root", "an-frozen").await?;
    let refused = eventually("the webhook knows the anchor", PATIENCE, async || {
        let status = refusal(gus.set_parent("an-child", "an-frozen").await);
        // Until the authorizer knows that gus may create hierarchies, it is refused for another reason.
        let is_it = status.code == 403 && status.message.contains("only an admin of \"an-root\"");
        if is_it { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    controller.signal(Signal::CONT)?;
    refused?;

    let mut counts = std::collections::BTreeMap::<(u16, u16), usize>::new();
    for round in 0..ROUNDS {
        let (parent, child) = (format!("an-parent-{round}"), format!("an-child-{round}"));
        gus.create_namespace(&child).await?;
        scene.local_admin("an-gus", &[&child]).await?;
        let (anchor, waits) =
            tokio::join!(eve.create_anchor("an-root", &parent), gus.set_parent(&child, &parent));
        *counts.entry((code(anchor)?, code(waits)?)).or_default() += 1;
    }
    println!("{ROUNDS} races of an anchor and a namespace that waits for its name: {counts:?}");
    ensure!(!counts.contains_key(&(200, 200)), "both were allowed: {counts:?}");
    Ok(())
}

fn code<T>(answer: Result<T, kube::Error>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error.into()),
    }
}
