//! Each output form of `plan`; and that nothing is written.

use std::collections::BTreeSet;

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::Value;

use super::super::fixture::{Output, live};

/// Without changes that other tests have pending.
fn text(output: &Output) -> String {
    let lines = output.stdout.lines().filter(|line| !line.starts_with("Without this change"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[tokio::test]
async fn a_new_parent_is_planned_and_not_set() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("ps-old", ""), ("ps-new", ""), ("ps-n", "ps-old"), ("ps-below", "ps-n")]).await.unwrap();
    steps.create_binding("ps-old", "of-old", ("ClusterRole", "view"), "alice").await.unwrap();
    steps.create_binding("ps-new", "of-new", ("ClusterRole", "view"), "bob").await.unwrap();
    steps.binding_arrives(&["ps-n", "ps-below"], "of-old", "ps-old", "alice").await.unwrap();
    steps.labelled(&["ps-below", "ps-n", "ps-old"]).await.unwrap();
    let plan = live.hns("plan set ps-n --parent ps-new").await;
    let binding = "rolebindings.rbac.authorization.k8s.io";
    let wanted = format!(
        "The parent of ps-n would change from ps-old to ps-new\nThis would be allowed.\n\nNamespaces:\n\
        \x20 ps-below: label ps-new.tree.hnc.x-k8s.io/depth=2 would be added\n\
        \x20 ps-below: label ps-old.tree.hnc.x-k8s.io/depth=2 would be removed\n\
        \x20 ps-n: the parent would change from ps-old to ps-new\n\
        \x20 ps-n: label ps-new.tree.hnc.x-k8s.io/depth=1 would be added\n\
        \x20 ps-n: label ps-old.tree.hnc.x-k8s.io/depth=1 would be removed\n\
        \x20 ps-new: label hnc.x-k8s.io/has-children=true would be added\n\
        \x20 ps-old: label hnc.x-k8s.io/has-children=true would be removed\n\n\
        Objects:\n\
        \x20 {binding} of-new in ps-below would be created, from ps-new\n\
        \x20 {binding} of-old in ps-below would be deleted\n\
        \x20 {binding} of-new in ps-n would be created, from ps-new\n\
        \x20 {binding} of-old in ps-n would be deleted\n\n\
        Totals: objects: 2 created, 0 updated, 0 overwritten, 2 deleted; namespaces: 0 created, 0 deleted, 4 changed; \
        labels: 6 changed.\n"
    );
    assert_eq!((plan.code, &*text(&plan), &*plan.stderr), (Some(0), &*wanted, ""));
    steps.labelled(&["ps-below", "ps-n", "ps-old"]).await.unwrap();

    let json = live.hns("plan set ps-n --parent ps-new -o json").await.json();
    assert_eq!(json["verdict"]["outcome"], "allowed");
    assert_eq!((&json["totals"]["objectsCreated"], &json["totals"]["labelsChanged"]), (&2.into(), &6.into()));
    let yaml = live.hns("plan -o yaml set ps-n --root").await;
    assert!(yaml.code == Some(0) && yaml.stdout.contains("objectsDeleted: 2"), "{yaml:?}");

    let refused = live.hns("plan set ps-old --parent ps-below").await;
    let words = "This would be refused (409 Conflict): illegal parent \"ps-below\": this would make a cycle";
    assert_eq!((refused.code, &*refused.stderr), (Some(1), "Error: this would be refused\n"), "{refused:?}");
    assert!(refused.stdout.contains(words) && !refused.stdout.contains("Totals"), "{refused:?}");
    let same = live.hns("plan set ps-n --parent ps-old").await;
    assert!(text(&same).ends_with("already ps-old; unchanged\nNothing would change.\n"));
}

