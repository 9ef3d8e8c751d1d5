//! `kubectl accurate`: Accurate's verbs and outputs, with the controller and the webhook at work, on a cluster of its own.

mod converting;
mod moving;
mod planning;
mod scene;

use serde_json::json;

use self::scene::world;

#[tokio::test]
async fn types_templates_and_trees_have_the_outputs_of_accurate() {
    let world = world().await;
    for name in ["v-root", "v-tpl"] {
        world.create_namespace(name).await;
    }
    world.run("ns set-type v-root root").await.says("success\n");
    world.run("namespace set-type v-root root").await.says("nothing to do\n");
    world.run("ns set-type v-root Root").await.fails("Error: invalid type: Root\n");
    world.run("ns set-type v-gone root").await.fails("Error: namespace v-gone cannot be read: ");
    world.run("ns set-type v-tpl template").await.says("success\n");
    world.until("template set v-root v-tpl", "set v-tpl as a template of v-root\n").await;
    world.until("sub create v-a v-root", "SubNamespace v-a is created in v-root\n").await;
    world.run("sub create v-b v-root").await.says("SubNamespace v-b is created in v-root\n");
    world.belongs("v-a", "v-root").await;
    world.belongs("v-b", "v-root").await;
    world.until("sub create v-a-x v-a", "SubNamespace v-a-x is created in v-a\n").await;
    world.belongs("v-a-x", "v-a").await;

    let tree = "└── v-root\n    ├── v-a\n    │   └── v-a-x\n    └── v-b\n";
    for words in ["list v-root", "ls v-root", "sub list v-root", "sub ls v-root"] {
        world.run(words).await.says(tree);
    }
    world.run("list v-a").await.says("└── v-a\n    └── v-a-x\n");
    let all = world.run("list").await;
    assert!(all.stdout.contains("── v-root\n") && !all.stdout.contains("── v-tpl\n"), "{all:?}");
    world.run("template list v-tpl").await.says("└── v-tpl\n    └── v-root\n");
    let of_hnc = world.fixture.hns("tree -A").await;
    let note = "Note: some of these namespaces are in a hierarchy of Accurate, which is not shown here: see `kubectl accurate list` and `kubectl accurate template list`\n";
    assert!(of_hnc.code == Some(0) && of_hnc.stderr.contains(note), "{of_hnc:?}");
    world.fixture.hns("tree -A -l kubernetes.io/metadata.name=default").await.says("default\n");
    let missing = "Error: namespace v-gone not found. ensure the namespace exists and is correctly labeled\n";
    world.run("list v-gone").await.fails(missing);
    world.run("list v-a -o name").await.says("namespace/v-a\nnamespace/v-a-x\n");
    let data = world.run("list v-a -o json").await.json();
    assert_eq!(data["trees"][0]["children"][0]["name"], "v-a-x");
    let picture = world.run("list v-root -o mermaid").await;
    assert!(picture.stdout.contains("v-a-x"), "{picture:?}");

    let held = world.run("ns set-type v-root none").await;
    assert!(
        held.code == Some(1) && held.stderr.contains("there are sub-namespaces under v-root"),
        "{held:?}"
    );
    world.run("template unset v-root").await.says("unset template for v-root\n");
    world.run("template unset v-root").await.says("");
}

