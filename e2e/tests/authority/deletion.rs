//! Deleting a hierarchy configuration: with a parent, this leaves the tree; in a namespace that is being deleted, everyone may;
//! and no deletion by another component circumvents the rule.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hns_e2e::{Process, Signal, eventually, refusal, stays};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::fixture::{self, Scene};
use super::request::{MERGE, Request, configuration, hierarchies, hierarchy, namespace, place};
use super::verdict::{Of, denied, denied_by_rbac, unauthorized};

const ROOT: &str = "the root of the tree that it would leave";

#[tokio::test]
async fn deleting_it_is_leaving_the_tree() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("d-root", ""), ("d-mid", "d-root"), ("d-child", "d-mid"), ("d-lone", "")]).await?;
    scene.steps.labelled(&["d-child", "d-mid", "d-root"]).await?;
    scene.known(&["d-root", "d-mid", "d-child"]).await?;
    let own = scene.local_admin("d-own", &["d-child", "d-mid", "d-lone"]).await?;
    let root = scene.local_admin("d-top", &["d-root", "d-child"]).await?;
    let delete = |client, namespace| Request::delete(client, &hierarchy(namespace), Value::Null);

    unauthorized("the child's admin", delete(&own, "d-child").send().await, "d-own", ("d-root", ROOT));
    assert_eq!(scene.parent("d-child").await?, "d-mid");
    scene.steps.labelled(&["d-child", "d-mid", "d-root"]).await?;
    delete(&root, "d-child").send().await?;
    scene.steps.labelled(&["d-child"]).await?;

    // Without a parent no other namespace is concerned.
    Request::post(&own, &hierarchies("d-lone"), configuration(&json!({ "allowCascadingDeletion": true })))
        .send()
        .await?;
    delete(&own, "d-lone").send().await?;
    Ok(())
}

#[tokio::test]
async fn deleting_them_all_is_judged_one_by_one() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("a-root", ""), ("a-child", "a-root"), ("a-lone", "")]).await?;
    scene.steps.labelled(&["a-child", "a-root"]).await?;
    scene.known(&["a-root", "a-child"]).await?;
    let own = scene.local_admin("a-own", &["a-child", "a-lone"]).await?;
    scene.local_admin("a-top", &["a-root", "a-child"]).await?;
    Request::post(&own, &hierarchies("a-lone"), configuration(&json!({}))).send().await?;
    let all = |user: &str, namespace: &str| {
        let kubectl = scene.cluster().kubectl().as_user(user, &[]);
        kubectl.args(["delete", "hierarchyconfigurations", "--all", "-n", namespace])
    };

    let refused = all("a-own", "a-child").run().await?;
    assert!(!refused.success(), "{refused}");
    for said in ["user \"a-own\" is not authorized", "\"a-root\", which is the root of the tree"] {
        assert!(refused.stderr.contains(said), "{said}: {refused}");
    }
    println!("kubectl delete --all by the child's admin: {}", refused.stderr.trim());
    let collection = Request::delete(&own, &hierarchies("a-child"), Value::Null).send().await;
    unauthorized("a whole collection", collection, "a-own", ("a-root", ROOT));
    assert_eq!(scene.parent("a-child").await?, "a-root");

    let done = all("a-own", "a-lone").ok().await?;
    assert!(done.contains("\"hierarchy\" deleted"), "{done}");
    let done = all("a-top", "a-child").ok().await?;
    assert!(done.contains("\"hierarchy\" deleted"), "{done}");
    scene.steps.labelled(&["a-child"]).await?;
    place(&scene.admin(), "a-child", "a-root").send().await?;
    scene.known(&["a-root", "a-child"]).await?;
    let top = scene.user("a-top");
    Request::delete(&top, &hierarchies("a-child"), Value::Null).send().await?;
    scene.steps.labelled(&["a-child"]).await
}

/// A stopped process of the control plane, continued when dropped.
struct Paused(Arc<Process>);

impl Paused {
    fn now(process: Arc<Process>) -> Result<Self> {
        process.signal(Signal::STOP)?;
        Ok(Self(process))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // A process that has ended cannot be continued; a running one must be, for other tests.
        let _ = self.0.signal(Signal::CONT);
    }
}

