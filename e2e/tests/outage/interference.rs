//! Other clients affect what is written: a policy that changes every object, and one that refuses a copy. The controller neither
//! loops nor gives up.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Mark, Steps, eventually, stays};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::fixture::{Turn, turn};
use super::objects::{CONFIG_MAP, SECRET, api, becomes, change, configure, create, delete};

/// Long enough to see a fight: one that is not paced makes hundreds of writes in it.
const WINDOW: Duration = Duration::from_secs(4);

#[tokio::test]
async fn whoever_changes_every_object_on_its_way_in_is_not_fought() -> Result<()> {
    let turn = turn().await;
    let steps = &turn.steps;
    // One label that is always the same, and one that is another after every write.
    Mutation::install(&turn).await?;
    let mut both = turn.start().await?;
    configure(steps, &[CONFIG_MAP]).await?;
    steps.plant(&[("w-root", ""), ("w-leaf", "w-root"), ("w-below", "w-leaf")]).await?;
    let places = [("w-leaf", "much"), ("w-below", "much")];
    let mutated = async |namespace: &str| {
        let found = api(steps, CONFIG_MAP, namespace).get("much").await.map_err(|error| error.to_string())?;
        let labels = found.metadata.labels.unwrap_or_default();
        let both = ["injected", "after"].iter().all(|key| labels.contains_key(*key));
        if both { Ok(()) } else { Err(format!("{labels:?}")) }
    };

    let mark = turn.cluster().audit().mark()?;
    create(steps, CONFIG_MAP, "w-root", "much", "one").await?;
    settled(&turn, mark, &places, "one", 3).await?;
    for (namespace, _) in places {
        mutated(namespace).await.map_err(anyhow::Error::msg).context("the policy is in force")?;
    }
    for value in ["two", "three"] {
        let mark = turn.cluster().audit().mark()?;
        change(steps, CONFIG_MAP, "w-root", "much", value).await?;
        settled(&turn, mark, &places, value, 3).await?;
    }

    // A new controller does not know what the old one has accepted.
    let mark = turn.cluster().audit().mark()?;
    both.controller.restart().await?;
    settled(&turn, mark, &places, "three", 2).await?;

    Mutation::uninstall(&turn).await?;
    change(steps, CONFIG_MAP, "w-root", "much", "four").await?;
    for place in places {
        becomes(steps, CONFIG_MAP, place, Some("four")).await?;
    }
    delete(steps, CONFIG_MAP, "w-root", "much").await?;
    for place in places {
        becomes(steps, CONFIG_MAP, place, None).await?;
    }
    both.unharmed()?;
    configure(steps, &[]).await
}

/// The copies get this value, with so many writes each at most, and then no more.
async fn settled(turn: &Turn, mark: Mark, places: &[(&str, &str)], value: &str, most: usize) -> Result<()> {
    for place in places {
        becomes(&turn.steps, CONFIG_MAP, *place, Some(value)).await?;
    }
    stays("few writes are enough", WINDOW, async || {
        let writes = writes(turn, mark, "configmaps").map_err(|error| format!("{error:#}"))?;
        let mut by_copy = BTreeMap::<_, usize>::new();
        for write in &writes {
            *by_copy.entry((&write.namespace, &write.name)).or_default() += 1;
        }
        if by_copy.values().all(|count| *count <= most) { Ok(()) } else { Err(format!("{by_copy:?}")) }
    })
    .await?;
    let count = writes(turn, mark, "configmaps")?.len();
    println!("value {value:?}: {count} writes for {} copies", places.len());
    Ok(())
}

#[tokio::test]
async fn a_copy_that_a_policy_refuses_is_said_tried_again_ever_more_slowly_and_nobody_elses_trouble()
-> Result<()> {
    let turn = turn().await;
    let steps = &turn.steps;
    let both = turn.start().await?;
    configure(steps, &[SECRET, CONFIG_MAP]).await?;
    steps.plant(&[("y-root", ""), ("y-bad", "y-root"), ("y-good", "y-root"), ("y-below", "y-bad")]).await?;
    steps.labelled(&["y-below", "y-bad", "y-root"]).await?;
    refuse(&turn).await?;

    let mark = turn.cluster().audit().mark()?;
    create(steps, SECRET, "y-root", "unwanted", "one").await?;
    create(steps, SECRET, "y-root", "harmless", "one").await?;
    for place in
        [("y-good", "unwanted"), ("y-below", "unwanted"), ("y-good", "harmless"), ("y-bad", "harmless")]
    {
        becomes(steps, SECRET, place, Some("one")).await?;
    }
    let messages = steps.reasons("y-bad", &["CannotPropagateObject"]).await?;
    for word in ["unwanted", "secrets", "not with us"] {
        ensure!(messages[0].contains(word), "{word:?} is not in {messages:?}");
    }
    println!("{}", messages[0]);
    steps.reasons("y-good", &[]).await?;
    for (namespace, reason) in [("y-root", "CannotPropagateObject"), ("y-bad", "CannotUpdateObject")] {
        event(steps, namespace, reason, "unwanted").await?;
    }

    // While others are served, it is tried again after 1, 2, 4, … seconds.
    for round in 0..8 {
        let value = format!("round {round}");
        change(steps, SECRET, "y-root", "harmless", &value).await?;
        for namespace in ["y-bad", "y-good", "y-below"] {
            becomes(steps, SECRET, (namespace, "harmless"), Some(&value)).await?;
        }
        create(steps, CONFIG_MAP, "y-root", &format!("other-{round}"), "here").await?;
        becomes(steps, CONFIG_MAP, ("y-bad", &format!("other-{round}")), Some("here")).await?;
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    let tries = tries(&turn, mark)?;
    let pauses: Vec<Duration> = tries
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]))
        .filter_map(|pause| Duration::try_from(pause).ok())
        .collect();
    println!("tried {} times, with pauses of {pauses:.1?}", tries.len());
    ensure!((3..=8).contains(&tries.len()), "{pauses:?}");
    let grows = pauses.windows(2).all(|pair| pair[1] > pair[0]);
    ensure!(grows, "the pauses should grow: {pauses:?}");
    let said = events(steps, "y-bad").await?.len() + events(steps, "y-root").await?.len();
    ensure!(said <= 4, "{said} events: one on each change is enough, not on each try");

    let delete = ["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "y-refusal"];
    turn.cluster().kubectl().args(delete).ok().await?;
    eventually("the copy arrives in the end", Duration::from_secs(60), async || {
        super::objects::is(steps, SECRET, ("y-bad", "unwanted"), Some("one")).await
    })
    .await?;
    steps.reasons("y-bad", &[]).await?;
    both.unharmed()?;
    for name in ["unwanted", "harmless"] {
        super::objects::delete(steps, SECRET, "y-root", name).await?;
        becomes(steps, SECRET, ("y-bad", name), None).await?;
    }
    configure(steps, &[]).await
}

