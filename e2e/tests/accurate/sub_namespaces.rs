//! `SubNamespaces`: namespaces are created, deleted and created again for them, and conflicts are shown (section 8.6 of Accurate's
//! contract, and number 14 of section 15).

use std::time::{Duration, Instant};

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::scene::{FINALIZER, FORMS, PARENT, SECRETS, at, label, namespace, path, scene, version};

fn form(name: &str) -> Value {
    json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": { "name": name } })
}

#[tokio::test]
async fn a_namespace_lives_and_goes_with_its_sub_namespace() {
    let scene = scene().await;
    scene.create_root("s-root").await;
    scene.create_sub("s-root", "s-sub", json!({})).await;
    let place = path(FORMS, "s-root", "s-sub");
    let is_current = |it: &Value| {
        at(it, "/status/observedGeneration") == at(it, "/metadata/generation")
            && at(it, "/status/conditions").is_null()
    };
    let seen = scene.until(&place, "shows that it is current", is_current).await;
    assert_eq!(seen["metadata"]["finalizers"], json!([FINALIZER]));
    let created = scene.get(&namespace("s-sub")).await.unwrap().unwrap();
    assert_eq!(label(&created, "app.kubernetes.io/created-by"), "accurate");

    let (uid, _) = version(&created);
    scene.delete(&namespace("s-sub")).await;
    let is_new = |it: &Value| it.is_object() && it["metadata"]["uid"] != uid.as_str();
    scene.until(&namespace("s-sub"), "is created again", is_new).await;

    let others = json!({ "metadata": { "finalizers": ["example.com/other", FINALIZER] } });
    scene.patch(&place, others).await;
    scene.delete(&place).await;
    scene.gone(&namespace("s-sub")).await;
    let is_held = |it: &Value| it["metadata"]["finalizers"] == json!(["example.com/other"]);
    scene.until(&place, "keeps the finalizer of another program", is_held).await;
    scene.patch(&place, json!({ "metadata": { "finalizers": null } })).await;
    scene.gone(&place).await;
}

#[tokio::test]
async fn a_conflict_is_shown_keeps_its_time_and_ends_when_the_rival_goes() {
    let scene = scene().await;
    scene.create_root("y-root").await;
    scene.create_root("y-other").await;
    scene.create_sub("y-other", "y-taken", json!({})).await;
    let place = path(FORMS, "y-root", "y-taken");
    scene.send_until_allowed("POST", &path(FORMS, "y-root", ""), form("y-taken")).await;
    let is_stalled = |it: &Value| {
        let condition = at(it, "/status/conditions/0");
        (&condition["type"], &condition["status"], &condition["reason"])
            == (&json!("Stalled"), &json!("True"), &json!("Conflict"))
    };
    let first = scene.until(&place, "is stalled", is_stalled).await;
    assert_eq!(at(&first, "/status/conditions/0/message"), "Conflicting namespace already exists");
    let time = at(&first, "/status/conditions/0/lastTransitionTime");
    // The times of conditions have seconds.
    scene
        .until(&namespace("y-taken"), "is a second old", |it| {
            let now = k8s_openapi::jiff::Timestamp::now();
            let since: k8s_openapi::jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
            it.is_object() && now.as_second() > since.as_second() + 1
        })
        .await;
    scene.patch(&place, json!({ "spec": { "labels": { "tier": "1" } } })).await;
    let is_current = |it: &Value| is_stalled(it) && at(it, "/status/observedGeneration") == 2;
    let second = scene.until(&place, "shows the new generation", is_current).await;
    assert_eq!(at(&second, "/status/conditions/0/lastTransitionTime"), time);
    assert_eq!(at(&second, "/status/conditions/0/observedGeneration"), 2);

    // The rival goes, and its namespace with it.
    scene.delete(&path(FORMS, "y-other", "y-taken")).await;
    scene
        .until(&namespace("y-taken"), "is created for the one that waited", |it| {
            label(it, PARENT) == "y-root"
        })
        .await;
    let is_over = |it: &Value| it.is_object() && at(it, "/status/conditions").is_null();
    scene.until(&place, "is not stalled any more", is_over).await;

    // One in conflict goes without the namespace.
    scene.send_until_allowed("POST", &path(FORMS, "y-other", ""), form("y-taken")).await;
    let rival = path(FORMS, "y-other", "y-taken");
    scene.until(&rival, "is stalled", is_stalled).await;
    let (uid, _) = version(&scene.get(&namespace("y-taken")).await.unwrap().unwrap());
    scene.delete(&rival).await;
    scene.gone(&rival).await;
    scene.settled("y-root", "y-taken", "marker").await;
    let kept = scene.get(&namespace("y-taken")).await.unwrap().unwrap();
    assert_eq!(kept["metadata"]["uid"], uid.as_str());
    assert!(kept["metadata"]["deletionTimestamp"].is_null());
}