#[tokio::test]
async fn in_a_terminating_namespace_it_is_anyones_to_delete() -> Result<()> {
    let scene = fixture::alone().await?;
    let children = ["g-one", "g-all"];
    scene.steps.plant(&[("g-root", ""), ("g-one", "g-root"), ("g-all", "g-root")]).await?;
    let own = scene.local_admin("g-own", &children).await?;
    let one = || Request::delete(&own, &hierarchy("g-one"), Value::Null);
    let all = || Request::delete(&own, &hierarchies("g-all"), Value::Null);
    for child in children {
        scene.known(&["g-root", child]).await?;
    }
    unauthorized("while it stays", one().send().await, "g-own", ("g-root", ROOT));
    unauthorized("while it stays", all().send().await, "g-own", ("g-root", ROOT));
    denied_by_rbac("a stranger", place(&scene.user("g-stranger"), "g-one", "").send().await, "g-stranger");

    // If they ran, they would delete the configuration before the user does.
    let paused = Paused::now(scene.cluster().controller_manager())?;
    let namespaces: Api<Namespace> = Api::all(scene.admin());
    for child in children {
        namespaces.delete(child, &DeleteParams::default()).await?;
        assert_eq!(scene.parent(child).await?, "g-root", "{child} is terminating with all that it holds");
    }
    let leave = Request::patch(&own, &hierarchy("g-one"), MERGE, json!({ "spec": { "parent": "" } }));
    unauthorized("a way out, even now", leave.send().await, "g-own", ("g-root", ROOT));
    one().send().await?;
    all().send().await?;
    for child in children {
        assert!(scene.steps.hierarchies(child).get_opt("hierarchy").await?.is_none(), "{child}");
    }
    drop(paused);
    scene.steps.gone("g-one").await?;
    scene.steps.gone("g-all").await
}

