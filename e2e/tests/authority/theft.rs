//! Moving a namespace out of its tree or into another one without consent, by every form of write of the API server.
//!
//! The attacker has every right on the namespace's own hierarchy configuration. Authorized users make the same requests.

use anyhow::Result;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually, refusal};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::fixture::{self, Scene};
use super::request::{
    APPLY, MERGE, Request, STEPS, STRATEGIC, configuration, hierarchies, hierarchy, namespace,
};
use super::verdict::{Of, denied, denied_by_rbac, unauthorized};

const NEW: &str = "the new parent";
const ROOT: &str = "the root of the tree that it would leave";

/// Every form of a write, by one user on one namespace.
type Forms = Vec<(&'static str, Request)>;

/// Requests that leave a tree.
fn ways_out(client: &Client, child: &str, stored: &Value) -> Forms {
    let (one, all) = (hierarchy(child), hierarchies(child));
    let mut without = stored.clone();
    without.as_object_mut().map(|fields| fields.remove("spec"));
    let mut without_parent = stored.clone();
    without_parent["spec"] = json!({ "allowCascadingDeletion": true });
    vec![
        ("merge an empty parent", Request::patch(client, &one, MERGE, json!({ "spec": { "parent": "" } }))),
        ("merge no parent", Request::patch(client, &one, MERGE, json!({ "spec": { "parent": null } }))),
        ("merge no spec", Request::patch(client, &one, MERGE, json!({ "spec": null }))),
        (
            "merge an empty spec and status",
            Request::patch(client, &one, MERGE, json!({ "spec": null, "status": null })),
        ),
        (
            "remove the parent",
            Request::patch(client, &one, STEPS, json!([{ "op": "remove", "path": "/spec/parent" }])),
        ),
        (
            "remove the spec",
            Request::patch(client, &one, STEPS, json!([{ "op": "remove", "path": "/spec" }])),
        ),
        (
            "apply an empty parent",
            Request::patch(client, &one, APPLY, configuration(&json!({ "parent": "" }))),
        ),
        ("replace without spec", Request::put(client, &one, without)),
        ("replace without parent", Request::put(client, &one, without_parent)),
        ("delete", Request::delete(client, &one, Value::Null)),
        ("delete at once", Request::delete(client, &one, json!({ "gracePeriodSeconds": 0 }))),
        ("delete as an orphan", Request::delete(client, &one, json!({ "propagationPolicy": "Orphan" }))),
        (
            "delete after what depends on it",
            Request::delete(client, &one, json!({ "propagationPolicy": "Foreground" })),
        ),
        ("delete all of them", Request::delete(client, &all, Value::Null)),
        (
            "delete those of a name",
            Request::delete(client, &format!("{all}?fieldSelector=metadata.name%3Dhierarchy"), Value::Null),
        ),
    ]
}

/// Requests that join the tree of `parent`.
fn ways_in(client: &Client, child: &str, parent: &str, stored: Option<&Value>) -> Forms {
    let one = hierarchy(child);
    let spec = json!({ "parent": parent });
    let apply = Request::patch(client, &one, APPLY, configuration(&spec));
    let Some(stored) = stored else {
        let create = Request::post(client, &hierarchies(child), configuration(&spec));
        return vec![("create", create), ("apply a new one", apply)];
    };
    let mut replaced = stored.clone();
    replaced["spec"] = spec.clone();
    let add = json!([{ "op": "add", "path": "/spec/parent", "value": parent }]);
    vec![
        ("merge", Request::patch(client, &one, MERGE, json!({ "spec": spec }))),
        ("add", Request::patch(client, &one, STEPS, add)),
        ("apply", apply),
        ("replace", Request::put(client, &one, replaced)),
    ]
}

#[tokio::test]
async fn no_way_of_writing_takes_a_namespace_out_of_its_tree() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("s-root", ""), ("s-mid", "s-root"), ("s-child", "s-mid")]).await?;
    // Waits, so that a form that replaces the whole object has its latest state.
    scene.steps.labelled(&["s-child", "s-mid", "s-root"]).await?;
    scene.known(&["s-root", "s-mid", "s-child"]).await?;
    let thief = scene.local_admin("s-thief", &["s-mid", "s-child"]).await?;
    let owner = scene.local_admin("s-owner", &["s-root", "s-child"]).await?;
    let stored = scene.stored("s-child").await?;

    let ways = ways_out(&thief, "s-child", &stored).into_iter().zip(ways_out(&owner, "s-child", &stored));
    for ((what, attempt), (_, allowed)) in ways {
        for attempt in [attempt.clone().dry(), attempt] {
            unauthorized(what, attempt.send().await, "s-thief", ("s-root", ROOT));
        }
        allowed.dry().send().await?;
        assert_eq!(scene.parent("s-child").await?, "s-mid", "{what}");
    }
    // The user may make changes that are no change of parent.
    let cascading = json!({ "spec": { "allowCascadingDeletion": true } });
    Request::patch(&thief, &hierarchy("s-child"), MERGE, cascading).send().await?;
    let stranger = scene.user("s-stranger");
    let (what, attempt) = ways_out(&stranger, "s-child", &stored).swap_remove(0);
    denied_by_rbac(what, attempt.send().await, "s-stranger");
    Ok(())
}