/// The policy of a company: the controller tries to delete the namespace again and again.
#[tokio::test]
async fn one_whose_namespace_cannot_be_deleted_holds_up_no_other() {
    const POLICY: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "pk-kept"}, "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["namespaces"]}]},
            "validations": [{"expression": "oldObject.metadata.name != 'pk-kept'", "message": "not this one"}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "pk-kept"},
            "spec": {"policyName": "pk-kept", "validationActions": ["Deny"]}}]}"#;
    let scene = scene().await;
    let cluster = scene.installation.product.cluster();
    scene.create_root("pk-root").await;
    scene.create_sub("pk-root", "pk-mid", json!({})).await;
    scene.create_sub("pk-mid", "pk-kept", json!({})).await;
    cluster.kubectl().args(["apply", "-f", "-"]).stdin(POLICY).ok().await.unwrap();
    let dry = format!("{}?dryRun=All", namespace("pk-kept"));
    eventually("the policy is in force", PATIENCE, async || {
        match scene.send("DELETE", &dry, Value::Null).await {
            Err(error) if error.to_string().contains("not this one") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    scene.delete(&path(FORMS, "pk-mid", "pk-kept")).await;
    scene.create_sub("pk-mid", "pk-later", json!({})).await;
    scene.create(SECRETS, "pk-root", "pk-late", "update", json!({})).await;
    scene.copied(SECRETS, "pk-root", "pk-mid", "pk-late").await;
    scene.copied(SECRETS, "pk-mid", "pk-later", "pk-late").await;
    let kept = scene.get(&namespace("pk-kept")).await.unwrap().unwrap();
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    cluster.kubectl().args(["delete", "-f", "-"]).stdin(POLICY).ok().await.unwrap();
    scene.gone(&namespace("pk-kept")).await;
}

/// Kubernetes itself refuses to delete this namespace.
#[tokio::test]
async fn the_namespace_default_is_cut_and_not_deleted() {
    let scene = scene().await;
    scene.create_root("df-root").await;
    scene.send_until_allowed("POST", &path(FORMS, "df-root", ""), form("default")).await;
    let place = path(FORMS, "df-root", "default");
    let boss = json!({ "metadata": { "labels": { PARENT: "df-root" } } });
    scene.send_until_allowed("PATCH", &namespace("default"), boss).await;
    let is_its_own =
        |it: &Value| at(it, "/status/observedGeneration") == 1 && at(it, "/status/conditions").is_null();
    scene.until(&place, "has its namespace", is_its_own).await;
    let way = "take it out of its tree first: kubectl accurate sub cut default";
    let dry = format!("{place}?dryRun=All");
    eventually("the webhook knows that default is in a tree", PATIENCE, async || {
        match scene.send("DELETE", &dry, Value::Null).await {
            Err(error) if error.to_string().contains(way) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    let refused = scene.send("DELETE", &place, Value::Null).await.unwrap_err().to_string();
    assert!(refused.contains(way), "{refused}");
    scene.patch(&namespace("default"), json!({ "metadata": { "labels": { PARENT: null } } })).await;
    scene.send_until_allowed("DELETE", &place, Value::Null).await;
    scene.gone(&place).await;
}

#[tokio::test]
async fn a_namespace_that_exists_already_is_never_taken() {
    let scene = scene().await;
    scene.create_root("z-root").await;
    scene.create_namespace("z-own", json!({ "team": "own" })).await;
    scene.send_until_allowed("POST", &path(FORMS, "z-root", ""), form("z-own")).await;
    let place = path(FORMS, "z-root", "z-own");
    scene.until(&place, "is stalled", |it| at(it, "/status/conditions/0/reason") == "Conflict").await;
    scene.delete(&place).await;
    scene.gone(&place).await;
    let kept = scene.get(&namespace("z-own")).await.unwrap().unwrap();
    assert!(label(&kept, PARENT).is_null() && kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
}

/// A namespace of HNC's hierarchy names a missing parent at the moment in which a `SubNamespace` of that name is created. Otherwise the
/// editors of the `SubNamespace`'s parent would decide who has rights below the new one.
#[tokio::test]
async fn one_does_not_take_the_name_of_a_missing_parent_at_the_same_moment() {
    const ROUNDS: u32 = 24;
    let scene = scene().await;
    scene.create_root("ra-root").await;
    let (mut named, mut created) = (0, 0);
    // How long the last naming took: the other request is sent at its beginning at first, and later and later after it.
    let mut took = Duration::ZERO;
    for round in 0..ROUNDS {
        let (below, name) = (format!("ra-below-{round}"), format!("ra-new-{round}"));
        scene.create_namespace(&below, json!({})).await;
        let hierarchy = json!({ "apiVersion": "hnc.x-k8s.io/v1alpha2", "kind": "HierarchyConfiguration",
            "metadata": { "name": "hierarchy" }, "spec": { "parent": name } });
        let hierarchies = format!("/apis/hnc.x-k8s.io/v1alpha2/namespaces/{below}/hierarchyconfigurations");
        let forms = path(FORMS, "ra-root", "");
        let begin = Instant::now();
        let naming = async {
            let answer = scene.send("POST", &hierarchies, hierarchy).await;
            (answer, begin.elapsed())
        };
        let ((naming, this_took), creation) = tokio::join!(naming, async {
            sleep(took * round / (ROUNDS / 2)).await;
            scene.send("POST", &forms, form(&name)).await
        });
        took = this_took;
        match (naming.is_ok(), creation.is_ok()) {
            (true, true) => {
                named += 1;
                let is_stalled = |it: &Value| at(it, "/status/conditions/0/reason") == "Conflict";
                scene.until(&path(FORMS, "ra-root", &name), "is stalled", is_stalled).await;
                assert_eq!(scene.get(&namespace(&name)).await.unwrap(), None, "{name}");
            }
            (false, true) => {
                created += 1;
                scene.until(&namespace(&name), "is created", |it| label(it, PARENT) == "ra-root").await;
            }
            (true, false) => named += 1,
            (false, false) => {}
        }
    }
    println!("of {ROUNDS} rounds, {named} with a child of a missing parent, {created} with a sub-namespace");
    assert!(named > 0 && created > 0, "the rounds are of one sort");
}