/// An editor of the parent deletes the anchor while no controller acts, and gives the subnamespace a child, so that it stays.
#[tokio::test]
async fn nothing_joins_a_subnamespace_whose_anchor_is_being_deleted() -> Result<()> {
    const SAID: [&str; 2] =
        ["the anchor \"je-sub\" in namespace \"je-root\" is being deleted", "wait until it is gone"];
    let scene = fixture::alone().await?;
    let steps = &scene.steps;
    steps.plant(&[("je-root", ""), ("je-one", ""), ("je-two", "")]).await?;
    steps.create_anchor("je-root", "je-sub").await?;
    steps.labelled(&["je-sub", "je-root"]).await?;
    let sam = scene.local_admin("je-sam", &["je-sub", "je-one", "je-two"]).await?;
    scene.give_namespaces("je-sam").await?;
    place(&sam, "je-one", "je-sub").dry().send().await?;

    let paused = Paused::now(scene.controller().process())?;
    steps.anchors("je-root").delete("je-sub", &DeleteParams::default()).await?;
    // Until the webhook has seen the deletion, it tells all others to wait.
    let joined =
        eventually("the webhook knows the deletion", Duration::from_secs(10), async || {
            match place(&sam, "je-one", "je-sub").send().await {
                Err(kube::Error::Api(status)) if status.code == 503 => Err(status.message),
                other => Ok(other),
            }
        });
    denied("a hierarchy configuration", joined.await?, Of::Hierarchy, 409, &SAID);
    let annotations = json!({ hns_api::annotations::SUBNAMESPACE_OF: "je-sub" });
    let annotated = |name: &str| json!({ "metadata": { "name": name, "annotations": annotations } });
    let there = Request::patch(&sam, &namespace("je-two"), MERGE, annotated("je-two")).send().await;
    denied("an annotation", there, Of::Namespace("je-two"), 409, &SAID);
    let new = Request::post(&sam, "/api/v1/namespaces", annotated("je-new")).send().await;
    denied("a new namespace", new, Of::Namespace("je-new"), 409, &SAID);
    let status = refusal(steps.create_anchor("je-sub", "je-below").await);
    assert_eq!(status.code, 409, "{status:?}");
    assert!(SAID.iter().all(|said| status.message.contains(said)), "{status:?}");
    drop(paused);
    steps.gone("je-sub").await?;
    eventually("the anchor goes, too", Duration::from_secs(10), async || {
        match steps.anchors("je-root").get_opt("je-sub").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

impl<H> Scene<H> {
    /// Deletes a leaf with its contents as a user who may delete namespaces, and nothing else.
    async fn delete_leaf(&self, (root, leaf, user): (&str, &str, &str)) -> Result<()> {
        self.steps.labelled(&[leaf, root]).await?;
        self.steps.binding_arrives(&[leaf], "viewers", root, "somebody").await?;
        let remove = Request::delete(&self.user(user), &hierarchy(leaf), Value::Null).send().await;
        denied_by_rbac("the configuration alone", remove, user);
        let kubectl = self.cluster().kubectl().as_user(user, &[]);
        let done = kubectl.args(["delete", "namespace", leaf, "--timeout=60s"]).ok().await?;
        assert!(done.contains("deleted"), "{done}");
        self.steps.gone(leaf).await
    }

    async fn full_leaf(&self, (root, leaf, user): (&str, &str, &str)) -> Result<()> {
        self.steps.plant(&[(root, ""), (leaf, root)]).await?;
        self.steps.create_binding(root, "viewers", ("ClusterRole", "view"), "somebody").await?;
        let mut kept = ConfigMap::default();
        kept.metadata.name = Some("kept".into());
        Api::namespaced(self.admin(), leaf).create(&PostParams::default(), &kept).await?;
        self.give_namespaces(user).await
    }
}

#[tokio::test]
async fn a_full_leaf_goes_by_who_may_only_delete_namespaces() -> Result<()> {
    let scene = fixture::scene().await?;
    let leaf = ("l-root", "l-leaf", "l-remover");
    scene.full_leaf(leaf).await?;
    scene.delete_leaf(leaf).await
}

#[tokio::test]
async fn a_full_leaf_goes_while_the_webhook_is_dead() -> Result<()> {
    let mut scene = fixture::alone().await?;
    let leaf = ("q-root", "q-leaf", "q-remover");
    scene.full_leaf(leaf).await?;
    scene.steps.labelled(&["q-leaf", "q-root"]).await?;
    scene.webhook.kill().await?;
    scene.delete_leaf(leaf).await?;
    scene.webhook.restart().await
}

/// A user who may write an owner reference can make the garbage collector delete.
#[tokio::test]
async fn the_garbage_collector_takes_nothing_out_of_a_tree() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("z-root", ""), ("z-child", "z-root"), ("z-lone", "")]).await?;
    scene.known(&["z-root", "z-child"]).await?;
    let thief = scene.local_admin("z-thief", &["z-child", "z-lone"]).await?;
    Request::post(&thief, &hierarchies("z-lone"), configuration(&json!({}))).send().await?;
    let dead = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "00000000-0000-4000-8000-000000000000",
    }]);
    let disown = json!({ "metadata": { "ownerReferences": dead } });
    let mark = scene.cluster().audit().mark()?;
    for namespace in ["z-child", "z-lone"] {
        Request::patch(&thief, &hierarchy(namespace), MERGE, disown.clone()).send().await?;
    }
    // A deletion that is allowed shows that the garbage collector handles these objects by now.
    eventually("the garbage collector deletes what is in no tree", Duration::from_secs(90), async || {
        match scene.steps.hierarchies("z-lone").get_opt("hierarchy").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let tried = eventually("it tries the other one as well", Duration::from_secs(30), async || {
        let events = scene.cluster().audit().since(mark).map_err(|error| error.to_string())?;
        let by_it = |user: &str| user == "system:serviceaccount:kube-system:generic-garbage-collector";
        let attempt = events
            .into_iter()
            .find(|event| by_it(&event.user) && event.verb == "delete" && event.namespace == "z-child");
        attempt.ok_or_else(|| "not yet".to_owned())
    });
    assert_eq!(tried.await?.code, 401);
    stays("it keeps its parent", Duration::from_secs(1), async || {
        let parent = scene.parent("z-child").await.map_err(|error| error.to_string())?;
        if parent == "z-root" { Ok(()) } else { Err(parent) }
    })
    .await
}
