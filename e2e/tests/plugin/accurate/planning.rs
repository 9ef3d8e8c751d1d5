//! `kubectl accurate plan` compared with what then happens: each verb is planned, run, and compared. And what would be refused.

use std::collections::BTreeSet;
use std::time::Duration;

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::{Value, json};

use super::scene::{World, world};
use crate::plugin::fixture::Output;
use crate::plugin::planning::snapshot::{Effects, Snapshot};

/// The time for the deletion of a namespace.
const GOING: Duration = Duration::from_secs(90);

fn secret(place: &str, mode: &str) -> Value {
    let (namespace, name) = place.split_once('/').unwrap();
    let annotations = json!({ "accurate.cybozu.com/propagate": mode });
    json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "of": namespace },
        "metadata": { "name": name, "namespace": namespace, "annotations": annotations } })
}

impl World {
    async fn look(&self, prefix: &str) -> Result<Snapshot, String> {
        Snapshot::look(&self.steps.client, prefix).await.map_err(|error| error.to_string())
    }

    /// The plan of a verb, when nothing is pending and the result of admission is the expected one.
    async fn planned(&self, words: &str, outcome: &str) -> Value {
        eventually(&format!("the plan of {words} is {outcome}"), PATIENCE, async || {
            let output = self.run(&format!("plan {words} -o json")).await;
            let plan: Value =
                serde_json::from_str(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?;
            let is_settled = plan["pending"] == 0 && plan["verdict"]["outcome"] == outcome;
            if is_settled && output.code == Some(i32::from(outcome == "refused")) {
                Ok(plan)
            } else {
                Err(format!("{output:?}"))
            }
        })
        .await
        .unwrap()
    }

    /// Plans a verb, runs it, and compares what was planned with what happens. Returns the objects that are kept.
    async fn comes_true(&self, prefix: &str, words: &str) -> Vec<Value> {
        let plan = self.planned(words, "allowed").await;
        let before = self.look(prefix).await.unwrap();
        let foretold = Effects::foretold(&plan);
        let known = ["secrets", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"];
        let known = known.map(str::to_owned).into();
        let done = self.run(words).await;
        assert_eq!(done.code, Some(0), "{words}: {done:?}");
        let deletes = foretold.namespaces.iter().any(|it| it[0] == "delete");
        let patience = if deletes { GOING } else { PATIENCE };
        let after = eventually(&format!("what was planned for {words} happens"), patience, async || {
            let now = self.look(prefix).await?;
            let seen = before.became(&now, &known);
            if seen == foretold {
                Ok(now)
            } else {
                Err(format!("{seen:#?}\nwhere this was foretold: {foretold:#?}"))
            }
        })
        .await
        .unwrap();
        after.holds(&foretold);
        println!("{words}: {:?}, {} SubNamespaces", foretold.sizes(), foretold.forms.len());
        assert_ne!(foretold, Effects::default(), "{words} has effects");
        plan["kept"].as_array().cloned().unwrap_or_default()
    }
}

/// A tree of three levels, another root, a template, and a namespace.
async fn plant(world: &World) {
    for root in ["pl-root", "pl-other"] {
        world.create_root(root).await;
    }
    world.create_sub("pl-sub", "pl-root").await;
    world.create_sub("pl-low", "pl-sub").await;
    for name in ["pl-n", "pl-tpl"] {
        world.create_namespace(name).await;
    }
    let team = |name: &str, team: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { "team": team } } });
    world
        .fixture
        .apply(&[
            team("pl-root", "red"),
            team("pl-tpl", "green"),
            secret("pl-root/a", "update"),
            secret("pl-root/once", "create"),
            secret("pl-other/b", "update"),
            secret("pl-other/own", "update"),
            secret("pl-sub/own", ""),
            secret("pl-tpl/t", "update"),
        ])
        .await;
    world.labelled("pl-low", "team", Some("red")).await;
}

#[tokio::test]
async fn what_is_planned_is_what_happens_for_every_verb() {
    let world = world().await;
    plant(&world).await;
    let mut kept = Vec::new();
    for words in [
        "ns set-type pl-tpl template",
        "template set pl-n pl-tpl",
        "sub create pl-new pl-sub --labels tier=2,other=x",
        "sub move pl-sub pl-other",
        "sub move pl-sub pl-root --leave-original",
        "sub cut pl-sub",
        // The label of its creation stays.
        "template set pl-sub pl-tpl",
        "template unset pl-n",
        "sub graft pl-n pl-other",
        "sub move pl-new pl-other --leave-original",
        // The original creates it again.
        "sub delete pl-new",
        "sub delete pl-new",
    ] {
        let conflicts = world.comes_true("pl-", words).await;
        kept.extend(conflicts.iter().map(|it| format!("{words}: {} {}", it["namespace"], it["name"])));
    }
    assert_eq!(kept, ["sub move pl-sub pl-other: \"pl-sub\" \"own\""]);
}

