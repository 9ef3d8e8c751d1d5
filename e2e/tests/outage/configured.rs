//! A configured kind that may no longer be listed, or whose definition is deleted, affects no other kind: it is reported, its
//! objects stay, and it recovers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::product::{CONTROLLER_USER, WEBHOOK_USER};
use hns_e2e::{AuditEvent, Mark, Proxy, Replica, Steps, stays};
use serde_json::{Value, json};

use super::fixture::{Both, SECONDS, Turn, turn};
use super::objects::{
    CONFIG_MAP, Kind, SECRET, api, becomes, change, configure, create, delete, is, says, says_no_more,
};

const WIDGET: Kind = ("outage.example.com", "widgets", "Widget");
const DEFINITION: &str = "widgets.outage.example.com";
const GRANTED: &str = "outage-granted";

#[tokio::test]
async fn a_configured_kind_that_may_no_longer_be_listed_suffers_alone_and_catches_up() -> Result<()> {
    let turn = turn().await;
    let any_kind = AnyKind::withdraw(&turn).await?;
    grant(&turn, &[SECRET, CONFIG_MAP]).await?;
    let both = turn.start().await?;
    let steps = &turn.steps;
    configure(steps, &[SECRET, CONFIG_MAP]).await?;
    steps
        .plant(&[
            ("configured-root", ""),
            ("configured-leaf", "configured-root"),
            ("configured-stray", "configured-root"),
        ])
        .await?;
    create(steps, SECRET, "configured-root", "token", "old").await?;
    for namespace in ["configured-leaf", "configured-stray"] {
        becomes(steps, SECRET, (namespace, "token"), Some("old")).await?;
    }
    both.shows(true, "[+]secrets ok").await?;
    says_no_more(steps, &["OutOfSync"]).await?;
    let failures = watch_failures(&both.controller, "secrets").await?;

    grant(&turn, &[CONFIG_MAP]).await?;
    // An open watch was authorized when it began.
    both.proxies.iter().for_each(Proxy::cut);
    for line in both.shows(true, "[-]secrets degraded: ").await? {
        println!("{line}");
    }
    println!("{}", says(steps, ("OutOfSync", "MissingRights"), &["secrets", "list"]).await?);
    ensure!(watch_failures(&both.controller, "secrets").await? > failures, "failures are counted");
    let mark = turn.cluster().audit().mark()?;
    change(steps, SECRET, "configured-root", "token", "new").await?;
    steps.set_parent("configured-stray", "").await?;
    steps.labelled(&["configured-stray"]).await?;
    everything_else_goes_on(steps, "configured").await?;
    stays("copies stay as they are", Duration::from_secs(3), async || {
        is(steps, SECRET, ("configured-leaf", "token"), Some("old")).await?;
        is(steps, SECRET, ("configured-stray", "token"), Some("old")).await
    })
    .await?;
    ensure!(written(&turn, mark, "secrets")?.is_empty(), "{:?}", written(&turn, mark, "secrets")?);

    grant(&turn, &[SECRET, CONFIG_MAP]).await?;
    let back = Instant::now();
    becomes(steps, SECRET, ("configured-leaf", "token"), Some("new")).await?;
    becomes(steps, SECRET, ("configured-stray", "token"), None).await?;
    let took = back.elapsed();
    ensure!(took < SECONDS, "it took {took:?} to catch up");
    both.shows(true, "[+]secrets ok").await?;
    says_no_more(steps, &["OutOfSync"]).await?;
    println!("with the right back, secrets had caught up after {took:.1?}");
    let deleted = deleted(&turn, mark, "secrets")?;
    ensure!(deleted.len() == 1 && deleted[0].namespace == "configured-stray", "{deleted:?}");
    end(&both, steps, "configured").await?;
    any_kind.give_back().await
}

#[tokio::test]
async fn a_definition_that_goes_and_comes_again_takes_nothing_else_along() -> Result<()> {
    let turn = turn().await;
    let both = turn.start().await?;
    let steps = &turn.steps;
    define(&turn).await?;
    configure(steps, &[WIDGET, CONFIG_MAP]).await?;
    steps.plant(&[("v-root", ""), ("v-leaf", "v-root")]).await?;
    create(steps, CONFIG_MAP, "v-root", "before", "old").await?;
    create(steps, WIDGET, "v-root", "wheel", "round").await?;
    becomes(steps, WIDGET, ("v-leaf", "wheel"), Some("round")).await?;
    becomes(steps, CONFIG_MAP, ("v-leaf", "before"), Some("old")).await?;
    both.shows(true, &format!("[+]{DEFINITION} ok")).await?;
    ensure!(is_watched(&both.controller).await?);

    for round in 1..=2 {
        let mark = turn.cluster().audit().mark()?;
        turn.cluster().kubectl().args(["delete", "customresourcedefinition", DEFINITION]).ok().await?;
        println!("{}", says(steps, ("BadConfiguration", "ResourceNotFound"), &["widgets"]).await?);
        for replica in both.replicas() {
            hns_e2e::eventually("no watch of the missing kind", SECONDS, async || {
                let watched = is_watched(replica).await.map_err(|error| format!("{error:#}"))?;
                let (ready, text) = replica.readiness().await.map_err(|error| format!("{error:#}"))?;
                if ready && !watched && !text.contains("[-]widgets") { Ok(()) } else { Err(text) }
            })
            .await?;
        }
        let value = format!("round {round}");
        change(steps, CONFIG_MAP, "v-root", "before", &value).await?;
        becomes(steps, CONFIG_MAP, ("v-leaf", "before"), Some(&value)).await?;
        everything_else_goes_on(steps, "v").await?;

        define(&turn).await?;
        let defined = Instant::now();
        create(steps, WIDGET, "v-root", "wheel", &value).await?;
        becomes(steps, WIDGET, ("v-leaf", "wheel"), Some(&value)).await?;
        let took = defined.elapsed();
        ensure!(took < SECONDS, "it took {took:?}");
        says_no_more(steps, &["BadConfiguration", "OutOfSync"]).await?;
        println!("a widget of the new definition had arrived {took:.1?} after that was established");
        let gone = deleted(&turn, mark, "widgets")?;
        ensure!(gone.is_empty(), "the controller deleted {gone:?}");
    }
    delete(steps, WIDGET, "v-root", "wheel").await?;
    becomes(steps, WIDGET, ("v-leaf", "wheel"), None).await?;
    end(&both, steps, "v").await
}