#[tokio::test]
async fn sub_namespaces_are_created_with_labels_and_deleted() {
    let world = world().await;
    world.create_root("d-root").await;
    let create = "sub create d-sub d-root --labels tier=1,other=x --labels team=a --annotations owner=a,b";
    let created = world.run(create).await;
    assert_eq!((created.code, &*created.stdout), (Some(0), "SubNamespace d-sub is created in d-root\n"));
    let note = "the labels other, team have no effect: the setting accurate.config.subNamespaceLabelKeys";
    assert!(created.stderr.contains(note), "{created:?}");
    world.belongs("d-sub", "d-root").await;
    let form = world.form("d-root", "d-sub").await.unwrap();
    let spec =
        json!({ "labels": { "tier": "1", "other": "x", "team": "a" }, "annotations": { "owner": "a,b" } });
    assert_eq!(serde_json::to_value(form.spec).unwrap(), spec);
    world.labelled("d-sub", "tier", Some("1")).await;
    world.run(create).await.fails("Error: namespace d-sub already exists\n");
    world.run("sub create d-low d-other").await.fails(
        "Error: SubNamespace d-other/d-low cannot be created: namespaces \"d-other\" not found\n`kubectl get namespaces` shows all",
    );
    world
        .run("sub delete d-root")
        .await
        .fails("Error: d-root is not a sub-namespace\nIt is a root namespace.\nSub-namespaces of d-root: ");
    world.create_namespace("d-lone").await;
    let refused = world.run("sub create d-root d-lone").await;
    let why = "Error: namespace d-root already exists\nChoose another name. Also, SubNamespace d-lone/d-root cannot be created: ";
    assert!(refused.code == Some(1) && refused.stderr.starts_with(why), "{refused:?}");
    assert!(
        refused.stderr.contains("`kubectl accurate namespace set-type d-lone root` makes it a root"),
        "{refused:?}"
    );
    let metadata = json!({ "name": "d-lone", "namespace": "d-root" });
    let form =
        json!({ "apiVersion": "accurate.cybozu.com/v2", "kind": "SubNamespace", "metadata": metadata });
    world.fixture.apply(&[form]).await;
    let lone = world.run("sub delete d-lone").await;
    let way = "First delete SubNamespace d-root/d-lone, which can create the namespace again: \
               `kubectl delete subnamespaces.accurate.cybozu.com d-lone -n d-root`.\n\
               It has no parent: `kubectl delete namespace d-lone` deletes it.\n";
    assert!(lone.code == Some(1) && lone.stderr.ends_with(way), "{lone:?}");
    world.until("sub create d-low d-sub", "SubNamespace d-low is created in d-sub\n").await;
    world.belongs("d-low", "d-sub").await;
    let held = world.run("sub delete d-sub").await;
    assert!(held.code == Some(1) && held.stderr.contains("child namespaces exist"), "{held:?}");
    assert!(held.stderr.contains("\nSub-namespaces of d-sub: d-low. Delete them first."), "{held:?}");
    assert!(!held.stderr.contains("by their label only"), "{held:?}");
    world.run("sub delete d-low").await.says("deleted SubNamespace d-sub/d-low\n");
    world.gone("d-low").await;
    world.until("sub delete d-sub", "deleted SubNamespace d-root/d-sub\n").await;
    world.gone("d-sub").await;
}

/// The hints for a user with rights in the parent only name no command that fails.
#[tokio::test]
async fn who_may_not_read_a_namespace_is_told_what_is_possible() {
    let world = world().await;
    world.create_root("t-root").await;
    world.create_plain_sub("t-sub", "t-root").await;
    world.create_namespace("t-lone").await;
    for namespace in ["t-root", "t-lone"] {
        let steps = &world.steps;
        steps.make_admin(namespace, "dana").await.unwrap();
        steps.create_role(namespace, "t", (&["*"], "accurate.cybozu.com", "*")).await.unwrap();
        steps.create_binding(namespace, "t", ("Role", "t"), "dana").await.unwrap();
    }
    let refused =
        world.until_refused("sub create t-low t-lone --as dana", "neither a root nor a sub namespace").await;
    let way = "You cannot read namespace t-lone. If it is in no hierarchy, an admin of it can make it a root: \
               `kubectl accurate namespace set-type t-lone root`.\n";
    assert!(refused.stderr.ends_with(way), "{refused:?}");
    let refused = world.fixture.hns("plan delete t-sub -n t-root --as dana").await;
    let way = "SubNamespace t-sub in t-root is of Accurate's hierarchy: `kubectl delete subnamespaces.accurate.cybozu.com t-sub -n t-root` \
               deletes it, and its namespace with it.\n";
    assert!(refused.code == Some(1) && refused.stderr.ends_with(way), "{refused:?}");
    let none = world.fixture.hns("plan delete t-gone -n t-root --as dana").await;
    assert!(none.code == Some(1) && !none.stderr.contains("SubNamespace"), "{none:?}");
    let refused = world.fixture.hns("plan delete t-sub -n t-root").await;
    refused.fails("Error: t-sub has no subnamespace anchor in t-root\nt-sub is a sub-namespace of t-root in Accurate's hierarchy: ");
}

