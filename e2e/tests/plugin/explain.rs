//! `explain` and `tree --show-copies` with hns at work: each form of the answer, and what a user without rights over the cluster
//! is told. That the answers are true is shown by the suite `chaos`.

use std::time::Duration;

use hns_e2e::eventually;
use serde_json::{Value, json};

use super::fixture::{Fixture, Output, live};

/// How long an answer may take to come true. Each time that the plugin is asked, a process starts, which takes its time on a
/// busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A role, its annotations, and nothing in it.
fn role(namespace: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": namespace, "name": name, "annotations": annotations }, "rules": [],
    })
}

/// Asks until the answer is this one; gives it.
async fn asked(live: &Fixture, words: &str, is_it: impl Fn(&Output) -> bool) -> Output {
    eventually(words, PATIENCE, async || {
        let output = live.hns(words).await;
        if is_it(&output) { Ok(output) } else { Err(format!("{output:?}")) }
    })
    .await
    .unwrap()
}

/// `ex-org` with `ex-dev` (and `ex-web` below) and `ex-ops`; the role `viewer` goes to all but `ex-ops`.
async fn plant(live: &Fixture, prefix: &str) {
    let name = |it: &str| format!("{prefix}-{it}");
    let [org, dev, web, ops] = ["org", "dev", "web", "ops"].map(name);
    live.steps().plant(&[(&org, ""), (&dev, &org), (&web, &dev), (&ops, &org)]).await.unwrap();
    for path in [&[&*web, &dev, &org][..], &[&ops, &org]] {
        live.steps().labelled(path).await.unwrap();
    }
    let annotations = json!({ "propagate.hnc.x-k8s.io/treeSelect": format!("!{ops}") });
    live.apply(&[role(&org, "viewer", &annotations)]).await;
    asked(live, &format!("explain role/viewer -n {web} -o json"), |it| {
        it.code == Some(0) && it.stderr.is_empty() && it.json()["state"] == "copy"
    })
    .await;
}

#[tokio::test]
async fn a_source_a_copy_and_what_was_stopped_are_explained() {
    let live = live().await;
    plant(live, "ex").await;
    let rule = "because its kind is in mode Propagate and its annotation propagate.hnc.x-k8s.io/treeSelect lets it through";
    let copy = format!(
        "roles.rbac.authorization.k8s.io viewer in ex-web: copy of ex-org\n  Why: the one in ex-org is copied here, {rule}\n  \
         Above: ex-org > ex-dev\n  Annotation in ex-org: propagate.hnc.x-k8s.io/treeSelect=!ex-ops\n"
    );
    for words in
        ["explain role/viewer -n ex-web", "explain roles.rbac.authorization.k8s.io/viewer --namespace ex-web"]
    {
        live.hns(words).await.says(&copy);
    }
    let not = "because its annotation propagate.hnc.x-k8s.io/treeSelect does not select the namespace";
    live.hns("explain Role/viewer -n ex-org").await.says(&format!(
        "roles.rbac.authorization.k8s.io viewer in ex-org: source\n  Above: nothing\n  \
         Annotation in ex-org: propagate.hnc.x-k8s.io/treeSelect=!ex-ops\n  Below: 2 of 3 namespaces have a copy\n  \
         - ex-ops: not copied, {not}\n"
    ));
    live.hns("explain role/viewer -n ex-org -o name")
        .await
        .says("namespace/ex-org\nnamespace/ex-dev\nnamespace/ex-web\n");
    let stopped = live.hns("explain role/viewer -n ex-ops -o json").await.json();
    assert_eq!(
        (&stopped["state"], &stopped["above"][0]["comes"]),
        (&json!("stopped"), &json!(false)),
        "{stopped:#}"
    );
    let yaml = live.hns("explain role/viewer -n ex-ops -o yaml").await.stdout;
    assert!(yaml.contains("state: stopped"), "{yaml}");

    let absent = live.hns("explain role/nobody -n ex-web").await;
    assert!(absent.stdout.contains("not there\n  Why: no namespace above has it\n"), "{absent:?}");
    let unconfigured = live.hns("explain podtemplate/x -n ex-web").await;
    let said = "no namespace above has it; also, the HNCConfiguration does not name its kind";
    assert!(unconfigured.stdout.contains(said), "{unconfigured:?}");
    for (object, why) in [
        ("cm/kube-root-ca.crt", "every namespace has its own ConfigMap \"kube-root-ca.crt\""),
        ("sa/default", "every namespace has its own ServiceAccount \"default\""),
    ] {
        let own = live.hns(&format!("explain {object} -n ex-web")).await;
        assert!(own.stdout.contains(&format!("it is not propagated, because {why}")), "{own:?}");
    }
    let hidden = live.hns("explain role/viewer -n ex-web --as erik").await;
    let unknown = "  Above: unknown (you may not read the hierarchy of ex-web)\n";
    assert!(hidden.stdout.contains(unknown), "{hidden:?}");
    live.hns("explain nonsense/x -n ex-web")
        .await
        .fails("Error: nonsense: the API server serves no such resource; `kubectl api-resources");
    live.hns("explain node/x -n ex-web").await.fails("Error: nodes are cluster-scoped");
    live.hns("explain role/x -n ex-nowhere").await.fails("Error reading namespace ex-nowhere: namespaces");
    live.hns("explain viewer -n ex-web")
        .await
        .fails("Error: invalid value 'viewer' for '<KIND/NAME>': must be KIND/NAME");
}