/// Other kinds are propagated, changed and taken away, and labels written; as often as it is asked.
async fn everything_else_goes_on(steps: &Steps, prefix: &str) -> Result<()> {
    let [root, leaf] = ["root", "leaf"].map(|name| format!("{prefix}-{name}"));
    create(steps, CONFIG_MAP, &root, "meanwhile", "here").await?;
    becomes(steps, CONFIG_MAP, (&leaf, "meanwhile"), Some("here")).await?;
    steps.create_binding(&root, "meanwhile", ("ClusterRole", "view"), "alice").await?;
    steps.binding_arrives(&[&leaf], "meanwhile", &root, "alice").await?;
    delete(steps, CONFIG_MAP, &root, "meanwhile").await?;
    becomes(steps, CONFIG_MAP, (&leaf, "meanwhile"), None).await?;
    steps.bindings(&root).delete("meanwhile", &kube::api::DeleteParams::default()).await?;
    steps.binding_leaves(&[&leaf], "meanwhile").await?;
    steps.labelled(&[&leaf, &root]).await
}

async fn end(both: &Both, steps: &Steps, prefix: &str) -> Result<()> {
    both.unharmed()?;
    let secrets = api(steps, SECRET, &format!("{prefix}-root"));
    secrets.delete_collection(&kube::api::DeleteParams::default(), &kube::api::ListParams::default()).await?;
    configure(steps, &[]).await
}

/// Successful writes and refused ones to objects of this kind, by the controller.
fn written(turn: &Turn, mark: Mark, resource: &str) -> Result<Vec<AuditEvent>> {
    let mut events = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    events.retain(|event| event.resource == resource);
    Ok(events)
}

fn deleted(turn: &Turn, mark: Mark, resource: &str) -> Result<Vec<AuditEvent>> {
    let mut events = written(turn, mark, resource)?;
    events.retain(|event| event.verb.starts_with("delete") && event.succeeded());
    Ok(events)
}

async fn watch_failures(replica: &Replica, resource: &str) -> Result<u64> {
    let begins = format!("hns_watch_failures_total{{resource=\"{resource}\"}} ");
    let text = replica.metrics().await?;
    let line = text.lines().find_map(|line| line.strip_prefix(&begins));
    line.map_or(Ok(0), |count| count.parse().context("a count"))
}

async fn is_watched(replica: &Replica) -> Result<bool> {
    Ok(replica.metrics().await?.contains(&format!("hns_watches{{resource=\"{DEFINITION}\"}} 1")))
}

async fn define(turn: &Turn) -> Result<()> {
    let (group, plural, kind) = WIDGET;
    let value = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": DEFINITION },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": "widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": value } } },
            }],
        },
    });
    apply(turn, &definition).await?;
    turn.cluster().kubectl().established(["customresourcedefinition", DEFINITION]).await.map(drop)
}

async fn apply(turn: &Turn, manifest: &Value) -> Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    turn.cluster().kubectl().args(apply).stdin(manifest.to_string()).ok().await.map(drop)
}

/// Both accounts may do what they have to with objects of exactly these kinds, of those that need to be granted.
async fn grant(turn: &Turn, kinds: &[Kind]) -> Result<()> {
    let rule = |(group, resource, _): &Kind| {
        json!({ "apiGroups": [group], "resources": [resource],
                "verbs": ["get", "list", "watch", "create", "update", "delete"] })
    };
    let rules: Vec<Value> = kinds.iter().map(rule).collect();
    let subjects = [WEBHOOK_USER, CONTROLLER_USER]
        .map(|user| json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user }));
    let metadata = json!({ "name": GRANTED });
    let role_ref = json!({ "kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": GRANTED });
    let version = "rbac.authorization.k8s.io/v1";
    apply(
        turn,
        &json!({ "apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules }),
    )
    .await?;
    apply(
        turn,
        &json!({ "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
                 "roleRef": role_ref, "subjects": subjects }),
    )
    .await
}

/// The right to handle any kind, removed from both accounts. A test that fails leaves it so.
struct AnyKind<'t> {
    turn: &'t Turn,
    bindings: Vec<Value>,
}

impl<'t> AnyKind<'t> {
    async fn withdraw(turn: &'t Turn) -> Result<Self> {
        let mut bindings = Vec::new();
        for name in ["hns-webhook-propagation", "hns-controller-propagation"] {
            let kubectl = || turn.cluster().kubectl();
            let text = kubectl().args(["get", "clusterrolebinding", name, "-o", "json"]).ok().await?;
            let mut binding: Value = serde_json::from_str(&text)?;
            let metadata = binding["metadata"].as_object_mut().context("metadata")?;
            metadata.retain(|key, _| key == "name" || key == "labels");
            bindings.push(binding);
            kubectl().args(["delete", "clusterrolebinding", name]).ok().await?;
        }
        Ok(Self { turn, bindings })
    }

    async fn give_back(self) -> Result<()> {
        for binding in &self.bindings {
            apply(self.turn, binding).await?;
        }
        Ok(())
    }
}