/// The tree labels of a namespace that is being deleted are those of its former place, and all that remains of it in the end.
#[tokio::test]
async fn a_namespace_that_is_being_deleted_takes_none_out_of_its_tree() -> Result<()> {
    let scene = fixture::scene().await?;
    let roots = [("nd-root", ""), ("nd-team", "nd-root"), ("nd-leaf", "nd-team"), ("nd-mid", "")];
    scene.steps.plant(&roots).await?;
    scene.steps.labelled(&["nd-leaf", "nd-team", "nd-root"]).await?;
    scene.known(&["nd-root", "nd-team", "nd-leaf"]).await?;
    let thief = scene.local_admin("nd-thief", &["nd-team", "nd-leaf", "nd-mid"]).await?;
    Request::post(&thief, &hierarchies("nd-mid"), configuration(&json!({}))).send().await?;
    scene.steps.namespaces().delete("nd-mid", &DeleteParams::default()).await?;
    let below = |parent: &str| json!({ "spec": { "parent": parent } });
    // It may be refused as well.
    let _ = Request::patch(&thief, &hierarchy("nd-mid"), MERGE, below("nd-team")).send().await;
    match Request::patch(&thief, &hierarchy("nd-leaf"), MERGE, below("nd-mid")).send().await {
        Err(kube::Error::Api(status)) => assert!([401, 503].contains(&status.code), "{status:?}"),
        other => panic!("nd-leaf can leave its tree with nd-mid: {other:?}"),
    }
    assert_eq!(scene.parent("nd-leaf").await?, "nd-team");
    Ok(())
}

#[tokio::test]
async fn no_way_of_writing_pushes_a_namespace_into_a_foreign_tree() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("j-root", ""), ("j-child", "")]).await?;
    let thief = scene.local_admin("j-thief", &["j-child"]).await?;
    let owner = scene.local_admin("j-owner", &["j-root", "j-child"]).await?;
    scene.none_gets_in((&thief, &owner), None).await?;
    let own = configuration(&json!({}));
    Request::post(&thief, &hierarchies("j-child"), own).send().await?;
    let stored = scene.stored("j-child").await?;
    scene.none_gets_in((&thief, &owner), Some(&stored)).await
}

