//! Trees as Accurate leaves them, after sections 3, 4, 8 and 9 of its contract: who has written what, and how.

use std::collections::BTreeMap;

use hns_e2e::Cluster;
use serde_json::{Value, json};

const CREATED_BY: &str = "app.kubernetes.io/created-by";
const FROM: &str = "accurate.cybozu.com/from";
const PROPAGATE: &str = "accurate.cybozu.com/propagate";

/// Each with the namespace above it; a template is above its instances.
const EDGES: [(&str, &str); 6] = [
    ("acc-template", "acc-root"),
    ("acc-template", "acc-free"),
    ("acc-root", "acc-web"),
    ("acc-web", "acc-db"),
    ("acc-root", "acc-old"),
    ("acc-root", "acc-older"),
];

/// All namespaces of the trees.
pub(crate) const NAMESPACES: [&str; 7] =
    ["acc-template", "acc-root", "acc-free", "acc-web", "acc-db", "acc-old", "acc-older"];

/// Copies that differ from their sources, by name: what the sources have lost is still there.
pub(crate) const WRONG: [&str; 2] = ["wrong", "revoked"];

/// Who writes.
#[derive(Clone, Copy)]
enum By {
    Person,
    /// Accurate by POST, as it creates everything.
    Post,
    /// Accurate by server-side apply, as it changes everything.
    Apply,
    /// Accurate, to the status of a `SubNamespace`.
    Status,
}

async fn write(cluster: &Cluster, by: By, objects: impl IntoIterator<Item = Value>) {
    let items: Vec<Value> = objects.into_iter().collect();
    if items.is_empty() {
        return;
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let manager = "--field-manager=accurate-controller";
    let words = match by {
        By::Person => vec!["create"],
        By::Post => vec!["create", manager],
        By::Apply => vec!["apply", "--server-side", "--force-conflicts", manager],
        By::Status => vec!["apply", "--server-side", "--force-conflicts", manager, "--subresource=status"],
    };
    cluster.kubectl().args(words).args(["-f", "-"]).stdin(list.to_string()).ok().await.unwrap();
}

fn namespace(name: &str, labels: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

fn form(version: &str, parent: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("accurate.cybozu.com/{version}"), "kind": "SubNamespace", "spec": spec,
        "metadata": { "name": name, "namespace": parent, "finalizers": ["accurate.cybozu.com/finalizer"] },
    })
}

/// What people have made while `SubNamespaces` were stored as v1: the templates, the roots, and two `SubNamespaces`, of which
/// one was written again by a version of Accurate that knows v2.
pub(crate) async fn begin(cluster: &Cluster) {
    let mut first = namespace("acc-template", &json!({ "accurate.cybozu.com/type": "template" }));
    first["metadata"]["annotations"] = json!({ "note": "all" });
    let of_template = "accurate.cybozu.com/template";
    let root = json!({ "accurate.cybozu.com/type": "root", of_template: "acc-template", "team": "red" });
    let free = json!({ of_template: "acc-template" });
    let others = [("acc-root", root), ("acc-free", free), ("acc-taken", json!({}))];
    write(cluster, By::Person, [first]).await;
    write(cluster, By::Person, others.map(|(name, labels)| namespace(name, &labels))).await;
    let mut old = form("v1", "acc-root", "acc-old", &json!({ "labels": { "tier": "old" } }));
    old["metadata"]["annotations"] = json!({ "internal.accurate.cybozu.com/observed-generation": "1" });
    let older = form("v1", "acc-root", "acc-older", &json!({}));
    for mut form in [old, older] {
        form["status"] = "ok".into();
        write(cluster, By::Person, [form]).await;
    }
}

