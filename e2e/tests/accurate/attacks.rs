//! Tenants who may change the copies in their namespace, and the namespace itself, and want to keep what they have written there.
//! Copies in mode `update` and labels are written again all the same. A policy keeps tenants from changing a copied quota, so somebody
//! with rights in all namespaces does that here.

use std::time::{Duration, Instant};

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scene::{
    BINDINGS, CREATED_BY, FORMS, FROM, MANAGED, PROPAGATE, QUOTAS, TEMPLATE, TYPE, annotation, at, label,
    namespace, path, scene, scene_alone, send,
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Changes an object and fills it as far as the API server lets it grow, with keys that are left alone by the controller: first by
/// more and more field managers, at last together with the change.
async fn fill(client: &Client, place: &str, (version, kind): (&str, &str), changes: &Value) {
    let is_too_large = |error: kube::Error| assert!(error.to_string().contains("too large"), "{error}");
    let mut managers = 0;
    for count in [600, 60, 6] {
        let labels: Value = (0..count)
            .map(|at| (format!("{at:0>200}.kubernetes.io/{at:0>63}"), "x".into()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let body = json!({ "apiVersion": version, "kind": kind, "metadata": { "labels": labels } });
        loop {
            managers += 1;
            let apply = format!("{place}?force=true&fieldManager=filler-{managers}");
            match send(client, "APPLY", &apply, body.clone()).await {
                Ok(_) => assert!(managers < 100, "it does not become too large"),
                Err(error) => break is_too_large(error),
            }
        }
    }
    for length in (0..4_000).rev().step_by(20) {
        let mut body = changes.clone();
        body["metadata"]["annotations"]["filler.kubernetes.io/x"] = "x".repeat(length).into();
        match send(client, "PATCH", place, body).await {
            Ok(_) => return,
            Err(error) => is_too_large(error),
        }
    }
    panic!("nothing fits");
}

fn users(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "apiGroup": RBAC, "kind": "User", "name": name })).collect()
}

#[tokio::test]
async fn a_full_copy_is_written_again() {
    let scene = scene().await;
    scene.create_root("fu-root").await;
    scene.create_sub("fu-root", "fu-sub", json!({})).await;
    let tenant = scene.tenant("fu-tenant", "fu-sub").await;
    let hard: serde_json::Map<_, _> =
        (0..9).map(|at| (format!("count/{at:0>40}.example.com"), "1".into())).collect();
    let hard = Value::from(hard);
    scene.create(QUOTAS, "fu-root", "q", "update", json!({ "spec": { "hard": hard } })).await;
    let role = json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" });
    let named = ["a".repeat(200), "b".repeat(200), "c".repeat(200)];
    let subjects = users(&named.each_ref().map(String::as_str));
    let binding = json!({ "roleRef": role, "subjects": subjects });
    scene.create(BINDINGS, "fu-root", "b", "update", binding).await;

    let evil = json!({ "subjects": users(&["mallory"]) });
    for (kind, name, type_, evil, right) in [
        (QUOTAS, "q", ("v1", "ResourceQuota"), json!({ "spec": null }), ("/spec/hard", hard)),
        (BINDINGS, "b", ("rbac.authorization.k8s.io/v1", "RoleBinding"), evil, ("/subjects", subjects)),
    ] {
        let place = path(kind, "fu-sub", name);
        scene.copied(kind, "fu-root", "fu-sub", name).await;
        let attacker = if kind == QUOTAS { &scene.client } else { &tenant };
        fill(attacker, &place, type_, &evil).await;
        scene.until(&place, "is right again", |it| *at(it, right.0) == right.1).await;
        // And after the tenant has removed what makes it a copy.
        let marks = json!({ CREATED_BY: null });
        let marks = json!({ "labels": marks, "annotations": { PROPAGATE: null, FROM: null } });
        let mut evil = evil;
        evil["metadata"] = marks;
        if kind == QUOTAS {
            fill(attacker, &place, type_, &evil).await;
            scene.until(&place, "is right once more", |it| *at(it, right.0) == right.1).await;
        }
    }
}

#[tokio::test]
async fn a_full_namespace_gets_its_labels() {
    let scene = scene().await;
    scene.create_namespace("fn-root", json!({ TYPE: "root", "team": "red".repeat(20), "zone": "z" })).await;
    scene.patch(&namespace("fn-root"), json!({ "metadata": { "annotations": { "note": "n" } } })).await;
    scene.create_sub("fn-root", "fn-sub", json!({})).await;
    let place = namespace("fn-sub");
    let is_right = |it: &Value| label(it, "team") == &"red".repeat(20) && annotation(it, "note") == "n";
    scene.until(&place, "has its labels", is_right).await;
    let tenant = scene.tenant("fn-tenant", "fn-sub").await;
    let evil = json!({ "metadata": { "labels": { "team": null }, "annotations": { "note": null } } });
    fill(&tenant, &place, ("v1", "Namespace"), &evil).await;
    scene.until(&place, "has its labels again", is_right).await;
    scene.patch(&namespace("fn-root"), json!({ "metadata": { "labels": { "zone": null } } })).await;
    scene.until(&place, "loses its zone", |it| label(it, "zone").is_null() && is_right(it)).await;

    // Annotations can be full on their own. Labels do not wait for them.
    let full = json!({ "metadata": { "annotations": { "filler.kubernetes.io/x": null, "full": "x".repeat(256 * 1024 - 300) } } });
    send(&tenant, "PATCH", &place, full).await.unwrap();
    let long =
        json!({ "metadata": { "labels": { "team": "blue" }, "annotations": { "note": "n".repeat(400) } } });
    scene.patch(&namespace("fn-root"), long).await;
    let is_blue = |it: &Value| label(it, "team") == "blue" && annotation(it, "note") == "n";
    scene.until(&place, "is in its new team", is_blue).await;
}