#[tokio::test]
async fn the_drawing_marks_where_an_object_is_and_where_it_was_stopped() {
    let live = live().await;
    plant(live, "ez").await;
    let why = "the one in ez-org is not copied here, because its annotation propagate.hnc.x-k8s.io/treeSelect does not select \
               the namespace";
    // Children are shown a moment after they are labelled.
    let words = "tree ez-org --show-copies role/viewer";
    asked(live, words, |it| it.stdout.contains("ez-ops [not copied]")).await.says(&format!(
        "ez-org [source]\n├── ez-dev [copy of ez-org]\n│   └── ez-web [copy of ez-org]\n└── ez-ops [not copied] [1]\n\n\
         Reasons:\n[1] {why}\n"
    ));
    let tree = live.hns("tree ez-org --show-copies role/viewer -o json").await.json();
    let ops = &tree["trees"][0]["children"][1];
    assert_eq!(
        (&ops["name"], &ops["object"]),
        (&json!("ez-ops"), &json!({ "state": "stopped", "why": why }))
    );
    for (form, said) in [
        ("dot", "\"ez-org\" [label=\"ez-org\\nsource\""),
        ("mermaid", "[\"ez-ops<br/>not copied\"]"),
        ("svg", ">ez-web: copy of ez-org</text>"),
        ("yaml", "state: source"),
    ] {
        let drawn = live.hns(&format!("tree ez-org --show-copies role/viewer -o {form}")).await;
        assert!(drawn.code == Some(0) && drawn.stdout.contains(said), "{form}: {drawn:?}");
    }
    let absent = live.hns("tree ez-org --show-copies role/nobody").await;
    let note =
        "Note: roles.rbac.authorization.k8s.io nobody exists neither in these namespaces nor above them\n";
    assert_eq!((absent.code, &*absent.stderr), (Some(0), note), "{absent:?}");
    let all = live.hns("tree -A").await;
    assert!(all.stdout.lines().any(|line| line == "hnc-system [excluded]"), "{all:?}");
    live.hns("tree hnc-system").await.says("hnc-system [excluded]\n");
    let described = live.hns("describe hnc-system").await;
    assert!(
        described.stdout.contains("\n  The namespace is excluded, because hns runs in it\n"),
        "{described:?}"
    );
    let plain = live.hns("tree ez-org -o json").await.json();
    assert!(plain["trees"][0].get("object").is_none(), "nothing is said that was not asked for: {plain:#}");
}