#[tokio::test]
async fn a_plan_writes_nothing_and_refuses_as_the_verb_does() {
    let world = world().await;
    for name in ["pw-root", "pw-strict"] {
        world.create_root(name).await;
    }
    world.create_sub("pw-sub", "pw-root").await;
    world.create_sub("pw-low", "pw-sub").await;
    world.create_namespace("pw-n").await;
    for (words, message) in [
        ("sub create pw-new pw-n", "namespace pw-n is neither a root nor a sub namespace"),
        ("sub create pw-new pw-strict", "is not match naming policies"),
        ("sub create pw-new pw-root --labels a/b/c=d", "spec.labels"),
        ("sub delete pw-sub", "child namespaces exist"),
        ("sub move pw-sub pw-low", "circular reference is not permitted"),
        ("sub move pw-sub pw-strict", "is not match naming policies"),
        ("sub move pw-sub pw-gone", "parent namespace does not exist: pw-gone"),
        ("sub graft pw-root pw-strict", "there are sub-namespaces under pw-root"),
        ("template set pw-n pw-root", "pw-root is not a valid template namespace"),
        ("ns set-type pw-root none", "there are sub-namespaces under pw-root"),
        ("ns set-type pw-sub root", "a sub-namespace cannot be a root or a template"),
    ] {
        let plan = world.planned(words, "refused").await;
        let said = plan["verdict"]["message"].as_str().unwrap();
        assert!(said.contains(message) && plan["verdict"]["code"] == 403, "{words}: {plan:#}");
        assert_eq!(Effects::foretold(&plan), Effects::default(), "{words}");
        let refused = world.run(words).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(said), "{words}: {refused:?}");
    }
    for (words, error) in [
        (
            "sub create pw-n pw-root",
            "Error: namespace pw-n already exists\nChoose another name. To make it a sub-namespace of pw-root, use `kubectl accurate \
             sub graft pw-n pw-root`.\n",
        ),
        (
            "sub create pw-sub pw-root",
            "Error: namespace pw-sub already exists\nChoose another name. It is a sub-namespace of pw-root already.\n",
        ),
        (
            "sub create pw-sub pw-gone",
            "Error: namespace pw-sub already exists\nChoose another name. Also, SubNamespace pw-gone/pw-sub cannot be created: ",
        ),
        ("sub delete pw-n", "Error: pw-n is not a sub-namespace\n"),
        ("sub move pw-n pw-root", "Error: pw-n is not a sub-namespace\n"),
        ("sub graft pw-sub pw-strict", "Error: pw-sub is a sub-namespace of pw-root"),
        ("sub cut pw-n", "Error: pw-n is not a sub-namespace\n"),
        ("ns set-type pw-n Root", "Error: invalid type: Root\n"),
        ("template set pw-gone pw-n", "Error: namespace pw-gone cannot be read: "),
    ] {
        world.run(&format!("plan {words}")).await.fails(error);
    }
    world.create_namespace("pw-t").await;
    world.run("ns set-type pw-t template").await.says("success\n");
    for (words, hint) in [
        ("sub create pw-new pw-n", "`kubectl accurate namespace set-type pw-n root` makes it a root."),
        ("sub move pw-sub pw-n", "`kubectl accurate namespace set-type pw-n root` makes it a root."),
        ("sub graft pw-strict pw-n", "`kubectl accurate namespace set-type pw-n root` makes it a root."),
        ("sub create pw-new pw-t", "pw-t is a template, which can have no sub-namespaces."),
        ("sub graft pw-n pw-t", "pw-t is a template, which can have no sub-namespaces."),
        ("sub graft pw-n pw-gone", "`kubectl get namespaces` shows all namespaces."),
        (
            "template set pw-t pw-n",
            "`kubectl accurate namespace set-type pw-n template` makes it a template.",
        ),
        ("template set pw-n pw-root", "pw-root is a root, which can be no template."),
        (
            "template set pw-n pw-gone",
            "The template pw-gone does not exist. `kubectl get namespaces` shows all namespaces.",
        ),
    ] {
        for words in [format!("plan {words}"), words.to_owned()] {
            let refused = world.run(&words).await;
            assert!(refused.stderr.ends_with(&format!("\n{hint}\n")), "{words}: {refused:?}");
        }
    }
    let before = world.look("pw-").await.unwrap();
    let plan = world.run("plan sub cut pw-sub").await;
    let wanted = "\
pw-sub would be a root namespace
This would be allowed.

