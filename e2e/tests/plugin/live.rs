//! HNC's commands with hns running: their output, and their effects.

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use serde_json::json;

use super::fixture::live;

#[tokio::test]
async fn a_subnamespace_is_made_shown_and_deleted() {
    let live = live().await;
    live.steps().create_namespace("cd-org").await.unwrap();
    live.hns("create cd-team -n cd-org --wait")
        .await
        .says("Successfully created \"cd-team\" subnamespace anchor in \"cd-org\" namespace\n");
    live.hns("create cd-web --namespace cd-team --wait --timeout 60")
        .await
        .says("Successfully created \"cd-web\" subnamespace anchor in \"cd-team\" namespace\n");
    let twice = live.hns("create cd-team -n cd-org").await;
    twice.fails("\nCould not create subnamespace anchor.\nReason: admission webhook \"subnamespaceanchors.hnc.x-k8s.io\" denied the request: subnamespaceanchors.hnc.x-k8s.io \"cd-team\" already exists\n");
    assert!(twice.stderr.contains("cd-team is a subnamespace of cd-org already"), "the way out: {twice:?}");
    let tree = "cd-org\n└── [s] cd-team\n    └── [s] cd-web\n\n[s] indicates subnamespaces\n";
    eventually("the tree is drawn", PATIENCE, async || {
        let seen = live.hns("tree cd-org").await;
        if seen.stdout == tree { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await
    .unwrap();
    live.hns("describe cd-team").await.says(
        "Hierarchy configuration for namespace cd-team\n  Parent: cd-org\n  Children:\n  - cd-web (subnamespace)\n  \
         Allows Cascading Deletion: false\n  No conditions\n\n\
         No recent HNC events for objects in this namespace\n",
    );
    let fixed = live.hns("set cd-team --root").await;
    let hint = "cd-team is a subnamespace of cd-org. `kubectl hns move cd-team --to PARENT` moves it below another parent; \
                `kubectl hns convert cd-team --to full` makes it a full namespace, whose parent can be set. Each says which rights \
                it needs, if you lack one.";
    assert!(fixed.code == Some(1) && fixed.stderr.contains(hint), "{fixed:?}");
    let planned = live.hns("plan set cd-team --root").await;
    assert!(planned.code == Some(1) && planned.stderr.contains(hint), "{planned:?}");
    let excluded = live.hns("create hnc-system -n cd-org").await;
    assert!(excluded.code == Some(1) && !excluded.stderr.contains("You lack this right"), "{excluded:?}");
    let refused = live.hns("delete cd-team -n cd-org").await;
    refused.fails("Could not delete subnamespace anchor.\nReason: admission webhook \"subnamespaceanchors.hnc.x-k8s.io\" denied");
    assert!(refused.stderr.contains("With -a"), "the way out: {refused:?}");
    let deleted = live.hns("delete cd-team -n cd-org -a --wait").await;
    let done = "Allowing cascading deletion on 'cd-team'\n\
                Successfully deleted \"cd-team\" subnamespace anchor in \"cd-org\" namespace\n";
    let note = "Note: these namespaces below are deleted, with everything in them: cd-web\n";
    assert_eq!((deleted.code, &*deleted.stdout, &*deleted.stderr), (Some(0), done, note));
    assert!(live.steps().namespaces().get_opt("cd-team").await.unwrap().is_none());
}

#[tokio::test]
async fn parents_and_cascading_deletion_are_set() {
    let live = live().await;
    for name in ["s-old", "s-new", "s-n"] {
        live.steps().create_namespace(name).await.unwrap();
    }
    let done = "Succesfully updated 1 property of the hierarchical configuration of s-n\n";
    let says = async |words: &str, line: &str, end: &str| {
        live.hns(words).await.says(&format!("{line}{}{end}", if line.is_empty() { "" } else { "\n" }));
    };
    let none = "No changes made\n";
    says("set s-n", "", none).await;
    says("set s-n --root", "s-n is already a root namespace; unchanged ", none).await;
    says("set s-n --parent s-old --wait", "Setting the parent of s-n to s-old", done).await;
    live.steps().labelled(&["s-n", "s-old"]).await.unwrap();
    says("set s-n -p s-old", "Parent of s-n is already s-old; unchanged", none).await;
    says("set s-n -p s-new --wait", "Changing the parent of s-n from s-old to s-new", done).await;
    says("set s-n -f", "Cascading deletion for 's-n' is already set to false; unchanged", none).await;
    says("set s-n -a", "Allowing cascading deletion on 's-n'", done).await;
    says("set s-n -a=true", "Cascading deletion for 's-n' is already set to true; unchanged", none).await;
    says("set s-n --forbidCascadingDeletion", "Forbidding cascading deletion on 's-n'", done).await;
    let both = "Unsetting the parent of s-n (was previously s-new)\nAllowing cascading deletion on 's-n'";
    let two = "Succesfully updated 2 properties of the hierarchical configuration of s-n\n";
    says("set s-n --root --allowCascadingDeletion --wait", both, two).await;
    live.steps().labelled(&["s-n"]).await.unwrap();

    live.hns("set s-n --parent=")
        .await
        .fails("Error: --parent needs the name of a namespace; nothing was changed\n");
    live.hns("set s-n --parent Par")
        .await
        .fails("Error: --parent \"Par\" is not a valid name of a namespace; a name has lower-case letters");
    live.hns("plan set s-n").await.fails("Error: no change was given\n");

    // Who has rights only from above is told before they go.
    says("set s-n -p s-new --wait", "Setting the parent of s-n to s-new", done).await;
    live.steps().create_binding("s-new", "sam", ("ClusterRole", "admin"), "sam").await.unwrap();
    eventually("sam is admin of s-n", PATIENCE, async || {
        let leaving = live.hns("plan set s-n --root --as sam").await;
        if leaving.code == Some(0) { Ok(()) } else { Err(format!("{leaving:?}")) }
    })
    .await
    .unwrap();
    let leaves = live.hns("set s-n --root --as sam").await;
    assert_eq!(leaves.code, Some(0), "{leaves:?}");
    assert_eq!(leaves.stderr, "Warning: you lose the rights in s-n that come from s-new\n");
    live.steps().labelled(&["s-n"]).await.unwrap();

    let contradiction = "Cannot give the namespace a parent and make it a root at the same time\n";
    live.hns("set s-n -r -p s-old").await.fails(contradiction);
    let contradiction = "Cannot set both --allowCascadingDeletion and --forbidCascadingDeletion\n";
    live.hns("set s-n -a -f").await.fails(contradiction);

    says(
        "set s-old -p s-n --wait",
        "Setting the parent of s-old to s-n",
        &done.replace("of s-n", "of s-old"),
    )
    .await;
    let cycle = live.hns("set s-n -p s-old").await;
    assert_eq!((cycle.code, &*cycle.stdout), (Some(1), "Setting the parent of s-n to s-old\n"));
    let wanted = "\nCould not update the hierarchical configuration of s-n.\nReason: admission webhook";
    assert!(cycle.stderr.starts_with(wanted) && cycle.stderr.contains("cycle"), "{cycle:?}");
}

#[tokio::test]
async fn a_missing_parent_is_a_footnote() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("f-root", ""), ("f-mid", "f-root"), ("f-leaf", "f-mid")]).await.unwrap();
    steps.labelled(&["f-leaf", "f-mid", "f-root"]).await.unwrap();
    steps.delete_namespace("f-root").await.unwrap();
    let message = steps.reasons("f-mid", &["ParentMissing"]).await.unwrap().remove(0);
    let below = steps.reasons("f-leaf", &["AncestorHaltActivities"]).await.unwrap().remove(0);
    live.hns("tree f-mid").await.says(&format!(
        "f-mid (1)\n└── f-leaf (2)\n\nConditions:\n1) ActivitiesHalted (ParentMissing): {message}\n\
         2) ActivitiesHalted (AncestorHaltActivities): {below}\n"
    ));
    let described = live.hns("describe f-mid").await;
    let shown = format!("  Conditions:\n  - ActivitiesHalted (ParentMissing): {message}\n");
    assert!(described.stdout.contains(&shown), "{described:?}");
}