/// Users who apply whole trees may have these rights in all namespaces. They are admin only where they may update.
#[tokio::test]
async fn the_right_to_create_hierarchies_everywhere_moves_no_namespace() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("cr-evil", ""), ("cr-new", ""), ("cr-old", "")]).await?;
    let thief = scene.local_admin("cr-thief", &["cr-evil"]).await?;
    let role = ["create", "clusterrole", "cr-applies", "--verb=create,patch,get"];
    let resource = format!("--resource=hierarchyconfigurations.{}", hns_api::GROUP);
    scene.cluster().kubectl().args(role).args([&*resource]).ok().await?;
    let binding =
        ["create", "clusterrolebinding", "cr-applies", "--clusterrole=cr-applies", "--user=cr-thief"];
    scene.cluster().kubectl().args(binding).ok().await?;
    let own = configuration(&json!({}));
    eventually("the thief may create hierarchies", PATIENCE, async || {
        let created = Request::post(&thief, &hierarchies("cr-old"), own.clone()).dry().send().await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    Request::post(&thief, &hierarchies("cr-old"), own).send().await?;
    let stored = scene.stored("cr-old").await?;
    for (namespace, stored) in [("cr-new", None), ("cr-old", Some(&stored))] {
        let ways =
            ways_in(&thief, namespace, "cr-evil", stored).into_iter().filter(|(what, _)| *what != "replace");
        for (what, attempt) in ways {
            for attempt in [attempt.clone().dry(), attempt] {
                let place = (namespace, "the namespace whose parent would change");
                unauthorized(what, attempt.send().await, "cr-thief", place);
            }
        }
    }
    Ok(())
}

/// Every form of write that sets an annotation on an existing namespace.
fn ways_of_annotating(client: &Client, name: &str, stored: &Value, parent: &str) -> Forms {
    let key = hns_api::annotations::SUBNAMESPACE_OF;
    let marks = json!({ "metadata": { "annotations": { key: parent } } });
    let apply = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "annotations": { key: parent } },
    });
    let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let steps = json!([
        { "op": "add", "path": "/metadata/annotations", "value": {} },
        { "op": "add", "path": path, "value": parent },
    ]);
    let mut replaced = stored.clone();
    replaced["metadata"]["annotations"] = marks["metadata"]["annotations"].clone();
    let (whole, status) = (namespace(name), format!("{}/status", namespace(name)));
    let finalize = format!("{}/finalize", namespace(name));
    vec![
        ("merge", Request::patch(client, &whole, MERGE, marks.clone())),
        ("strategic merge", Request::patch(client, &whole, STRATEGIC, marks.clone())),
        ("step by step", Request::patch(client, &whole, STEPS, steps)),
        ("apply", Request::patch(client, &whole, APPLY, apply.clone())),
        ("replace", Request::put(client, &whole, replaced.clone())),
        ("merge the status", Request::patch(client, &status, MERGE, marks)),
        ("apply the status", Request::patch(client, &status, APPLY, apply)),
        ("replace the status", Request::put(client, &status, replaced.clone())),
        ("finalize", Request::put(client, &finalize, replaced)),
    ]
}

const ITSELF: &str = "the namespace that would become a subnamespace";

/// The annotation gives the parent all power over the namespace, and RBAC on namespaces does not cover that.
#[tokio::test]
async fn no_way_of_annotating_takes_a_namespace_without_a_right_in_it() -> Result<()> {
    let scene = fixture::scene().await?;
    scene.steps.plant(&[("sa-evil", ""), ("sa-lone", ""), ("sa-root", ""), ("sa-child", "sa-root")]).await?;
    scene.steps.labelled(&["sa-child", "sa-root"]).await?;
    scene.known(&["sa-root", "sa-child"]).await?;
    let thief = scene.local_admin("sa-thief", &["sa-evil"]).await?;
    let owner = scene.local_admin("sa-owner", &["sa-evil", "sa-lone", "sa-root"]).await?;
    for user in ["sa-thief", "sa-owner"] {
        scene.give_namespaces(user).await?;
    }
    for victim in ["sa-lone", "sa-root", "sa-child", "default"] {
        let stored = Request::get(&scene.admin(), &namespace(victim)).send().await?;
        for (what, attempt) in ways_of_annotating(&thief, victim, &stored, "sa-evil") {
            for attempt in [attempt.clone().dry(), attempt] {
                let needed = format!("in namespace {victim:?}, which is {ITSELF}");
                denied(
                    what,
                    attempt.send().await,
                    Of::Namespace(victim),
                    401,
                    &["user \"sa-thief\"", &needed],
                );
            }
        }
    }
    // The same by an admin of both; for one of them without dry run.
    for victim in ["sa-lone", "sa-root"] {
        let stored = Request::get(&scene.admin(), &namespace(victim)).send().await?;
        for (_, allowed) in ways_of_annotating(&owner, victim, &stored, "sa-evil") {
            allowed.dry().send().await?;
        }
    }
    let stored = Request::get(&scene.admin(), &namespace("sa-lone")).send().await?;
    let (_, take) = ways_of_annotating(&owner, "sa-lone", &stored, "sa-evil").swap_remove(0);
    take.send().await?;
    scene.steps.labelled(&["sa-lone", "sa-evil"]).await?;
    scene.known(&["sa-evil", "sa-lone"]).await?;
    // It is a subnamespace now, and a user with rights on anchors alone may create its missing anchor.
    let editor = scene.anchor_editor("sa-editor", "sa-evil").await?;
    Steps::of(editor.clone()).create_anchor("sa-evil", "sa-lone").await?;
    // Being admin of the parent does not make a full child a subnamespace.
    scene.steps.plant(&[("sa-full", "sa-evil")]).await?;
    scene.known(&["sa-evil", "sa-full"]).await?;
    scene.steps.labelled(&["sa-full", "sa-evil"]).await?;
    let stored = Request::get(&scene.admin(), &namespace("sa-full")).send().await?;
    for (what, attempt) in ways_of_annotating(&thief, "sa-full", &stored, "sa-evil") {
        denied(what, attempt.send().await, Of::Namespace("sa-full"), 401, &[ITSELF]);
    }
    Ok(())
}