/// The API server judges a `ResourceQuota` that the user may not read.
#[tokio::test]
async fn a_plan_knows_of_a_quota_that_the_user_may_not_read() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let world = world().await;
    world.create_root("u-root").await;
    let allowing = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
    let groups = ["", RBAC, "accurate.cybozu.com", "hnc.x-k8s.io"];
    let resources = [
        "namespaces",
        "secrets",
        "configmaps",
        "roles",
        "rolebindings",
        "subnamespaces",
        "hierarchyconfigurations",
        "subnamespaceanchors",
    ];
    let rules = [
        allowing(&groups, &resources, &["get", "list"]),
        allowing(&["accurate.cybozu.com"], &["subnamespaces"], &["create"]),
    ];
    let api = format!("{RBAC}/v1");
    let role = json!({ "apiVersion": api, "kind": "ClusterRole", "metadata": { "name": "u-reader" }, "rules": rules });
    let binding = json!({
        "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": { "name": "u-reader" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "u-reader" },
        "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": "quinn" }],
    });
    world.fixture.apply(&[role, binding]).await;
    world.until_planned("sub create u-new u-root --as quinn", "This would be allowed.").await;
    world.fixture.apply_full_quota("u-root", "u", "count/subnamespaces.accurate.cybozu.com").await;
    world.until_planned("sub create u-new u-root --as quinn", "exceeded quota: u").await;
}

#[tokio::test]
async fn who_looks_for_a_namespace_of_hnc_is_told_where_it_is() {
    let world = world().await;
    world.create_namespace("o-top").await;
    let created = world.fixture.hns("create o-sub -n o-top --wait").await;
    assert_eq!(created.code, Some(0), "{created:?}");
    for words in ["sub delete o-sub", "sub cut o-sub", "plan sub cut o-sub"] {
        world.run(words).await.fails(
            "Error: o-sub is not a sub-namespace\nIt is in HNC's hierarchy: see `kubectl hns describe o-sub`.\n",
        );
    }
    let note =
        "Note: o-sub is in HNC's hierarchy, which is not shown here: see `kubectl hns describe o-sub`\n";
    for words in ["list o-sub", "ns describe o-sub"] {
        let shown = world.run(words).await;
        assert_eq!((shown.code, &*shown.stderr), (Some(0), note), "{words}");
    }
    let explained = world.run("explain rolebinding/none -n o-sub").await;
    let there = "it is a child of o-top in that of hnc.x-k8s.io";
    assert!(explained.code == Some(0) && explained.stdout.contains(there), "{explained:?}");
}