/// kubectl is asked for the same change, and says what there is to be said.
#[tokio::test]
async fn warnings_of_the_api_server_are_printed_as_kubectl_prints_them() {
    let live = live().await;
    live.steps().create_namespace("w-org").await.unwrap();
    let patch = json!({ "apiVersion": hns_api::API_VERSION, "kind": "HierarchyConfiguration",
        "metadata": { "name": "hierarchy", "namespace": "w-org" }, "spec": { "parent": "w-typo" } });
    let create = live.cluster.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
    let wanted = create.stdin(patch.to_string()).run().await.unwrap().stderr;
    assert!(wanted.starts_with("Warning: ") && wanted.contains("w-typo"), "{wanted}");
    let set = live.hns("set w-org --parent w-typo").await;
    assert_eq!((set.code, &*set.stderr), (Some(0), &*wanted), "{set:?}");
    live.hns("set w-org --root").await.says(
        "Unsetting the parent of w-org (was previously w-typo)\n\
         Succesfully updated 1 property of the hierarchical configuration of w-org\n",
    );
}

/// For every request and every text; a text that two answers bring is printed once.
#[tokio::test]
async fn warnings_of_a_policy_come_with_every_kind_of_request() {
    let live = live().await;
    live.steps().create_namespace("wp-org").await.unwrap();
    let (text, name) = ("it says \"no\", \\ and größer", "plugin-warns");
    let rule = json!({ "apiGroups": [hns_api::GROUP], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["subnamespaceanchors", "hierarchyconfigurations"] });
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": "wp-org" } });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [rule], "namespaceSelector": here },
            "validations": [{ "expression": "false", "message": text }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Warn"] },
    });
    live.apply(&[policy, binding]).await;
    let wanted = eventually("kubectl is warned", PATIENCE, async || {
        let anchor = json!({ "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor",
            "metadata": { "name": "wp-other", "namespace": "wp-org" } });
        let create = live.cluster.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
        let said = create.stdin(anchor.to_string()).run().await.map_err(|error| error.to_string())?.stderr;
        if said.contains(text) { Ok(said) } else { Err(said) }
    })
    .await
    .unwrap();
    for words in [
        "create wp-team -n wp-org --wait",
        "set wp-org -a",
        "set wp-org -f",
        "convert wp-team --to full --yes",
        "convert wp-team --to sub --yes --wait",
        "delete wp-team -n wp-org",
    ] {
        let done = live.hns(words).await;
        assert_eq!((done.code, &*done.stderr), (Some(0), &*wanted), "{words}: {done:?}");
    }
    for resource in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        live.cluster.kubectl().args(["delete", resource, name]).ok().await.unwrap();
    }
}
