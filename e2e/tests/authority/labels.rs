//! Tree labels: only the controller adds, changes or removes one, on any namespace, by any kind of request.
//!
//! Each kind of request is tested with another label first, by the same user on the same namespace.

use anyhow::Result;
use hns_e2e::product::CONTROLLER_USER;
use kube::Client;
use serde_json::{Map, Value, json};

use super::fixture::{self, EXCLUDED, Scene};
use super::request::{APPLY, MERGE, Request, STEPS, STRATEGIC, namespace};
use super::verdict::{Of, denied};

const FORGED: &str = "evil.tree.hnc.x-k8s.io/depth";
const ORDINARY: &str = "example.com/team";

/// The requests that can change the labels of an existing namespace.
const DOORS: [Door; 10] = [
    Door("merge", merge),
    Door("strategic merge", |client, stored, labels| patch(client, stored, labels, STRATEGIC, "")),
    Door("step by step", step),
    Door("replace", |client, stored, labels| replace(client, stored, labels, "")),
    Door("merge the status", |client, stored, labels| patch(client, stored, labels, MERGE, "/status")),
    Door("strategic merge of the status", |client, stored, labels| {
        patch(client, stored, labels, STRATEGIC, "/status")
    }),
    Door("replace the status", |client, stored, labels| replace(client, stored, labels, "/status")),
    Door("finalize", |client, stored, labels| replace(client, stored, labels, "/finalize")),
    Door("apply", |client, stored, labels| apply(client, stored, labels, "")),
    Door("apply the status", |client, stored, labels| apply(client, stored, labels, "/status")),
];

/// A change of a label: a value, or `None` to remove the label.
type Change<'a> = (&'a str, Option<&'a str>);

type Open = fn(&Client, &Value, Change<'_>) -> Request;

struct Door(&'static str, Open);

fn name(stored: &Value) -> &str {
    stored["metadata"]["name"].as_str().unwrap_or_default()
}

fn merge(client: &Client, stored: &Value, change: Change<'_>) -> Request {
    patch(client, stored, change, MERGE, "")
}

fn patch(
    client: &Client,
    stored: &Value,
    (key, value): Change<'_>,
    form: &'static str,
    part: &str,
) -> Request {
    let body = json!({ "metadata": { "labels": { key: value } } });
    Request::patch(client, &(namespace(name(stored)) + part), form, body)
}

fn step(client: &Client, stored: &Value, (key, value): Change<'_>) -> Request {
    let path = format!("/metadata/labels/{}", key.replace('/', "~1"));
    let step = match value {
        Some(value) => json!({ "op": "add", "path": path, "value": value }),
        None => json!({ "op": "remove", "path": path }),
    };
    Request::patch(client, &namespace(name(stored)), STEPS, json!([step]))
}

fn changed(stored: &Value, (key, value): Change<'_>) -> Value {
    let mut whole = stored.clone();
    let labels =
        whole["metadata"]["labels"].as_object_mut().expect("every namespace bears its own name as a label");
    match value {
        Some(value) => drop(labels.insert(key.into(), value.into())),
        None => drop(labels.remove(key)),
    }
    whole
}

fn replace(client: &Client, stored: &Value, change: Change<'_>, part: &str) -> Request {
    Request::put(client, &(namespace(name(stored)) + part), changed(stored, change))
}

fn apply(client: &Client, stored: &Value, (key, value): Change<'_>, part: &str) -> Request {
    let labels = value.map(|value| Map::from_iter([(key.to_owned(), value.into())])).unwrap_or_default();
    let metadata = json!({ "name": name(stored), "labels": labels });
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    Request::patch(client, &(namespace(name(stored)) + part), APPLY, body)
}

#[tokio::test]
async fn no_door_lets_a_tree_label_in_or_out() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("f-root", ""), ("f-leaf", "f-root")]).await?;
    scene.steps.labelled(&["f-leaf", "f-root"]).await?;
    let intruder = "system:serviceaccount:hnc-system:intruder";
    scene.give_namespaces(intruder).await?;
    let groups = ["system:serviceaccounts", "system:serviceaccounts:hnc-system"];
    let intruder = scene.user_of(intruder, &groups);

    let above = "f-root.tree.hnc.x-k8s.io/depth";
    let own = "f-leaf.tree.hnc.x-k8s.io/depth";
    let of_the_leaf = [(FORGED, Some("1")), (above, Some("7")), (own, None), (above, None)];
    for (target, changes) in [
        ("f-leaf", of_the_leaf.as_slice()),
        (EXCLUDED, &[(FORGED, Some("1"))]),
        ("hnc-system", &[(FORGED, Some("0"))]),
    ] {
        for (who, client) in
            [("the administrator", scene.admin()), ("another account of hnc-system", intruder.clone())]
        {
            for Door(door, open) in &DOORS {
                scene.try_door((who, &client), (door, *open), target, changes).await?;
            }
        }
    }
    scene.steps.labelled(&["f-leaf", "f-root"]).await
}