/// The rest, once `SubNamespaces` are stored as v2: the `SubNamespaces` and their statuses, the namespaces, the sources and the copies.
pub(crate) async fn grow(cluster: &Cluster) {
    let forms = [
        ("acc-root", "acc-web", json!({ "labels": { "tier": "front" } })),
        ("acc-root", "acc-taken", json!({})),
    ];
    write(cluster, By::Person, forms.map(|(parent, name, spec)| form("v2", parent, name, &spec))).await;
    for (parent, name) in &EDGES[2..] {
        let labels = json!({ CREATED_BY: "accurate", "accurate.cybozu.com/parent": parent });
        write(cluster, By::Post, [namespace(name, &labels)]).await;
        if *name == "acc-web" {
            write(cluster, By::Person, [form("v2", "acc-web", "acc-db", &json!({}))]).await;
        }
    }
    for (parent, name) in EDGES {
        write(cluster, By::Apply, [applied(parent, name)]).await;
    }
    let stalled = json!({
        "type": "Stalled", "status": "True", "reason": "Conflict", "observedGeneration": 1,
        "message": "Conflicting namespace already exists", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    for (parent, name, conditions) in [
        ("acc-root", "acc-web", json!([])),
        ("acc-web", "acc-db", json!([])),
        ("acc-root", "acc-taken", json!([stalled])),
    ] {
        let mut status = json!({ "observedGeneration": 1 });
        if conditions[0].is_object() {
            status["conditions"] = conditions;
        }
        let metadata = json!({ "name": name, "namespace": parent });
        let form = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": metadata, "status": status });
        write(cluster, By::Status, [form]).await;
    }
    objects(cluster).await;
}

/// What Accurate applies to a namespace below another (section 8.2).
fn applied(parent: &str, name: &str) -> Value {
    let mut labels = json!({});
    if parent != "acc-template" {
        labels = json!({ CREATED_BY: "accurate", "accurate.cybozu.com/parent": parent, "team": "red" });
    }
    if let Some(tier) = [("acc-web", "front"), ("acc-old", "old")].iter().find(|it| it.0 == name) {
        labels["tier"] = tier.1.into();
    }
    let mut namespace = namespace(name, &labels);
    namespace["metadata"]["annotations"] = json!({ "note": "all" });
    namespace
}

/// The sources of one namespace.
fn sources(namespace: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let object = |api: &str, kind: &str, name: &str, mode: &str, mut body: Value| {
        body["apiVersion"] = api.into();
        body["kind"] = kind.into();
        body["metadata"] = json!({ "name": name, "namespace": namespace, "labels": { "kept": "1" },
            "annotations": { PROPAGATE: mode } });
        body
    };
    let v1 = format!("{rbac}/v1");
    let alice = json!([{ "apiGroup": rbac, "kind": "User", "name": "alice" }]);
    let role = |kind: &str, name: &str| json!({ "apiGroup": rbac, "kind": kind, "name": name });
    match namespace {
        "acc-template" => vec![object("v1", "Secret", "tls", "update", json!({ "data": { "k": "dg==" } }))],
        "acc-root" => vec![
            object(
                &v1,
                "Role",
                "reader",
                "update",
                json!({ "rules": [
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }),
            ),
            object(
                &v1,
                "RoleBinding",
                "readers",
                "update",
                json!({ "roleRef": role("Role", "reader"), "subjects": alice }),
            ),
            object(
                &v1,
                "RoleBinding",
                "revoked",
                "update",
                json!({ "roleRef": role("ClusterRole", "view") }),
            ),
            object("v1", "Secret", "pull", "create", json!({ "data": { "k": "dg==" } })),
            object("v1", "Secret", "wrong", "update", json!({ "data": { "a": "YQ==" } })),
            object("v1", "ConfigMap", "settings", "update", json!({ "data": { "a": "b" } })),
            object("v1", "ResourceQuota", "limits", "update", json!({ "spec": { "hard": { "pods": "9" } } })),
        ],
        _ => Vec::new(),
    }
}

/// The copy of an object in the namespace below (section 9).
fn copied(source: &Value, from: &str, to: &str) -> Value {
    let mut copy = source.clone();
    copy["metadata"]["namespace"] = to.into();
    copy["metadata"]["labels"][CREATED_BY] = "accurate".into();
    copy["metadata"]["annotations"][FROM] = from.into();
    copy
}

/// Each copy is the source of the next. Some have been changed since they were created.
async fn objects(cluster: &Cluster) {
    let mut held: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for namespace in ["acc-template", "acc-root"] {
        let sources = sources(namespace);
        write(cluster, By::Person, sources.clone()).await;
        held.insert(namespace, sources);
    }
    for (from, to) in EDGES {
        let copies: Vec<Value> = held[from].iter().map(|source| copied(source, from, to)).collect();
        write(cluster, By::Post, copies.iter().cloned().map(as_created)).await;
        let is_changed =
            |it: &&Value| ["limits", "wrong"].contains(&it["metadata"]["name"].as_str().unwrap());
        write(cluster, By::Apply, copies.iter().filter(is_changed).cloned()).await;
        held.entry(to).or_default().extend(copies);
    }
}

/// The copy when its source still had what it has lost. Accurate never removes that again (number 1 of section 15).
fn as_created(mut copy: Value) -> Value {
    match copy["metadata"]["name"].as_str().unwrap() {
        "wrong" => copy["data"]["b"] = "Yg==".into(),
        "revoked" => {
            copy["subjects"] =
                json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory" }]);
        }
        _ => {}
    }
    copy
}
