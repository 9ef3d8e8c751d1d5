//! Users without rights over the whole cluster: they get what theirs allow, with a note about the rest.

use serde_json::json;

use super::fixture::{anchor, hierarchy, namespace, still};

async fn plant() {
    let still = still().await;
    still
        .apply(&[
            namespace("r-org", ""),
            namespace("r-team", "r-org"),
            namespace("r-web", "r-team"),
            namespace("r-db", "r-team"),
        ])
        .await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "r-view" },
        "rules": [{ "apiGroups": ["hnc.x-k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"] }],
    });
    let bind = |namespace: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "rita", "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r-view" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rita" }],
        })
    };
    let quota = json!({
        "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota",
        "metadata": { "name": "q", "namespace": "r-team" }, "status": { "hard": { "pods": "4" } },
    });
    still
        .apply(&[
            hierarchy("r-org", "", &["r-team"], &[]),
            hierarchy("r-team", "r-org", &["r-db", "r-web"], &[]),
            hierarchy("r-web", "r-team", &[], &[("BadConfiguration", "X", "x")]),
            hierarchy("r-db", "r-team", &[], &[]),
            anchor("r-team", "r-web", "Ok"),
            anchor("r-team", "r-db", "Ok"),
            role,
            bind("r-team"),
            bind("r-web"),
            quota,
        ])
        .await;
}

#[tokio::test]
async fn a_user_sees_what_their_rights_show_and_is_told_of_the_rest() {
    plant().await;
    let still = still().await;
    let tree = "\
r-team
├── [s] r-db
└── [s] r-web (1)

[s] indicates subnamespaces

Conditions:
1) BadConfiguration (X): x
";
    let above = "r-org\n└── r-team\n    ├── [s] r-db\n    └── [s] r-web (1)\n";
    let tree_with_above = format!("{above}{}", tree.split_once("(1)\n").unwrap().1);
    for (words, wanted, reach, hidden) in [
        ("tree r-team --as rita", tree, "below", "r-db"),
        ("tree -A -n r-team --as rita", &tree_with_above, "above and below", "r-db, r-org"),
    ] {
        let seen = still.hns(words).await;
        assert_eq!((seen.code, &*seen.stdout), (Some(0), wanted), "{words}: {seen:?}");
        assert_eq!(
            seen.stderr,
            format!(
                "Note: you may not list namespaces and hierarchyconfigurations in the whole cluster; only namespaces {reach} \
                 r-team are read\nNote: you may not read the hierarchy of {hidden}; what is known of it comes from \
                 the namespaces around\nNote: it is unknown whether these are subnamespaces, because you may read neither the \
                 namespaces nor the anchors in their parents: r-team\n"
            ),
            "{words}"
        );
    }
    let described = still.hns("describe r-team --as rita").await;
    assert_eq!(described.code, Some(0), "{described:?}");
    assert!(
        described.stdout.contains("  - r-db (subnamespace)\n  - r-web (subnamespace)\n"),
        "{described:?}"
    );
    assert_eq!(described.stderr, "Note: you may not read the events in r-team; they are left out\n");
    let quotas = still.hns("hrq -A -n r-team --as rita").await;
    assert!(quotas.code == Some(0) && quotas.stdout.contains("r-team"), "{quotas:?}");
    assert!(quotas.stderr.starts_with("Note: you may not list quotas in the whole cluster"), "{quotas:?}");
    // What is said of one object does not depend on quotas, which rita may not list.
    let explained = still.hns("explain secret/x -n r-team --as rita").await;
    assert!(explained.code == Some(0) && !explained.stderr.contains("quotas"), "{explained:?}");
    let doctor = still.hns("doctor --as rita -o json").await.json();
    let findings = doctor["findings"].as_array().unwrap();
    // Everybody may read the settings.
    let mut hidden = findings.iter().filter(|it| it["subject"] != "settings");
    assert!(hidden.all(|it| it["level"] == "note"), "what may not be read is not wrong: {doctor:#}");
    let around = still.hns("doctor -n r-team --as rita").await;
    let wrong = "WRONG  condition BadConfiguration (X): r-web: x\n";
    assert!(around.code == Some(1) && around.stdout.contains(wrong), "{around:?}");
    for note in ["above and below r-team are read\n", "note   copies: not checked, which needs"] {
        assert!(around.stdout.contains(note), "{note}: {around:?}");
    }
}

#[tokio::test]
async fn without_any_right_the_missing_one_is_named() {
    plant().await;
    let still = still().await;
    for words in ["tree r-team", "describe r-team", "set r-team --root"] {
        let refused = still.hns(&format!("{words} --as nobody-special")).await;
        refused.fails("Error reading namespace r-team: hierarchyconfigurations.hnc.x-k8s.io \"hierarchy\" is forbidden: User");
        assert!(refused.stderr.contains("You lack this right"), "{refused:?}");
    }
    let quotas = still.hns("hrq -A --as nobody-special").await;
    quotas.fails("Error: you may not list hierarchicalresourcequotas in the whole cluster, so only those of one namespace");
    assert!(quotas.stderr.ends_with("Name a namespace of yours with -n.\n"), "{quotas:?}");
    let doctor = still.hns("doctor -n r-team --as nobody-special").await;
    let unread = "note   trees: not checked: you may not read the hierarchy of any of these namespaces\n";
    assert!(doctor.stdout.contains(unread) && !doctor.stdout.contains("ok     trees"), "{doctor:?}");
    let create = still.hns("create r-new -n r-team --as rita").await;
    create.fails("\nCould not create subnamespace anchor.\nReason: subnamespaceanchors.hnc.x-k8s.io is forbidden: User \"rita\" cannot create");
}