Namespaces:
  pw-sub: label accurate.cybozu.com/parent=pw-root would be removed
  pw-sub: label accurate.cybozu.com/type=root would be added

SubNamespaces:
  pw-sub in pw-root would be deleted

Totals: objects: 0 created, 0 updated, 0 overwritten, 0 deleted; namespaces: 0 created, 0 deleted, 1 changed; labels: 2 changed.
";
    let shown = plan.stdout.split("Without this change").next();
    assert_eq!((plan.code, shown, &*plan.stderr), (Some(0), Some(wanted), ""));
    for words in ["plan set pw-sub --parent default", "plan create pw-new -n pw-root"] {
        let refused = world.fixture.hns(words).await;
        let hint = "use `kubectl hns convert ROOT --to hnc`";
        assert!(refused.code == Some(1) && refused.stderr.contains(hint), "{words}: {refused:?}");
    }
    let deletion = world.fixture.hns("plan delete pw-low").await;
    let again = "  pw-low would be created again by SubNamespace pw-sub/pw-low\n";
    assert!(deletion.stdout.contains(again), "{deletion:?}");
    assert!(deletion.stderr.contains("`kubectl accurate sub delete pw-low` deletes it"), "{deletion:?}");
    world.planned("sub move pw-sub pw-root", "allowed").await;
    assert_eq!(world.look("pw-").await.unwrap(), before);
}

/// The `SubNamespace` in the new parent exists before the namespace names that, so its creation is judged with the labels of before.
#[tokio::test]
async fn a_plan_of_a_move_knows_that_the_children_must_consent() {
    let world = world().await;
    for root in ["pc-one", "pc-two"] {
        world.create_root(root).await;
    }
    world.create_sub("pc-sub", "pc-one").await;
    world.create_sub("pc-low", "pc-sub").await;
    let kubectl = async |words: &str| {
        world.fixture.cluster.kubectl().args(words.split(' ')).ok().await.unwrap();
    };
    kubectl("create clusterrole pc-movers --verb=get,list,update --resource=namespaces").await;
    kubectl("create clusterrolebinding pc-movers --clusterrole=pc-movers --user=pcu").await;
    for (namespace, role) in [("pc-one", "edit"), ("pc-two", "edit"), ("pc-sub", "admin")] {
        kubectl(&format!("create rolebinding pcu -n {namespace} --clusterrole={role} --user=pcu")).await;
    }
    let words = "sub move pc-sub pc-two --as pcu";
    let needed = "the right to update hierarchyconfigurations.hnc.x-k8s.io in namespace \"pc-low\" is needed";
    let planned = async |is_it: fn(&Output) -> bool| {
        eventually("pcu's rights are in force", PATIENCE, async || {
            let plan = world.run(&format!("plan {words}")).await;
            if is_it(&plan) { Ok(plan) } else { Err(format!("{plan:?}")) }
        })
        .await
        .unwrap()
    };
    let plan = planned(|plan| plan.stdout.contains("existing namespaces name it as their parent")).await;
    assert!(plan.code == Some(1) && plan.stdout.contains(needed), "{plan:?}");
    let refused = world.run(words).await;
    assert!(refused.code == Some(1) && refused.stderr.contains(needed), "{refused:?}");
    kubectl("create rolebinding pcu -n pc-low --clusterrole=admin --user=pcu").await;
    planned(|plan| plan.code == Some(0)).await;
    let moved = world.run(words).await;
    assert!(moved.stdout.contains("the parent has changed to pc-two"), "{moved:?}");
}