/// The garbage collector deletes an object whose owner is deleted, and the controller the namespace of a deleted anchor.
#[tokio::test]
async fn an_owner_reference_on_an_anchor_is_an_admins_to_add() -> Result<()> {
    let scene = fixture::scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("ow-root", "")]).await?;
    steps.create_anchor("ow-root", "ow-child").await?;
    steps.labelled(&["ow-child", "ow-root"]).await?;
    let editor = scene.anchor_editor("ow-editor", "ow-root").await?;
    let admin = scene.local_admin("ow-admin", &["ow-root"]).await?;
    scene.anchor_editor("ow-admin", "ow-root").await?;
    let anchors = format!("/apis/{}/namespaces/ow-root/subnamespaceanchors", hns_api::API_VERSION);
    let one = format!("{anchors}/ow-child");
    let missing = "00000000-0000-0000-0000-000000000000";
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": missing }]);
    let whole = |name: &str| {
        json!({
            "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor",
            "metadata": { "name": name, "ownerReferences": owner },
        })
    };
    let ways = |client: &Client| {
        let merge = json!({ "metadata": { "ownerReferences": owner } });
        let step = json!([{ "op": "add", "path": "/metadata/ownerReferences", "value": owner }]);
        [
            Request::patch(client, &one, MERGE, merge),
            Request::patch(client, &one, STEPS, step),
            Request::patch(client, &one, APPLY, whole("ow-child")),
            Request::post(client, &anchors, whole("ow-new")),
        ]
    };
    for (attempt, allowed) in ways(&editor).into_iter().zip(ways(&admin)) {
        for attempt in [attempt.clone().dry(), attempt] {
            let status = refusal(attempt.send().await);
            assert_eq!(status.code, 401, "{status:?}");
            assert!(
                status.message.contains("ow-editor") && status.message.contains("owner reference"),
                "{status:?}"
            );
        }
        allowed.dry().send().await?;
    }
    Ok(())
}

/// As HNC's user guide says: the annotation names the new parent, an anchor is created there, and the old one is deleted.
#[tokio::test]
async fn the_administrator_moves_a_subnamespace_by_hand() -> Result<()> {
    let scene = fixture::scene().await?;
    let steps = &scene.steps;
    steps.plant(&[("mm-old", ""), ("mm-new", "")]).await?;
    steps.create_anchor("mm-old", "mm-child").await?;
    steps.labelled(&["mm-child", "mm-old"]).await?;
    let kubectl = |args: &'static [&'static str]| scene.cluster().kubectl().args(args.iter().copied()).ok();
    kubectl(&["annotate", "ns", "mm-child", "hnc.x-k8s.io/subnamespace-of=mm-new", "--overwrite"]).await?;
    // The webhook hears of the annotation from its watch.
    eventually("the webhook knows the new parent", PATIENCE, async || {
        steps.create_anchor("mm-new", "mm-child").await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    kubectl(&["delete", "subns", "mm-child", "-n", "mm-old"]).await?;
    steps.labelled(&["mm-child", "mm-new"]).await
}

impl Scene {
    /// A user who may write only the anchors of one namespace.
    async fn anchor_editor(&self, user: &str, namespace: &str) -> Result<Client> {
        self.steps.create_role(namespace, user, (&["*"], hns_api::GROUP, "subnamespaceanchors")).await?;
        self.steps.create_binding(namespace, user, ("Role", user), user).await?;
        self.may(user, (hns_api::GROUP, "subnamespaceanchors"), namespace).await?;
        Ok(self.user(user))
    }

    async fn stored(&self, namespace: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.steps.hierarchies(namespace).get("hierarchy").await?)?)
    }

    async fn none_gets_in(&self, (thief, owner): (&Client, &Client), stored: Option<&Value>) -> Result<()> {
        let ways = |client| ways_in(client, "j-child", "j-root", stored);
        for ((what, attempt), (_, allowed)) in ways(thief).into_iter().zip(ways(owner)) {
            for attempt in [attempt.clone().dry(), attempt] {
                unauthorized(what, attempt.send().await, "j-thief", ("j-root", NEW));
            }
            allowed.dry().send().await?;
            assert_eq!(self.parent("j-child").await?, "", "{what}");
        }
        Ok(())
    }
}