#[tokio::test]
async fn creation_and_deletion_are_planned() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("pd-top", ""), ("pd-full", "pd-top")]).await.unwrap();
    live.hns("create pd-sub -n pd-top --wait").await;
    live.hns("create pd-low -n pd-sub --wait").await;
    let create = live.hns("plan create pd-new -n pd-full").await;
    let wanted =
        "The subnamespace anchor pd-new in pd-full would be created\nThis would be allowed.\n\nNamespaces:\n";
    assert!(create.code == Some(0) && create.stdout.starts_with(wanted), "{create:?}");
    for line in [
        "  pd-new would be created\n",
        "  pd-new: label pd-top.tree.hnc.x-k8s.io/depth=2 would be added\n",
        "Subnamespace anchors:\n  pd-new in pd-full would be created\n",
        "namespaces: 1 created, 0 deleted, 1 changed",
    ] {
        assert!(create.stdout.contains(line), "{line:?}: {create:?}");
    }
    assert!(steps.namespaces().get_opt("pd-new").await.unwrap().is_none());
    let taken = live.hns("plan create pd-full -n pd-top").await;
    assert!(taken.code == Some(1) && taken.stdout.contains("(409 Conflict): "), "{taken:?}");

    let refused = live.hns("plan delete pd-sub").await;
    let words = "This would be refused (403 Forbidden): the subnamespace \"pd-sub\" has children";
    assert!(refused.code == Some(1) && refused.stdout.contains(words), "{refused:?}");
    assert!(refused.stderr.contains("With -a"), "the way out, as of delete: {refused:?}");
    let cascade = live.hns("plan delete pd-sub -a").await;
    assert_eq!(cascade.code, Some(0), "{cascade:?}");
    for line in [
        "Cascading deletion of pd-sub would be allowed\nThe subnamespace anchor pd-sub in pd-top would be deleted\n",
        "  pd-low would be deleted, with everything in it",
        "  pd-sub would be deleted, with everything in it",
        "  pd-low in pd-sub would be deleted\n  pd-sub in pd-top would be deleted\n",
        "namespaces: 0 created, 2 deleted,",
    ] {
        assert!(cascade.stdout.contains(line), "{line:?}: {cascade:?}");
    }
    // A user who may not read the parent is told the same, for the anchor is known from the subnamespace.
    steps.create_binding("pd-sub", "of-sub", ("ClusterRole", "admin"), "petra").await.unwrap();
    steps.binding_arrives(&["pd-low"], "of-sub", "pd-sub", "petra").await.unwrap();
    eventually("petra is told the same", PATIENCE, async || {
        let as_tenant = live.hns("plan delete pd-low --as petra").await;
        // But for what a parent that the user may not read could change.
        let told = text(&as_tenant).replace("Totals (at least)", "Totals");
        let wanted = text(&live.hns("plan delete pd-low").await);
        if told == wanted { Ok(()) } else { Err(format!("{as_tenant:?} instead of {wanted}")) }
    })
    .await
    .unwrap();
    // The permission for cascading deletion does not change the rights.
    for words in ["plan delete pd-sub --as petra", "plan delete pd-sub -a --as petra"] {
        let as_tenant = live.hns(words).await;
        let refused = "The subnamespace anchor pd-sub in pd-top would be deleted\nThis would be refused (403 Forbidden): user \"petra\" may not";
        assert!(as_tenant.code == Some(1) && as_tenant.stdout.contains(refused), "{as_tenant:?}");
    }
    live.hns("delete pd-low --as petra").await.fails("Could not delete subnamespace anchor.\nReason: ");
    let elsewhere = live.hns("delete pd-low --as petra").await;
    assert!(
        elsewhere.stderr.ends_with("\npd-low is a subnamespace of pd-sub: use -n pd-sub.\n"),
        "{elsewhere:?}"
    );
    // A user who may only delete anchors names the parent, as for the deletion.
    let anchors = (&["get", "list", "delete"][..], "hnc.x-k8s.io", "subnamespaceanchors");
    steps.create_role("pd-sub", "anchors", anchors).await.unwrap();
    steps.create_binding("pd-sub", "anchors", ("Role", "anchors"), "anna").await.unwrap();
    let words = "The subnamespace anchor pd-low in pd-sub would be deleted\nThis would be allowed.\n";
    let allowed = async |user: &str| {
        eventually(&format!("{user} may delete anchors"), PATIENCE, async || {
            let plan = live.hns(&format!("plan delete pd-low -n pd-sub --as {user}")).await;
            let is_allowed = plan.code == Some(0) && plan.stdout.starts_with(words);
            if is_allowed { Ok(plan) } else { Err(format!("{plan:?}")) }
        })
        .await
        .unwrap()
    };
    let named = allowed("anna").await;
    let unnamed = live.hns("plan delete pd-low --as anna").await;
    assert!(unnamed.code == Some(1) && unnamed.stderr.contains("name its parent with -n"), "{unnamed:?}");
    assert!(named.stdout.contains("  pd-low would be deleted, with everything in it"), "{named:?}");
    assert!(!named.stdout.contains("left to do"), "what only seems to be missing: {named:?}");
    // So does one who may not even read them.
    let delete = (&["delete"][..], "hnc.x-k8s.io", "subnamespaceanchors");
    steps.create_role("pd-sub", "delete", delete).await.unwrap();
    steps.create_binding("pd-sub", "delete", ("Role", "delete"), "ivan").await.unwrap();
    let blind = allowed("ivan").await;
    assert!(blind.stdout.contains("  pd-low would be deleted, with everything in it"), "{blind:?}");
    let unconfirmed = live.hns("delete pd-low -n pd-sub --as ivan").await;
    assert!(unconfirmed.code == Some(1) && unconfirmed.stderr.contains("With --yes"), "{unconfirmed:?}");
    for who in ["", " --as ivan"] {
        let gone = live.hns(&format!("plan delete pd-gone -n pd-sub{who}")).await;
        let words =
            "This would be refused (404 NotFound): subnamespaceanchors.hnc.x-k8s.io \"pd-gone\" not found";
        assert!(gone.code == Some(1) && gone.stdout.contains(words), "{gone:?}");
    }
    let orphan = live.hns("plan delete pd-top").await;
    assert!(orphan.code == Some(1) && orphan.stdout.contains("has subnamespaces"), "{orphan:?}");
    let there = steps.namespaces().get("pd-low").await.unwrap();
    assert!(there.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn a_configuration_is_planned_and_not_written() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("pk-top", ""), ("pk-low", "pk-top")]).await.unwrap();
    for namespace in ["pk-top", "pk-low"] {
        let create = ["create", "configmap", "pk-map", "-n", namespace, "--from-literal=a=b"];
        live.cluster.kubectl().args(create).ok().await.unwrap();
        let create = ["create", "quota", "pk-map", "-n", namespace, "--hard=pods=9"];
        live.cluster.kubectl().args(create).ok().await.unwrap();
    }
    let plan = live.hns("plan config set-resource configmaps --mode Propagate -o json").await.json();
    assert_eq!(plan["verdict"]["outcome"], "allowed", "{plan:#}");
    assert!(plan["warnings"].is_null(), "the plan itself has checked what is below: {plan:#}");
    let ours = |plan: &Value| {
        let objects = plan["objects"].as_array().unwrap().iter();
        let ours = objects.filter(|it| it["name"] == "pk-map");
        ours.map(|it| format!("{} {} from {}", it["action"], it["namespace"], it["source"]))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(ours(&plan), BTreeSet::new(), "what is below is kept");
    let plan = live.hns("plan config set-resource resourcequotas --mode Propagate -o json").await.json();
    assert_eq!(plan["verdict"]["outcome"], "allowed", "{plan:#}");
    assert_eq!(ours(&plan), BTreeSet::from(["\"overwrite\" \"pk-low\" from \"pk-top\"".to_owned()]));
    let nonsense = live.hns("plan config set-resource nonsense --mode Propagate").await;
    nonsense.fails("Error: the API server serves no resource nonsense\n");
    let none = live.hns("plan config delete-type --resource nonsense").await;
    assert!(
        none.stdout.contains("There is no configuration for nonsense\nNothing would change.\n"),
        "{none:?}"
    );
}

