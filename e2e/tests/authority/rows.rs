//! The checks beside authorization: unmanaged namespaces, keys that are not managed, halted ancestors, missing parents, cycles,
//! conflicts; and that authorization comes before conflicts are reported.

use anyhow::Result;
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;

use super::fixture::{self, EXCLUDED, Scene};
use super::request::{MERGE, Request, configuration, hierarchies, hierarchy, place};
use super::verdict::{Of, denied, unauthorized};

/// A change that leaves the parent as it is.
fn edit(client: &Client, namespace: &str) -> Request {
    let body = json!({ "spec": { "allowCascadingDeletion": true } });
    Request::patch(client, &hierarchy(namespace), MERGE, body)
}

#[tokio::test]
async fn unmanaged_namespaces_are_neither_children_nor_parents() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("u-root", ""), ("u-child", "")]).await?;
    let admin = scene.admin();
    for unmanaged in [EXCLUDED, "hnc-system"] {
        let named = format!("namespace {unmanaged:?}");
        let joins = place(&admin, unmanaged, "u-root").send().await;
        denied("an unmanaged child", joins, Of::Hierarchy, 403, &[&named, "cannot be a child"]);
        let own = Request::post(&admin, &hierarchies(unmanaged), configuration(&json!({}))).send().await;
        let says = [&named, "its HierarchyConfiguration cannot be changed"];
        denied("a configuration without parent", own, Of::Hierarchy, 403, &says);
        let below = place(&admin, "u-child", unmanaged).send().await;
        denied("an unmanaged parent", below, Of::Hierarchy, 403, &[&named, "cannot be the parent"]);
    }
    place(&admin, "u-child", "u-root").send().await?;
    scene.steps.labelled(&["u-child", "u-root"]).await
}

#[tokio::test]
async fn keys_that_are_not_managed_are_refused_each_with_its_field() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.create_namespace("k-lone").await?;
    let user = scene.local_admin("k-user", &["k-lone"]).await?;
    let pair = |key: &str| json!({ "key": key, "value": "x" });
    let spec = json!({ "labels": [pair("team"), pair("example.com/cost")], "annotations": [pair("note")] });
    let create = Request::post(&user, &hierarchies("k-lone"), configuration(&spec)).send().await;
    let status = denied(
        "keys that are not managed",
        create,
        Of::Hierarchy,
        422,
        &["team", "example.com/cost", "note"],
    );
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.labels", "spec.labels", "spec.annotations"]);
    assert!(
        causes.iter().all(|cause| cause.reason == "FieldValueInvalid" && !cause.message.is_empty()),
        "{causes:?}"
    );
    let spec = json!({ "labels": [], "annotations": [] });
    Request::post(&user, &hierarchies("k-lone"), configuration(&spec)).send().await?;
    Ok(())
}

#[tokio::test]
async fn below_a_halted_ancestor_nothing_changes_until_it_is_repaired() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("h-gone", ""), ("h-top", "h-gone"), ("h-low", "h-top"), ("h-free", "")]).await?;
    let user = scene.local_admin("h-user", &["h-top", "h-low", "h-free"]).await?;
    edit(&user, "h-low").dry().send().await?;
    scene.steps.delete_namespace("h-gone").await?;
    scene.comes_to(403, &["h-top"], || edit(&user, "h-low")).await?;

    for (what, attempt) in [
        ("an edit", edit(&user, "h-low")),
        ("a way out", place(&user, "h-low", "")),
        ("a way elsewhere", place(&user, "h-low", "h-free")),
        ("a deletion", Request::delete(&user, &hierarchy("h-low"), json!(null))),
    ] {
        let said = ["the ancestor \"h-top\" is halted", "\"h-gone\" does not exist"];
        denied(what, attempt.send().await, Of::Hierarchy, 403, &said);
    }
    assert_eq!(scene.parent("h-low").await?, "h-top");
    edit(&user, "h-top").send().await?;
    place(&user, "h-top", "h-free").send().await?;
    scene.known(&["h-free", "h-top", "h-low"]).await?;
    edit(&user, "h-low").send().await?;
    Ok(())
}

#[tokio::test]
async fn a_parent_must_exist() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.create_namespace("e-child").await?;
    let admin = scene.admin();
    scene.steps.create_namespace("e-there").await?;
    // The later ones must not be used as paths: the webhook would read another URL.
    for parent in ["E-There", "e-there ", "e-there?x=y", "e-there/", "../namespaces/e-there", "e-there#"] {
        let below = place(&admin, "e-child", parent).send().await;
        denied("an impossible parent", below, Of::Hierarchy, 403, &[&format!("{parent:?} does not exist")]);
    }
    // A user who may create the parent may name it before it exists; others may not.
    scene.steps.make_admin("e-child", "e-user").await?;
    scene.may("e-user", (hns_api::GROUP, "hierarchyconfigurations"), "e-child").await?;
    let below = place(&scene.user("e-user"), "e-child", "e-parent").send().await;
    denied("a missing parent", below, Of::Hierarchy, 403, &["\"e-parent\" does not exist"]);
    place(&admin, "e-child", "e-parent").dry().send().await?;
    place(&admin, "e-child", "e-there").dry().send().await?;
    // Looked up live: a user who has just created it need not wait for a cache.
    scene.steps.create_namespace("e-parent").await?;
    place(&admin, "e-child", "e-parent").send().await?;
    Ok(())
}