/// Changes an object all the time.
fn churn(client: &Client, place: &str, tasks: &mut JoinSet<()>) {
    for writer in 0..8 {
        let (client, place) = (client.clone(), place.to_owned());
        tasks.spawn(async move {
            for round in 0_u64.. {
                let key = format!("example.com/{writer}");
                let note = json!({ "metadata": { "annotations": { key: round.to_string() } } });
                let _ = send(&client, "PATCH", &place, note).await;
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_changing_a_namespace_delays_neither_its_labels_nor_its_deletion() {
    const SOON: Duration = Duration::from_secs(5);
    let scene = scene().await;
    scene.create_root("kc-root").await;
    scene.create_sub("kc-root", "kc-sub", json!({})).await;
    let tenant = scene.tenant("kc-tenant", "kc-sub").await;
    let mut tasks = JoinSet::new();
    churn(&tenant, &namespace("kc-sub"), &mut tasks);
    scene.patch(&namespace("kc-root"), json!({ "metadata": { "labels": { "team": "red" } } })).await;
    let began = Instant::now();
    scene.until(&namespace("kc-sub"), "has its label", |it| label(it, "team") == "red").await;
    let labelled = began.elapsed();
    scene.delete(&path(FORMS, "kc-root", "kc-sub")).await;
    let began = Instant::now();
    let goes = |it: &Value| it.is_null() || !at(it, "/metadata/deletionTimestamp").is_null();
    scene.until(&namespace("kc-sub"), "goes", goes).await;
    println!("labelled after {labelled:?}, deleted after {:?}", began.elapsed());
    assert!(labelled < SOON && began.elapsed() < SOON, "{labelled:?}, {:?}", began.elapsed());
    tasks.shutdown().await;

    // One that waits in conflict shows that, so that it does not get the name when it is free.
    scene.create_namespace("kc-other", json!({})).await;
    let place = path(FORMS, "kc-root", "kc-other");
    let form = json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": { "name": "kc-other" } });
    let tenant = scene.tenant("kc-tenant", "kc-root").await;
    churn(&tenant, &place, &mut tasks);
    send(&tenant, "POST", &path(FORMS, "kc-root", ""), form).await.unwrap();
    let began = Instant::now();
    let is_stalled = |it: &Value| at(it, "/status/conditions/0/type") == "Stalled";
    scene.until(&place, "is stalled", is_stalled).await;
    println!("stalled after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    tasks.shutdown().await;
}

#[tokio::test]
async fn a_hierarchy_configuration_sets_no_label_of_a_sub_namespace() {
    let scene = scene().await;
    scene.create_namespace("hc-root", json!({ TYPE: "root", MANAGED: "restricted" })).await;
    scene.create_sub("hc-root", "hc-sub", json!({})).await;
    scene.until(&namespace("hc-sub"), "is labelled", |it| label(it, MANAGED) == "restricted").await;
    let tenant = scene.tenant("hc-tenant", "hc-sub").await;
    let asked = json!({
        "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HierarchyConfiguration", "metadata": { "name": "hierarchy" },
        "spec": { "labels": [{ "key": MANAGED, "value": "privileged" }] },
    });
    let place = path(("/apis/hnc.x-k8s.io/v1alpha2", "hierarchyconfigurations"), "hc-sub", "");
    let refused = send(&tenant, "POST", &place, asked).await.unwrap_err().to_string();
    assert!(refused.contains("is in a hierarchy of accurate.cybozu.com"), "{refused}");
}

/// A binding gives access until it is gone.
#[tokio::test]
async fn a_revoked_binding_is_not_held() {
    let scene = scene().await;
    scene.create_root("h-root").await;
    scene.create_sub("h-root", "h-sub", json!({})).await;
    let tenant = scene.tenant("h-tenant", "h-sub").await;
    let role = json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": "view" });
    for name in ["held", "going", "full"] {
        let binding = json!({ "roleRef": role, "subjects": users(&["alice"]) });
        scene.create(BINDINGS, "h-root", name, "update", binding).await;
        scene.copied(BINDINGS, "h-root", "h-sub", name).await;
        let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
        if name == "full" {
            let type_ = ("rbac.authorization.k8s.io/v1", "RoleBinding");
            fill(&tenant, &path(BINDINGS, "h-sub", name), type_, &held).await;
        } else {
            send(&tenant, "PATCH", &path(BINDINGS, "h-sub", name), held).await.unwrap();
        }
    }
    send(&tenant, "DELETE", &path(BINDINGS, "h-sub", "going"), Value::Null).await.unwrap();
    for name in ["held", "going", "full"] {
        scene.delete(&path(BINDINGS, "h-root", name)).await;
        scene.gone(&path(BINDINGS, "h-sub", name)).await;
    }
}

/// Of a quota with the marks of a copy, the tenant may write the status.
#[tokio::test]
async fn usage_recorded_before_a_quota_becomes_a_copy_does_not_count() {
    let scene = scene().await;
    scene.create_root("us-root").await;
    scene.create_sub("us-root", "us-sub", json!({})).await;
    let tenant = scene.tenant("us-tenant", "us-sub").await;
    let spec = json!({ "spec": { "hard": { "configmaps": "5" } } });
    let own = json!({
        "metadata": {
            "name": "q", "labels": { CREATED_BY: "accurate" }, "annotations": { FROM: "us-root", PROPAGATE: "create" }
        },
        "spec": spec["spec"],
    });
    let place = path(QUOTAS, "us-sub", "q");
    send(&tenant, "POST", &path(QUOTAS, "us-sub", ""), own).await.unwrap();
    scene.until(&place, "is counted", |it| *at(it, "/status/hard") == spec["spec"]["hard"]).await;
    let status = json!({ "status": { "hard": { "configmaps": "1k" }, "used": { "configmaps": "0" } } });
    let forged = send(&tenant, "PATCH", &format!("{place}/status"), status).await.unwrap();
    scene.create(QUOTAS, "us-root", "q", "update", spec).await;
    scene.copied(QUOTAS, "us-root", "us-sub", "q").await;
    let is_anew = |it: &Value| at(it, "/metadata/uid") != at(&forged, "/metadata/uid");
    scene.until(&place, "is created anew", |it| is_anew(it) && annotation(it, PROPAGATE) == "update").await;
}

/// Who may only patch a namespace writes into the record of what the controller has applied, so that its next apply would remove that.
#[tokio::test]
async fn a_forged_record_of_what_was_applied_removes_no_label_of_the_hierarchies() {
    let scene = scene().await;
    scene.create_namespace("mf-template", json!({ TYPE: "template", "team": "red" })).await;
    scene.create_namespace("mf-root", json!({ TYPE: "root", TEMPLATE: "mf-template" })).await;
    scene.until(&namespace("mf-root"), "is labelled", |it| label(it, "team") == "red").await;
    let tenant = scene.tenant("mf-tenant", "mf-root").await;
    let guarded = [TYPE, TEMPLATE, "hnc.x-k8s.io/included-namespace", "mf-root.tree.hnc.x-k8s.io/depth"];
    let has_all = |it: &Value| guarded.iter().all(|key| label(it, key).is_string());
    let before = scene.until(&namespace("mf-root"), "has all labels", has_all).await;
    for round in 0..20 {
        let keys = guarded.iter().chain(&["team"]).map(|key| (format!("f:{key}"), json!({})));
        let keys: serde_json::Map<_, _> = keys.collect();
        let forged = json!({ "metadata": {
            "labels": { "team": format!("x{round}") },
            "managedFields": [{
                "manager": "accurate-controller", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": { "f:labels": keys } },
            }],
        } });
        send(&tenant, "PATCH", &namespace("mf-root"), forged).await.unwrap();
        let after = scene.until(&namespace("mf-root"), "is applied", |it| label(it, "team") == "red").await;
        for key in guarded {
            assert_eq!(label(&after, key), label(&before, key), "{key} in round {round}");
        }
    }
}

/// The controller itself writes the policy that protects these copies, with the kinds of the settings.
#[tokio::test]
async fn a_tenant_may_not_delete_a_copy_that_restricts() {
    const POLICY: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/hns-resource-quotas";
    let scene = scene_alone().await;
    scene.create_root("rp-root").await;
    scene.create_sub("rp-root", "rp-sub", json!({})).await;
    scene.create(QUOTAS, "rp-root", "q", "update", json!({ "spec": { "hard": { "pods": "1" } } })).await;
    scene.copied(QUOTAS, "rp-root", "rp-sub", "q").await;
    let tenant = scene.tenant("rp-tenant", "rp-sub").await;
    let before = scene.until(POLICY, "is there", |it| !it.is_null()).await;
    scene.delete(POLICY).await;
    let uid = |it: &Value| at(it, "/metadata/uid").clone();
    scene.until(POLICY, "is created again", |it| !it.is_null() && uid(it) != uid(&before)).await;
    let place = format!("{}?dryRun=All", path(QUOTAS, "rp-sub", "q"));
    eventually("the policy refuses the deletion", PATIENCE, async || {
        match send(&tenant, "DELETE", &place, Value::Null).await {
            Err(kube::Error::Api(status)) if status.message.contains("hns-resource-quotas") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}