/// A user with rights in one namespace alone gets what these show, with a note about what is not known.
#[tokio::test]
async fn without_rights_what_is_refused_and_what_is_unknown_is_said() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("pr-top", ""), ("pr-n", "pr-top"), ("pr-other", "")]).await.unwrap();
    steps.make_admin("pr-n", "pia").await.unwrap();
    let words = "(401 Unauthorized): user \"pia\" is not authorized to change the parent of \"pr-n\"";
    let plan = eventually("pia is admin of pr-n", PATIENCE, async || {
        let plan = live.hns("plan set pr-n --root --as pia").await;
        if plan.stdout.contains(words) { Ok(plan) } else { Err(format!("{plan:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(plan.code, Some(1), "{plan:?}");
    assert_eq!(plan.stderr, "Error: this would be refused\n", "a note about effects that there are not");
    let refused = live.hns("set pr-n --root --as pia").await;
    assert!(refused.stderr.contains("\nYou are logged in, but you may not make this change"), "{refused:?}");
    let other = live.hns("plan set pr-other --parent pr-n --as pia").await;
    other.fails("Error reading namespace pr-other: ");
    steps.make_admin("pr-top", "paul").await.unwrap();
    // What the API server allows is known even where the effects are not.
    for (user, hidden) in [("paul", "rolebindings"), ("pia", "the hierarchy of pr-top")] {
        let words = format!("plan create pr-new -n pr-n --as {user} -o json");
        // Paul's binding is copied to pr-n first.
        let plan = eventually(&format!("{user} is admin of pr-n"), PATIENCE, async || {
            let output = live.hns(&words).await;
            match serde_json::from_str::<Value>(&output.stdout) {
                Ok(plan) if plan["verdict"]["outcome"] == "allowed" => Ok(plan),
                _ => Err(format!("{output:?}")),
            }
        })
        .await
        .unwrap();
        let notes = plan["notes"].as_array().unwrap();
        assert!(notes.len() == 1 && notes[0].as_str().unwrap().contains(hidden), "{plan:#}");
        assert_eq!(plan["pending"], Value::Null, "{plan:#}");
    }
    let taken = live.hns("plan create pr-other -n pr-n --as pia").await;
    assert!(taken.code == Some(1) && taken.stdout.contains("(409 Conflict): "), "{taken:?}");
    let config = live.hns("plan config set-resource configmaps --mode Ignore --as pia").await;
    assert_eq!((config.code, &*config.stderr), (Some(1), "Error: this would be refused\n"), "{config:?}");
    let no_effect = "The configuration of configmaps would change\nThis would be refused (403 Forbidden): ";
    assert!(config.stdout.starts_with(no_effect), "{config:?}");
    let all = live.hns("tree -A --as pia").await;
    all.fails("Error: you may not list namespaces and hierarchyconfigurations in the whole cluster");
    assert!(all.stderr.ends_with("\nName a namespace of yours with -n.\n"), "{all:?}");
}