#[tokio::test]
async fn cycles_are_refused_even_with_all_authority() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("c-a", ""), ("c-b", "c-a"), ("c-c", "c-b")]).await?;
    scene.known(&["c-a", "c-b", "c-c"]).await?;
    let admin = scene.admin();
    for (parent, said) in [("c-a", "its own parent"), ("c-b", "c-b -> c-a"), ("c-c", "c-c -> c-b -> c-a")] {
        let below = place(&admin, "c-a", parent).send().await;
        denied("a cycle", below, Of::Hierarchy, 409, &[&format!("illegal parent {parent:?}"), said]);
    }
    assert_eq!(scene.parent("c-a").await?, "");
    place(&admin, "c-c", "c-a").send().await?;
    scene.known(&["c-a", "c-c"]).await?;
    place(&admin, "c-b", "c-c").send().await?;
    scene.known(&["c-a", "c-c", "c-b"]).await
}

const ROLE: (&[&str], &str, &str) = (&["get"], "", "configmaps");

#[tokio::test]
async fn conflicts_are_named_only_to_users_who_may_join() -> Result<()> {
    let scene = fixture::scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("x-root", ""), ("x-mid", "x-root"), ("x-child", ""), ("x-leaf", "x-child")]).await?;
    for (namespace, name) in [
        ("x-root", "plan"),
        ("x-child", "plan"),
        ("x-root", "hidden"),
        ("x-leaf", "hidden"),
        ("x-leaf", "harmless"),
    ] {
        steps.create_role(namespace, name, ROLE).await?;
    }
    steps.create_binding("x-mid", "crew", ("ClusterRole", "view"), "x-nobody").await?;
    steps.create_binding("x-leaf", "crew", ("ClusterRole", "edit"), "x-nobody").await?;
    let joiner = scene.local_admin("x-joiner", &["x-mid", "x-child"]).await?;
    let thief = scene.local_admin("x-thief", &["x-root", "x-child"]).await?;
    let join = || place(&joiner, "x-child", "x-mid");
    scene.known(&["x-root", "x-mid"]).await?;
    let role = "rbac.authorization.k8s.io/v1, Kind=Role)";
    let conflicts = [
        format!("Namespace \"x-child\": plan ({role}"),
        format!("Namespace \"x-leaf\": hidden ({role}"),
        "Namespace \"x-leaf\": crew (rbac.authorization.k8s.io/v1, Kind=RoleBinding)".to_owned(),
    ];
    let said: Vec<&str> = conflicts.iter().map(String::as_str).collect();
    scene.comes_to(409, &said, join).await?;
    let status = denied("a conflict", join().send().await, Of::Hierarchy, 409, &said);
    assert!(!status.message.contains("harmless"), "{status:?}");
    let status = hns_e2e::refusal(place(&thief, "x-child", "x-mid").send().await);
    for secret in ["x-leaf", "plan", "hidden", "crew"] {
        assert!(!status.message.contains(secret), "{status:?}");
    }
    unauthorized::<()>(
        "a thief",
        Err(kube::Error::Api(status.into())),
        "x-thief",
        ("x-mid", "the new parent"),
    );

    let gone = DeleteParams::default();
    steps.roles("x-child").delete("plan", &gone).await?;
    steps.roles("x-leaf").delete("hidden", &gone).await?;
    steps.bindings("x-leaf").delete("crew", &gone).await?;
    eventually("no conflict is left", PATIENCE, async || {
        join().dry().send().await.map_err(|error| error.to_string())
    })
    .await?;
    join().send().await?;
    steps.labelled(&["x-leaf", "x-child", "x-mid", "x-root"]).await
}

#[tokio::test]
async fn what_stays_where_it_is_conflicts_with_nothing() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("y-root", ""), ("y-child", "")]).await?;
    // One that stays, of the same name on both sides, and one that is in the child alone.
    let user = scene.local_admin("y-user", &["y-root", "y-child"]).await?;
    scene.steps.create_role("y-child", "own", ROLE).await?;
    place(&user, "y-child", "y-root").send().await?;
    scene.steps.labelled(&["y-child", "y-root"]).await
}

impl Scene {
    /// Waits until a request would be denied like this, which means that the webhook has learned what it needs.
    async fn comes_to(&self, code: u16, said: &[&str], request: impl Fn() -> Request) -> Result<()> {
        eventually(&format!("{code} naming {said:?}"), PATIENCE, async || {
            match request().dry().send().await {
                Err(kube::Error::Api(status))
                    if status.code == code && said.iter().all(|words| status.message.contains(words)) =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}