impl Scene {
    async fn labels(&self, target: &str) -> Result<Value> {
        Ok(self.namespace(target).await?["metadata"]["labels"].clone())
    }

    /// The namespace without the fields that only matter to concurrent writers.
    async fn namespace(&self, target: &str) -> Result<Value> {
        let mut stored = Request::get(&self.admin(), &namespace(target)).send().await?;
        for field in ["resourceVersion", "managedFields"] {
            stored["metadata"].as_object_mut().map(|fields| fields.remove(field));
        }
        Ok(stored)
    }

    async fn try_door(
        &self,
        (who, client): (&str, &Client),
        (door, open): (&str, Open),
        target: &str,
        changes: &[Change<'_>],
    ) -> Result<()> {
        let stored = self.namespace(target).await?;
        let what = format!("{door} of {target} by {who}");
        for change in changes {
            // Applying removes only what the same manager has applied before.
            if door.starts_with("apply") && change.1.is_none() {
                continue;
            }
            for attempt in [open(client, &stored, *change).dry(), open(client, &stored, *change)] {
                denied(&what, attempt.send().await, Of::Namespace(target), 403, &["tree labels", change.0]);
            }
        }
        assert_eq!(self.labels(target).await?, stored["metadata"]["labels"], "{what}");
        let value = format!("{door}-{}", who.len()).replace(' ', "-");
        open(client, &stored, (ORDINARY, Some(&value))).send().await?;
        assert_eq!(self.labels(target).await?[ORDINARY], value, "{what}");
        Ok(())
    }
}

#[tokio::test]
async fn they_cannot_be_dropped_with_all_the_others_nor_come_with_a_new_namespace() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("n-root", ""), ("n-leaf", "n-root")]).await?;
    scene.steps.labelled(&["n-leaf", "n-root"]).await?;
    let admin = scene.admin();
    let said = ["n-leaf.tree.hnc.x-k8s.io/depth", "n-root.tree.hnc.x-k8s.io/depth"];
    for part in ["", "/status"] {
        let path = namespace("n-leaf") + part;
        let merge =
            Request::patch(&admin, &path, MERGE, json!({ "metadata": { "labels": null } })).send().await;
        denied("no labels at all", merge, Of::Namespace("n-leaf"), 403, &said);
        let remove = json!([{ "op": "remove", "path": "/metadata/labels" }]);
        let remove = Request::patch(&admin, &path, STEPS, remove).send().await;
        denied("labels removed", remove, Of::Namespace("n-leaf"), 403, &said);
    }
    let mut bare = scene.namespace("n-leaf").await?;
    bare["metadata"]["labels"] = Value::Null;
    for part in ["", "/status", "/finalize"] {
        let replace = Request::put(&admin, &(namespace("n-leaf") + part), bare.clone()).send().await;
        denied("replaced without labels", replace, Of::Namespace("n-leaf"), 403, &said);
    }
    scene.steps.labelled(&["n-leaf", "n-root"]).await?;

    let create = |key: &str| {
        let metadata = json!({ "name": "n-new", "labels": { key: "0" } });
        Request::post(&admin, "/api/v1/namespaces", json!({ "metadata": metadata }))
    };
    for key in [FORGED, "n-newer.tree.hnc.x-k8s.io/depth", "x.tree.hnc.x-k8s.io/depths"] {
        denied("created with it", create(key).send().await, Of::Namespace("n-new"), 403, &[key]);
    }
    create(ORDINARY).send().await?;
    let gone = Request::patch(
        &admin,
        &namespace("n-new"),
        MERGE,
        json!({ "metadata": { "labels": { ORDINARY: null } } }),
    );
    gone.send().await?;
    scene.steps.labelled(&["n-new"]).await
}