/// The example of docs/accurate-plugin.md.
#[tokio::test]
async fn the_example_of_the_documentation_is_what_is_printed() {
    let world = world().await;
    for root in ["team", "shop"] {
        world.create_root(root).await;
    }
    world.create_plain_sub("web", "team").await;
    world.create_plain_sub("web-test", "web").await;
    let sources = ["team/registry", "team/vpn", "shop/registry", "shop/tls"];
    let own = [secret("web/tls", "")];
    world.fixture.apply(&[&sources.map(|it| secret(it, "update"))[..], &own].concat()).await;
    let page = include_str!("../../../../docs/accurate-plugin.md");
    let (_, section) = page.split_once("\n## Plan a change\n").unwrap();
    let (_, block) = section.split_once("```sh\nkubectl accurate ").unwrap();
    let (words, shown) = block.split_once("\n```\n\n```text\n").unwrap();
    let shown = shown.split_once("```").unwrap().0;
    world.until(words, shown).await;
}

/// A user with rights in one namespace alone gets what these show, with a note about what is not known.
#[tokio::test]
async fn what_the_user_may_not_see_is_said() {
    let world = world().await;
    world.create_root("pu-root").await;
    world.create_sub("pu-sub", "pu-root").await;
    world.fixture.apply(&[secret("pu-sub/a", "update")]).await;
    let kubectl = |words: &'static str| world.fixture.cluster.kubectl().args(words.split(' ')).ok();
    kubectl("create clusterrole pu-tenant --verb=get,list,create,update,delete --resource=subnamespaces.accurate.cybozu.com,namespaces")
        .await
        .unwrap();
    kubectl("create rolebinding pu-una -n pu-sub --clusterrole=pu-tenant --user=una").await.unwrap();
    let planned = async |words: &str, is_in_force: fn(&Value) -> bool| {
        eventually("una's rights are in force", PATIENCE, async || {
            let output = world.run(words).await;
            let plan: Value = serde_json::from_str(&output.stdout).map_err(|_| format!("{output:?}"))?;
            if is_in_force(&plan["verdict"]["outcome"]) { Ok(plan) } else { Err(format!("{plan:#}")) }
        })
        .await
        .unwrap()
    };
    let plan = planned("plan sub create pu-new pu-sub --as una -o json", |it| it == "allowed").await;
    let namespaces: BTreeSet<_> =
        plan["namespaces"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(namespaces.contains("pu-new"), "{plan:#}");
    let notes = plan["notes"].to_string();
    for hidden in ["SubNamespaces in pu-root", "secrets", "may not read namespace pu-new: "] {
        assert!(notes.contains(hidden), "{hidden}: {plan:#}");
    }
    assert_eq!(plan["pending"], Value::Null, "{plan:#}");
    let refused = world.run("plan sub delete pu-sub --as una").await;
    assert!(refused.code == Some(1) && refused.stdout.contains("user \"una\" may not delete"), "{refused:?}");
    // Who may not list the SubNamespaces above, but read them, sees that one of them goes.
    kubectl("create clusterrole pu-reader --verb=get,delete --resource=subnamespaces.accurate.cybozu.com")
        .await
        .unwrap();
    kubectl("create rolebinding pu-una -n pu-root --clusterrole=pu-reader --user=una").await.unwrap();
    let plan = planned("plan sub cut pu-sub --as una -o json", |it| it != "refused").await;
    let goes = json!([{ "namespace": "pu-root", "name": "pu-sub", "action": "delete" }]);
    assert_eq!(plan["subNamespaces"], goes, "{plan:#}");
    // Whether an object is in the way is not known.
    world.create_namespace("pu-n").await;
    world.fixture.apply(&[secret("pu-root/a", "update"), secret("pu-n/a", "")]).await;
    kubectl("create clusterrole pu-placer --verb=get,update --resource=namespaces,hierarchyconfigurations.hnc.x-k8s.io")
        .await
        .unwrap();
    kubectl("create rolebinding pu-uma -n pu-n --clusterrole=pu-placer --user=uma").await.unwrap();
    kubectl("create rolebinding pu-uma -n pu-root --clusterrole=edit --user=uma").await.unwrap();
    let plan = planned("plan sub graft pu-n pu-root --as uma -o json", |it| it == "allowed").await;
    let secrets: Vec<_> =
        plan["objects"].as_array().unwrap().iter().filter(|it| it["resource"] == "secrets").collect();
    let wanted = json!([{
        "namespace": "pu-n", "resource": "secrets", "name": "a", "action": "create", "source": "pu-root", "mayExist": true,
    }]);
    assert_eq!((json!(secrets), &plan["totals"]["objectsCreated"]), (wanted, &json!(0)), "{plan:#}");
}

/// The webhook knows the objects of a watched kind before HNC's API propagates the kind, and the plan judges as it does.
#[tokio::test]
async fn a_conflict_of_a_watched_kind_refuses_its_configuration() {
    let world = world().await;
    world.steps.plant(&[("wt-top", ""), ("wt-low", "wt-top")]).await.unwrap();
    for kind in ["Secret", "ConfigMap"] {
        let objects = ["wt-top", "wt-low"].map(|namespace| {
            json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "wt-map", "namespace": namespace } })
        });
        world.fixture.apply(&objects).await;
    }
    let way = "object \"wt-map\" in namespace \"wt-low\" is in the way of the one in \"wt-top\" (secrets)";
    let refused = world.fixture.hns("plan config set-resource secrets --mode Propagate").await;
    assert!(
        refused.code == Some(1) && refused.stdout.contains("This would be refused (409 Conflict)"),
        "{refused:?}"
    );
    assert!(refused.stdout.contains(way), "{refused:?}");
    let done = world.fixture.hns("config set-resource secrets --mode Propagate --force").await;
    assert!(done.code == Some(1) && done.stderr.contains(way), "{done:?}");
    let unwatched = world.fixture.hns("plan config set-resource configmaps --mode Propagate").await;
    let kept = "configmaps wt-map in wt-low would be kept; the one of wt-top would not be copied";
    assert!(unwatched.code == Some(0) && unwatched.stdout.contains(kept), "{unwatched:?}");
}