#[tokio::test]
async fn a_refused_write_is_shown() {
    let live = live().await;
    live.steps().plant(&[("er-org", ""), ("er-poor", "er-org")]).await.unwrap();
    let name = "no-er-role";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["roles"],
            }] },
            "validations": [{
                "expression": "!(object.metadata.namespace == 'er-poor' && object.metadata.name == 'rich')",
                "message": "too rich for er-poor",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    live.apply(&[policy, binding]).await;
    let steps = live.steps();
    eventually("the policy is in force", PATIENCE, async || {
        let rich =
            serde_json::from_value(role("er-poor", "rich", &json!({}))).map_err(|it| it.to_string())?;
        let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
        match steps.roles("er-poor").create(&dry, &rich).await {
            Err(error) if error.to_string().contains("too rich") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    live.apply(&[role("er-org", "rich", &json!({}))]).await;
    let refused = asked(live, "explain role/rich -n er-poor", |it| it.stdout.contains("Condition:")).await;
    assert!(refused.stdout.starts_with("roles.rbac.authorization.k8s.io rich in er-poor: not there yet\n"));
    assert!(refused.stdout.contains("because its kind is in mode Propagate; the API server refused it\n"));
    assert_eq!(refused.stdout.matches("too rich for er-poor").count(), 1, "{refused:?}");
    // The copy that is not there cannot go.
    let plan = live.hns("plan set er-poor --root").await;
    assert!(plan.code == Some(0) && !plan.stdout.contains("rich in er-poor"), "{plan:?}");
}

/// What `view` in one namespace lets a user see, tree labels included.
#[tokio::test]
async fn a_user_is_told_what_their_rights_show_and_what_not() {
    let live = live().await;
    plant(live, "eu").await;
    // A user with the role view may not read roles.
    live.steps().create_binding("eu-web", "may-view", ("ClusterRole", "view"), "una").await.unwrap();
    live.steps()
        .create_role("eu-web", "may-read-roles", (&["get"], "rbac.authorization.k8s.io", "roles"))
        .await
        .unwrap();
    live.steps().create_binding("eu-web", "may-read-roles", ("Role", "may-read-roles"), "una").await.unwrap();
    let words = "explain role/viewer -n eu-web --as una";
    let seen = asked(live, words, |it| it.code == Some(0) && it.stdout.contains("copy of")).await;
    assert_eq!(
        seen.stdout,
        "roles.rbac.authorization.k8s.io viewer in eu-web: copy of eu-org (by its label)\n  \
         Why: whether eu-org or eu-dev has one is unknown: you may not read it there\n  Above: eu-org > eu-dev\n"
    );
    for note in [
        "Note: you may not list namespaces and hierarchyconfigurations in the whole cluster; only namespaces above and below \
         eu-web are read\n",
        "Note: you may not read the hierarchy of eu-dev, eu-org; what is known of it comes from ",
        "Note: you may not read roles.rbac.authorization.k8s.io in eu-dev, eu-org\n",
    ] {
        assert!(seen.stderr.contains(note), "{note}\n{seen:?}");
    }
    let json = live.hns(&format!("{words} -o json")).await.json();
    assert_eq!(json["unknownAbove"], json!(["eu-org", "eu-dev"]));
    let tree = live.hns("tree eu-web --show-copies role/viewer --as una").await;
    let drawn = "eu-web [copy of eu-org (by its label)] [1]\n\nReasons:\n[1] whether eu-org or eu-dev has one is unknown: you may not read it there\n";
    assert_eq!((tree.code, &*tree.stdout), (Some(0), drawn), "{tree:?}");
    assert!(!seen.stderr.contains("HNCConfiguration"), "every authenticated user may read it: {seen:?}");
    let secret = live.hns("explain secret/x -n eu-web --as una").await;
    assert!(secret.code == Some(0) && secret.stdout.contains("secrets x in eu-web: unknown\n"), "{secret:?}");
}