/// When the refused copy was tried, dry runs left out.
fn tries(turn: &Turn, mark: Mark) -> Result<Vec<Timestamp>> {
    let tries = writes(turn, mark, "secrets")?.into_iter();
    let refused = tries.filter(|write| write.namespace == "y-bad" && !write.succeeded());
    refused.map(|write| write.timestamp.parse().context("a time in the audit log")).collect()
}

fn writes(turn: &Turn, mark: Mark, resource: &str) -> Result<Vec<AuditEvent>> {
    let mut events = turn.cluster().audit().mutating_by(CONTROLLER_USER, mark)?;
    events.retain(|event| event.resource == resource);
    Ok(events)
}

async fn events(steps: &Steps, namespace: &str) -> Result<Vec<Event>, kube::Error> {
    let api: Api<Event> = Api::namespaced(steps.client.clone(), namespace);
    let all = api.list(&ListParams::default()).await?;
    let ours = |event: &Event| {
        let component = event.source.as_ref().and_then(|source| source.component.as_deref());
        component == Some("hnc.x-k8s.io")
    };
    Ok(all.into_iter().filter(ours).collect())
}

async fn event(steps: &Steps, namespace: &str, reason: &str, name: &str) -> Result<()> {
    eventually(&format!("an event {reason} about {name} in {namespace}"), PATIENCE, async || {
        let all = events(steps, namespace).await.map_err(|error| error.to_string())?;
        let found = all.iter().any(|event| {
            event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(name)
        });
        if found { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await
}

/// Every user is refused this Secret in this namespace, also in a dry run.
async fn refuse(turn: &Turn) -> Result<()> {
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"] });
    let policy = json!({
        "matchConstraints": { "resourceRules": [rule] },
        "validations": [{
            "expression": "object.metadata.namespace != 'y-bad' || object.metadata.name != 'unwanted'",
            "message": "not with us",
        }],
    });
    let binding = json!({ "policyName": "y-refusal", "validationActions": ["Deny"] });
    install(turn, "y-refusal", ("ValidatingAdmissionPolicy", policy), binding).await?;
    in_force("the policy", async || {
        let probe = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "unwanted" } });
        let create = ["create", "-n", "y-bad", "--dry-run=server", "-f", "-"];
        let output = turn.cluster().kubectl().args(create).stdin(probe.to_string()).run().await;
        output.is_ok_and(|output| output.stderr.contains("not with us"))
    })
    .await
}

struct Mutation;

impl Mutation {
    async fn install(turn: &Turn) -> Result<()> {
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
        });
        let after = "oldObject == null ? 'nothing' : 'v' + oldObject.metadata.resourceVersion";
        let labels =
            format!("Object{{metadata: Object.metadata{{labels: {{'injected': 'yes', 'after': {after}}}}}}}");
        let policy = json!({
            "matchConstraints": { "resourceRules": [rule] },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": labels } }],
        });
        install(
            turn,
            "w-mutation",
            ("MutatingAdmissionPolicy", policy),
            json!({ "policyName": "w-mutation" }),
        )
        .await?;
        let steps = &turn.steps;
        in_force("the policy", async || {
            let probe = json!({ "metadata": { "annotations": { "probe": "yes" } } });
            let api = api(steps, CONFIG_MAP, "default");
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            let changed = api.patch("kube-root-ca.crt", &params, &Patch::Merge(probe)).await;
            changed.is_ok_and(|it| it.metadata.labels.is_some_and(|labels| labels.contains_key("injected")))
        })
        .await
    }

    async fn uninstall(turn: &Turn) -> Result<()> {
        let delete = ["delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", "w-mutation"];
        turn.cluster().kubectl().args(delete).ok().await.map(drop)
    }
}

async fn install(turn: &Turn, name: &str, (kind, policy): (&str, Value), binding: Value) -> Result<()> {
    let object = |kind: String, spec: Value| json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let items = [object(kind.to_owned(), policy), object(format!("{kind}Binding"), binding)];
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let apply = ["apply", "--server-side", "-f", "-"];
    turn.cluster().kubectl().args(apply).stdin(list.to_string()).ok().await.map(drop)
}

async fn in_force(what: &str, ask: impl AsyncFn() -> bool) -> Result<()> {
    eventually(&format!("{what} is in force"), PATIENCE, async || {
        if ask().await { Ok(()) } else { Err("not yet".into()) }
    })
    .await
}