/// With more labels than this, the policy leaves the check to the webhook.
#[tokio::test]
async fn they_cannot_hide_among_a_thousand_others() -> Result<()> {
    let scene = fixture::scene().await?;
    let admin = scene.admin();
    let many: Map<String, Value> = (0..1001).map(|number| (format!("many-{number}"), "x".into())).collect();
    let mut more = many.clone();
    more.insert(FORGED.into(), "0".into());
    let create = |labels: &Map<String, Value>| {
        Request::post(
            &admin,
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "m-many", "labels": labels } }),
        )
    };
    denied("among a thousand", create(&more).send().await, Of::Namespace("m-many"), 403, &[FORGED]);
    create(&many).send().await?;
    scene.steps.labelled(&["m-many"]).await?;
    let stored = scene.namespace("m-many").await?;
    let forge = merge(&admin, &stored, (FORGED, Some("0"))).send().await;
    denied("among a thousand", forge, Of::Namespace("m-many"), 403, &[FORGED]);
    merge(&admin, &stored, (ORDINARY, Some("red"))).send().await?;
    Ok(())
}

#[tokio::test]
async fn kubectl_says_so_at_the_subresources() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("b-root", ""), ("b-leaf", "b-root")]).await?;
    scene.steps.labelled(&["b-leaf", "b-root"]).await?;
    let label = |key: &str| {
        let body = json!({ "metadata": { "labels": { key: "0" } } }).to_string();
        let patch = ["patch", "namespace", "b-leaf", "--subresource=status", "--type=merge", "-p", &body];
        scene.cluster().kubectl().args(patch)
    };
    let forge = label(FORGED).run().await?;
    assert!(
        !forge.success() && forge.stderr.contains("Forbidden") && forge.stderr.contains(FORGED),
        "{forge}"
    );
    println!("{}", forge.stderr.trim());
    label(ORDINARY).ok().await?;

    let mut stored = scene.namespace("b-leaf").await?;
    let mut finalize = async |key: &str| {
        stored["metadata"]["labels"][key] = "0".into();
        let put = ["replace", "--raw", "/api/v1/namespaces/b-leaf/finalize", "-f", "-"];
        scene.cluster().kubectl().args(put).stdin(stored.to_string()).run().await
    };
    let open = finalize("example.com/other").await?;
    assert!(open.success(), "{open}");
    let forge = finalize(FORGED).await?;
    assert!(!forge.success() && forge.stderr.contains(FORGED), "{forge}");
    println!("{}", forge.stderr.trim());
    scene.steps.labelled(&["b-leaf", "b-root"]).await
}

#[tokio::test]
async fn the_controller_alone_writes_them_and_puts_right_what_is_wrong() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("w-root", ""), ("w-leaf", "w-root")]).await?;
    scene.steps.labelled(&["w-leaf", "w-root"]).await?;
    let controller = scene.user(CONTROLLER_USER);
    let stored = scene.namespace("w-leaf").await?;
    let forge = || (FORGED, Some("3"));
    denied(
        "the administrator",
        merge(&scene.admin(), &stored, forge()).send().await,
        Of::Namespace("w-leaf"),
        403,
        &[FORGED],
    );
    for change in
        [forge(), ("w-root.tree.hnc.x-k8s.io/depth", Some("9")), ("w-root.tree.hnc.x-k8s.io/depth", None)]
    {
        let written = merge(&controller, &stored, change).send().await?;
        assert_eq!(written["metadata"]["labels"][change.0].as_str(), change.1);
        scene.steps.labelled(&["w-leaf", "w-root"]).await?;
    }
    Ok(())
}