#[tokio::test]
async fn a_description_names_what_is_propagated() {
    let world = world().await;
    world.create_root("b-root").await;
    world.run("sub create b-sub b-root").await.says("SubNamespace b-sub is created in b-root\n");
    world.belongs("b-sub", "b-root").await;
    let secret = |namespace: &str, name: &str, mode: &str| {
        let annotations = json!({ "accurate.cybozu.com/propagate": mode });
        json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": namespace, "annotations": annotations } })
    };
    world
        .fixture
        .apply(&[
            secret("b-root", "a", "update"),
            secret("b-sub", "own", "create"),
            secret("b-sub", "plain", ""),
            secret("b-sub", "alone", ""),
            json!({ "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
                "metadata": { "name": "release", "namespace": "b-root",
                    "annotations": { "accurate.cybozu.com/propagate": "update" } } }),
        ])
        .await;
    let wanted = "\
Name: b-sub
Type: none
Parent: b-root

Resources:
Kind      Name      From      Mode
--------  --------  --------  --------
Secret    a         b-root    update
Secret    own                 create
";
    world.until("ns describe b-sub", wanted).await;
    let explained = "\
secrets a in b-sub: copy of b-root (mode update)
  Why: b-root, its parent, has it, and asks for copies
  parent b-root: source (mode update)
";
    world.run("explain secret/a -n b-sub").await.says(explained);
    world.fixture.apply(&[secret("b-root", "own", "update"), secret("b-root", "plain", "other")]).await;
    for (name, state, why) in [
        (
            "own",
            "conflict",
            "it is not a copy, so it is kept, and the one in b-root is not copied\n  To do: Rename",
        ),
        (
            "plain",
            "not propagated",
            "the annotation accurate.cybozu.com/propagate of the one in b-root, its parent, is neither create nor update\n  \
             parent b-root: not propagated (mode unknown)",
        ),
        (
            "alone",
            "not propagated",
            "it is the namespace's own object, and has no annotation accurate.cybozu.com/propagate, so it is not copied further; \
             b-root, its parent, does not have one\n",
        ),
        ("none", "not there", "b-root, its parent, does not have it\n  parent b-root: not there"),
        (
            "release",
            "not there",
            "the one in b-root, its parent, is never propagated, because Secrets of type helm.sh/release.v1 belong to their own \
             namespace\n  parent b-root: not propagated",
        ),
    ] {
        let explained = world.run(&format!("explain secret/{name} -n b-sub")).await;
        let wanted = format!("secrets {name} in b-sub: {state}\n  Why: {why}");
        assert!(explained.code == Some(0) && explained.stdout.starts_with(&wanted), "{explained:?}");
    }
    let unwatched = world.run("explain limitranges/x -n b-sub").await;
    assert!(unwatched.stdout.contains("limitranges are not propagated"), "{unwatched:?}");
    let root = world.run("ns describe b-root").await;
    let head = "Name: b-root\nType: root\n# of children: 1\n\nResources:\n";
    assert!(root.code == Some(0) && root.stdout.starts_with(head), "{root:?}");
    assert!(!root.stdout.contains("release"), "{root:?}");

    // An installation of Accurate beside hns, which watches no kind. Its release has another name.
    world.create_namespace("accurate").await;
    let pod = json!({ "containers": [{ "name": "manager", "image": "none" }],
        "volumes": [{ "name": "config", "configMap": { "name": "accurate-config" } }] });
    let labels = json!({ "app": "x" });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "other-accurate-controller-manager", "namespace": "accurate" },
        "spec": { "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod } } });
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "config.yaml": "labelKeys: [team]" },
        "metadata": { "name": "accurate-config", "namespace": "accurate" } });
    world.fixture.apply(&[deployment, config]).await;
    let none = "Name: b-sub\nType: none\nParent: b-root\n";
    let named = "ns describe b-sub --accurate-namespace accurate";
    world.run(&format!("{named} --accurate-deployment other-accurate-controller-manager")).await.says(none);
    for namespace in ["accurate", "b-root"] {
        let described = world.run(&format!("ns describe b-sub --accurate-namespace {namespace}")).await;
        let message = format!(
            "Note: Deployment {namespace}/accurate-controller-manager does not exist; the configuration is that of hns\n"
        );
        assert_eq!((described.code, &*described.stdout, &*described.stderr), (Some(0), wanted, &*message));
    }
}

#[tokio::test]
async fn trees_are_not_drawn_without_the_named_installation() {
    let world = world().await;
    for words in ["list", "template list"] {
        let message = "Error: namespace default: hns is not installed in it\nName the namespace of hns with --installation";
        world.run(&format!("{words} --installation default")).await.fails(message);
        let drawn = world.run(&format!("{words} --installation hnc-system")).await;
        assert_eq!(drawn.code, Some(0), "{words}: {drawn:?}");
    }
}

/// Accurate's plugin has these flags, and every subcommand refuses them.
#[tokio::test]
async fn the_flags_of_kubectl_work_on_every_subcommand() {
    let world = world().await;
    for words in [
        "list",
        "sub list",
        "template list",
        "ns describe f-x",
        "ns set-type f-x root",
        "template set f-x f-y",
        "template unset f-x",
        "sub create f-x f-y",
        "sub delete f-x",
        "sub move f-x f-y",
        "sub graft f-x f-y",
        "sub cut f-x",
    ] {
        let refused = world.run(&format!("{words} --as eve -n f-y --request-timeout 5s")).await;
        assert!(
            refused.code == Some(1) && refused.stderr.contains("User \"eve\" cannot "),
            "{words}: {refused:?}"
        );
        let unknown = world.run(&format!("{words} --context f-none")).await;
        assert!(unknown.code == Some(1) && unknown.stderr.contains("f-none"), "{words}: {unknown:?}");
    }
    let version = world.run("--version").await;
    version.says(&format!("kubectl-accurate version {}\n", env!("CARGO_PKG_VERSION")));
}

/// Where Accurate's API is not served, that is said.
#[tokio::test]
async fn without_accurate_s_api_there_are_no_sub_namespaces() {
    let still = super::fixture::still().await;
    let said = still.accurate("sub create o-x default").await;
    said.fails(
        "Error: SubNamespace default/o-x cannot be created: the API server does not serve this kind\n",
    );
    assert!(said.stderr.contains("does not serve accurate.cybozu.com/v2"), "{said:?}");
}