/// Who may not read the parent or the `SubNamespace` that a change names sees the effects that follow if they fit, as the API server says.
#[tokio::test]
async fn what_the_api_server_accepts_is_presumed() {
    let world = world().await;
    world.create_root("pp-root").await;
    world.create_plain_sub("pp-sub", "pp-root").await;
    world.create_namespace("pp-own").await;
    world.fixture.apply(&[secret("pp-root/a", "update")]).await;
    let allow = async |namespace: &str, verbs: &str, resources: &str| {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        let role = format!("pp-{}-{}", verbs.len(), resources.len());
        let kubectl = world.fixture.cluster.kubectl();
        kubectl.args(["create", "role", &role, "-n", namespace, &verbs, &resources]).ok().await.unwrap();
        let bind = ["create", "rolebinding", &role, "-n", namespace, "--user=uli", "--role", &role];
        world.fixture.cluster.kubectl().args(bind).ok().await.unwrap();
    };
    allow("pp-root", "create,delete", "subnamespaces.accurate.cybozu.com").await;
    allow("pp-root", "list", "secrets").await;
    allow("pp-sub", "get", "namespaces").await;
    allow("pp-own", "get,update", "namespaces,hierarchyconfigurations.hnc.x-k8s.io").await;
    let planned = async |words: &str| {
        eventually("uli's rights are in force", PATIENCE, async || {
            let output = world.run(&format!("plan {words} --as uli -o json")).await;
            let plan: Value = serde_json::from_str(&output.stdout).map_err(|_| format!("{output:?}"))?;
            if plan["verdict"]["outcome"] == "allowed" { Ok(plan) } else { Err(format!("{plan:#}")) }
        })
        .await
        .unwrap()
    };
    let unread = "read the labels and annotations of pp-root";
    for (words, namespace, action) in [
        ("sub create pp-new pp-root", "pp-new", "create"),
        ("sub delete pp-sub", "pp-sub", "delete"),
        ("sub graft pp-own pp-root", "pp-own", "change"),
    ] {
        if action == "change" {
            // The command reads whether there is one already.
            allow("pp-root", "get", "subnamespaces.accurate.cybozu.com").await;
        }
        let plan = planned(words).await;
        let found = plan["namespaces"].as_array().unwrap().iter().map(|it| (&it["name"], &it["action"]));
        assert_eq!(found.collect::<Vec<_>>(), [(&json!(namespace), &json!(action))], "{words}: {plan:#}");
        assert!(plan["notes"].to_string().contains(unread), "{words}: {plan:#}");
        assert_eq!(plan["totalsAtLeast"], true, "{words}: {plan:#}");
        assert_eq!(plan["subNamespaces"][0].get("stalled"), None, "{words}: {plan:#}");
        let creates =
            |it: &Value| it["namespace"] == namespace && it["name"] == "a" && it["action"] == "create";
        let is_copied = plan["objects"].as_array().unwrap().iter().any(creates);
        assert_eq!(is_copied, action != "delete", "{words}: {plan:#}");
    }
}
