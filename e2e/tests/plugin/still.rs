//! HNC's outputs to the byte, for objects with a fixed status.

use serde_json::json;

use super::fixture::{anchor, hierarchy, namespace, plugin, still};

const MISSING: (&str, &str, &str) = ("ActivitiesHalted", "ParentMissing", "parent gone does not exist");
const LOST: (&str, &str, &str) = ("BadConfiguration", "SubnamespaceAnchorMissing", "no anchor");

#[tokio::test]
async fn a_tree_with_marks_and_footnotes() {
    let still = still().await;
    still
        .apply(&[
            namespace("acme-org", ""),
            namespace("team-a", ""),
            namespace("team-b", "acme-org"),
            namespace("service-1", "team-a"),
        ])
        .await;
    still
        .apply(&[
            hierarchy("acme-org", "", &["team-a", "team-b"], &[MISSING]),
            hierarchy("team-a", "acme-org", &["service-1"], &[]),
            hierarchy("service-1", "team-a", &[], &[MISSING, LOST]),
        ])
        .await;
    let wanted = "\
acme-org (1)
├── team-a
│   └── [s] service-1 (1,2)
└── [s] team-b

[s] indicates subnamespaces

Conditions:
1) ActivitiesHalted (ParentMissing): parent gone does not exist
2) BadConfiguration (SubnamespaceAnchorMissing): no anchor
";
    still.hns("tree acme-org").await.says(wanted);
    still
        .hns("tree acme-org team-b --depth 0")
        .await
        .says("acme-org [3 more below] (1)\nteam-b\n\nConditions:\n1) ActivitiesHalted (ParentMissing): parent gone does not exist\n");
    // What `spec` says is drawn, even while the status of the parents is out of date.
    still.apply(&[hierarchy("team-a", "acme-org", &[], &[])]).await;
    still.hns("tree acme-org").await.says(wanted);
    let label = ["label", "ns", "service-1", "team=blue"];
    still.cluster.kubectl().args(label).ok().await.unwrap();
    let selected = still.hns("tree -A -l team=blue -o name").await;
    selected.says("namespace/acme-org\nnamespace/team-a\nnamespace/service-1\n");
    let none = still.hns("tree acme-org -l team=none").await;
    assert_eq!(none.stderr, "Note: no namespace in these trees matches team=none\n", "{none:?}");
    still.hns("tree team-b team-a").await.says(
        "team-b\nteam-a\n└── [s] service-1 (1,2)\n\n[s] indicates subnamespaces\n\nConditions:\n\
         1) ActivitiesHalted (ParentMissing): parent gone does not exist\n\
         2) BadConfiguration (SubnamespaceAnchorMissing): no anchor\n",
    );
    still
        .hns("tree acme-org -o name")
        .await
        .says("namespace/acme-org\nnamespace/team-a\nnamespace/service-1\nnamespace/team-b\n");
    let tree = still.hns("tree acme-org -o json").await.json();
    assert_eq!(tree["trees"][0]["children"][0]["children"][0]["subnamespace"], true);
    assert_eq!(tree["trees"][0]["conditions"][0]["reason"], "ParentMissing");
    let yaml = still.hns("tree acme-org -o yaml").await;
    assert!(yaml.stdout.contains("name: acme-org"), "{yaml:?}");
    assert!(still.hns("tree acme-org -o mermaid").await.stdout.starts_with("flowchart LR\n"));
    assert!(still.hns("tree acme-org -o dot").await.stdout.starts_with("digraph hierarchy {\n"));
}

#[tokio::test]
async fn all_trees_start_at_roots_orphans_and_cycles() {
    let still = still().await;
    still
        .apply(&[
            namespace("z-root", ""),
            namespace("z-child", ""),
            namespace("z-orphan", ""),
            namespace("z-x", ""),
            namespace("z-y", ""),
        ])
        .await;
    let cycle = ("ActivitiesHalted", "InCycle", "z-x <- z-y <- z-x");
    still
        .apply(&[
            hierarchy("z-root", "", &["z-child"], &[]),
            hierarchy("z-child", "z-root", &[], &[]),
            hierarchy("z-orphan", "z-gone", &[], &[MISSING]),
            hierarchy("z-x", "z-y", &["z-y"], &[cycle]),
            hierarchy("z-y", "z-x", &["z-x"], &[cycle]),
        ])
        .await;
    let all = still.hns("tree -A").await;
    assert_eq!(all.code, Some(0), "{all:?}");
    let ours: Vec<&str> = all.stdout.lines().filter(|line| line.contains("z-")).collect();
    let footnote = |name: &str| {
        let line = all.stdout.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
    };
    let (orphan, cycle) = (footnote("z-orphan"), footnote("z-x"));
    let text = cycle.trim_matches(['(', ')']);
    assert_eq!(
        ours,
        [
            &*format!("z-orphan {orphan}"),
            "z-root",
            "└── z-child",
            &format!("z-x {cycle}"),
            &format!("└── z-y {cycle}"),
            &format!("    └── z-x {cycle}"),
            &format!("z-y {cycle}"),
            &format!("└── z-x {cycle}"),
            &format!("    └── z-y {cycle}"),
            &format!("{text}) ActivitiesHalted (InCycle): z-x <- z-y <- z-x"),
        ]
    );
    still.hns("tree z-x -o name").await.says("namespace/z-x\nnamespace/z-y\n");
    for lone in ["default", "kube-system"] {
        assert!(all.stdout.lines().any(|line| line == lone), "every lone namespace too: {lone}");
    }
}

#[tokio::test]
async fn a_watched_tree_is_drawn_again_when_it_changes() {
    let still = still().await;
    still.apply(&[namespace("w-org", "")]).await;
    let (_running, mut lines) = still.started("tree w-org --watch");
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("w-org"));
    still.apply(&[namespace("w-web", ""), hierarchy("w-web", "w-org", &[], &[])]).await;
    for line in ["", "w-org", "└── w-web"] {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(line));
    }
}

#[tokio::test]
async fn trees_that_cannot_be_drawn() {
    let still = still().await;
    still.hns("tree").await.fails("Error: Must specify the root of the tree(s)");
    still.hns("tree default -A").await.fails("Error: --all-namespaces (-A) draws all trees");
    let missing = "Error reading namespace no-such: namespaces \"no-such\" not found\n";
    still.hns("tree no-such").await.fails(missing);
    still.hns("describe no-such").await.fails(missing);
    still.hns("set no-such --root").await.fails(missing);
}

#[tokio::test]
async fn a_description_of_a_namespace() {
    let still = still().await;
    let names = [("parent", ""), ("e", "parent"), ("f", ""), ("d", ""), ("lone", "")];
    still.apply(&names.map(|(name, of)| namespace(name, of))).await;
    still
        .apply(&[
            hierarchy("parent", "P", &["e", "f"], &[("ActivitiesHalted", "ParentMissing", "no P")]),
            anchor("parent", "e", "Ok"),
            anchor("parent", "d", "Conflict"),
        ])
        .await;
    let wanted = "\
Hierarchy configuration for namespace parent
  Parent: P
  Children:
  - d (Conflict subnamespace)
  - e (subnamespace)
  - f
  Allows Cascading Deletion: false
  Conditions:
  - ActivitiesHalted (ParentMissing): no P

No recent HNC events for objects in this namespace
";
    still.hns("describe parent").await.says(wanted);
    let lone = "\
Hierarchy configuration for namespace lone
  No parent
  No children
  Allows Cascading Deletion: false
  No conditions

No recent HNC events for objects in this namespace
";
    still.hns("describe lone").await.says(lone);
    still.hns("describe lone -o name").await.says("");
    still.hns("describe parent -o name").await.says("hierarchyconfiguration.hnc.x-k8s.io/hierarchy\n");
    let parent = still.hns("describe parent -o json").await.json();
    assert_eq!(
        parent["children"][0],
        json!({ "name": "d", "subnamespace": true, "anchorState": "Conflict" })
    );
}

#[tokio::test]
async fn events_of_a_namespace() {
    let still = still().await;
    still.apply(&[namespace("eventful", "")]).await;
    let now = still.cluster.kubectl().args([
        "get",
        "ns",
        "eventful",
        "-o",
        "jsonpath={.metadata.creationTimestamp}",
    ]);
    let now = now.ok().await.unwrap();
    let event = |name: &str, component: &str, reason: &str, at: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "eventful" },
            "involvedObject": { "kind": "Secret", "namespace": "eventful", "name": "key" },
            "reason": reason, "message": format!("says {name}"), "type": "Warning",
            "source": { "component": component }, "lastTimestamp": at,
        })
    };
    still
        .apply(&[
            event("old", "hnc.x-k8s.io", "CannotPropagateObject", "2020-01-01T00:00:00Z"),
            event("older", "hnc.x-k8s.io", "CannotPropagateObject", "2019-01-01T00:00:00Z"),
            event("new", "hnc.x-k8s.io", "CannotUpdateObject", &now),
            event("foreign", "kubelet", "Killing", &now),
        ])
        .await;
    let output = still.hns("describe eventful").await;
    let (_, events) = output.stdout.split_once("\n\n").unwrap();
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(lines.len(), 4, "{output:?}");
    assert_eq!(lines[0], "Events from the objects in namespace eventful");
    assert_eq!(lines[1], "Last Seen  Reason                 Object               Message");
    let cells = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(lines[2]), ["CannotUpdateObject", "Secret:eventful/key", "says", "new"]);
    assert_eq!(cells(lines[3]), ["CannotPropagateObject", "Secret:eventful/key", "says", "old"]);
}

#[tokio::test]
async fn the_configuration_of_the_cluster() {
    let still = still().await;
    let read = async || {
        let get = ["get", "hncconfiguration", "config", "-o", "jsonpath={.spec.resources}"];
        let text = still.cluster.kubectl().args(get).ok().await.unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    still.hns("config set-resource secret --mode ignore").await.says("secrets: mode Ignore\n");
    assert_eq!(read().await, json!([{ "mode": "Ignore", "resource": "secrets" }]));
    let plan = still.hns("plan config set-resource secrets --mode Propagate").await;
    let force = "The command needs --force for this\nWith --force, this would be allowed.\n";
    assert!(plan.stdout.contains(force), "{plan:?}");
    let plan = still.hns("plan config set-resource secrets --mode Propagate --force").await;
    assert!(!plan.stdout.contains(force), "{plan:?}");
    let risky = still.hns("config set-resource secrets --mode Propagate").await;
    risky.fails("Switching secrets from Ignore straight to Propagate is dangerous");
    assert_eq!(read().await, json!([{ "mode": "Ignore", "resource": "secrets" }]));
    still.hns("config set-resource secrets --mode PROPAGATE -f").await.says("secrets: mode Propagate\n");
    still
        .hns("config set-resource job --mode allowPROPAGATE")
        .await
        .says("jobs.batch: mode AllowPropagate\n");
    assert_eq!(
        read().await,
        json!([
            { "mode": "Propagate", "resource": "secrets" },
            { "group": "batch", "mode": "AllowPropagate", "resource": "jobs" },
        ])
    );
    for command in ["config", "plan config"] {
        let nonsense = still.hns(&format!("{command} set-resource jobs --group batch --mode nonsense")).await;
        nonsense.fails(
            "Error: invalid value 'nonsense' for '--mode <MODE>'\n  [possible values: Propagate, AllowPropagate,",
        );
    }
    let plan = still.hns("plan config delete-type --group batch --resource jobs").await;
    let said = "The configuration of jobs.batch would change\n";
    assert!(plan.stdout.starts_with(said) && !plan.stdout.contains("would stay"), "{plan:?}");
    still
        .hns("config delete-type --resource job")
        .await
        .says("The configuration for jobs.batch is deleted\n");
    still
        .hns("config delete-type --group batch --resource jobs")
        .await
        .says("Nothing to delete: there is no configuration for jobs.batch\n");
    assert_eq!(read().await, json!([{ "mode": "Propagate", "resource": "secrets" }]));

    let status = json!({
        "resources": [
            { "group": "", "version": "v1", "resource": "secrets", "mode": "Propagate" },
            { "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles", "mode": "Propagate" },
        ],
        "conditions": [{
            "type": "BadConfiguration", "reason": "ResourceNotFound", "message": "no jobs", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let object = json!({
        "apiVersion": hns_api::API_VERSION, "kind": "HNCConfiguration", "metadata": { "name": "config" }, "status": status,
    });
    still.apply(&[object]).await;
    still.hns("config describe").await.says(
        "Synchronized resources:\n* Propagating: secrets (/v1)\n\
         * Propagating: roles (rbac.authorization.k8s.io/v1)\n\nConditions:\n\
         BadConfiguration (ResourceNotFound): no jobs\n",
    );
    assert_eq!(still.hns("config describe -o json").await.json()["metadata"]["name"], "config");

    let set =
        "config set-resource localsubjectaccessreviews --group authorization.k8s.io --mode Propagate -f";
    still.hns(set).await.says("localsubjectaccessreviews.authorization.k8s.io: mode Propagate\n");
    let unlisted = still.hns("explain localsubjectaccessreview/x -n default").await;
    let said = "unknown\n  Why: it cannot be read there; also, what the HNCConfiguration says of its kind is not in force: ";
    assert!(unlisted.code == Some(0) && unlisted.stdout.contains(said), "{unlisted:?}");
    let note = "Note: the API server lists no localsubjectaccessreviews.authorization.k8s.io\n";
    assert!(unlisted.stderr.contains(note), "{unlisted:?}");
}

/// As after a move that was interrupted: the anchor has not followed.
#[tokio::test]
async fn a_quota_is_named_for_a_new_namespace_and_not_for_one_that_it_limits_already() {
    let still = still().await;
    still.apply(&[namespace("lq-org", ""), namespace("lq-a", ""), namespace("lq-b", "")]).await;
    still.apply(&[namespace("lq-sub", "lq-b")]).await;
    let quota = json!({
        "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota",
        "metadata": { "name": "q", "namespace": "lq-org" }, "spec": { "hard": { "services": "3" } },
    });
    still
        .apply(&[
            hierarchy("lq-org", "", &["lq-a", "lq-b"], &[]),
            hierarchy("lq-a", "lq-org", &[], &[]),
            hierarchy("lq-b", "lq-org", &["lq-sub"], &[]),
            hierarchy("lq-sub", "lq-b", &[], &[]),
            anchor("lq-a", "lq-sub", "Conflict"),
            quota,
        ])
        .await;
    let corrected = still.hns("move lq-sub --to lq-b").await;
    assert!(corrected.stdout.contains("correcting its subnamespace anchors:"), "{corrected:?}");
    assert!(!corrected.stderr.contains("would be limited"), "{corrected:?}");
    let created = still.hns("plan create lq-new -n lq-b").await;
    let note = "Note: lq-new would be limited by the hierarchical quota lq-org/q\n";
    assert!(created.stderr.contains(note), "{created:?}");
}

#[tokio::test]
async fn quotas() {
    let still = still().await;
    still.apply(&[namespace("quota-org", ""), namespace("quota-none", "")]).await;
    let quota = |name: &str, labels: serde_json::Value| {
        json!({
            "apiVersion": hns_api::API_VERSION, "kind": "HierarchicalResourceQuota",
            "metadata": { "name": name, "namespace": "quota-org", "labels": labels },
            "spec": { "hard": { "services": "1" } },
            "status": {
                "hard": { "services": "1", "pods": "4", "limits.cpu": "1500m" },
                "used": { "services": "1", "limits.cpu": "500m" },
            },
        })
    };
    still.apply(&[quota("acme-org-hrq", json!({})), quota("other", json!({ "a": "b" }))]).await;
    let head = "NAME           AGE   REQUEST                    LIMIT";
    let list = still.hns("hrq -n quota-org").await;
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, head), "{list:?}");
    let age = lines[1].split_whitespace().nth(1).unwrap();
    assert_eq!(
        lines[1],
        format!("acme-org-hrq   {age:<3}   pods: 0/4, services: 1/1   limits.cpu: 500m/1500m")
    );
    assert!(age.ends_with('s'), "{list:?}");
    assert_eq!(still.hns("hrq acme-org-hrq -n quota-org").await.stdout.lines().count(), 2);
    let labelled = still.hns("hrq other -n quota-org --show-labels").await;
    assert!(
        labelled
            .stdout
            .starts_with("NAME    AGE   REQUEST                    LIMIT                    LABELS\n")
    );
    assert!(labelled.stdout.ends_with("limits.cpu: 500m/1500m   a=b\n"), "{labelled:?}");
    let all = still.hns("hrq no-such-name -A").await;
    assert!(all.stdout.starts_with("NAMESPACE   NAME"), "names do not count with -A: {all:?}");
    let none = still.hns("hrq -n quota-none").await;
    assert_eq!(
        (none.code, &*none.stderr),
        (Some(0), "No resources found in quota-none namespace.\n"),
        "{none:?}"
    );
    assert_eq!(still.hns("hrq -n quota-none -o json").await.json()["items"], json!([]));
    for words in ["hrq -n quota-gone", "hrq -n quota-gone --tree", "hrq x -n quota-gone -o json"] {
        let missing = "Error reading namespace quota-gone: namespaces \"quota-gone\" not found\n";
        still.hns(words).await.fails(missing);
    }
    let missing =
        "Error: hierarchicalresourcequotas.hnc.x-k8s.io \"missing\" not found in namespace quota-org\n";
    still.hns("hrq missing -n quota-org").await.fails(missing);
    let some = still.hns("hrq other missing -n quota-org").await;
    assert_eq!((some.code, some.stdout.lines().count(), &*some.stderr), (Some(1), 2, missing), "{some:?}");
    still.hns("hrq -n quota-org -o name").await.says(
        "hierarchicalresourcequota.hnc.x-k8s.io/acme-org-hrq\nhierarchicalresourcequota.hnc.x-k8s.io/other\n",
    );
    assert_eq!(
        still.hns("hrq -n quota-org -o json").await.json()["items"][0]["kind"],
        "HierarchicalResourceQuota"
    );
}

/// Without a controller nothing takes effect, also if the object is as requested already.
#[tokio::test]
async fn a_change_that_was_made_before_is_waited_for() {
    let still = still().await;
    still.apply(&[namespace("st-top", ""), namespace("st-low", "")]).await;
    for command in ["set st-low --parent st-top --wait", "convert st-low --to sub --yes"] {
        for run in ["first", "second"] {
            let late = still.hns(&format!("{command} --timeout 1")).await;
            assert!(late.code == Some(1) && late.stderr.contains("timed out after 1s"), "{run}: {late:?}");
        }
        let unwatched = still.hns(&format!("{} --no-wait", command.trim_end_matches(" --wait"))).await;
        assert!(unwatched.code == Some(0) && unwatched.stdout.contains("unchanged"), "{unwatched:?}");
    }
}

#[tokio::test]
async fn what_needs_no_cluster() {
    let version = concat!("kubectl-hns version ", env!("CARGO_PKG_VERSION"), "\n");
    for words in ["version --client", "--version", "-v"] {
        plugin(words, &[]).await.unwrap().says(version);
    }
    let alone = plugin("version", &[]).await.unwrap();
    assert_eq!((alone.code, &*alone.stdout), (Some(0), version));
    assert!(alone.stderr.starts_with("Note: the versions in the cluster cannot be read: "), "{alone:?}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = plugin(&format!("completion {shell}"), &[]).await.unwrap();
        assert!(script.code == Some(0) && script.stdout.contains("set-resource"), "{shell}");
    }
    for words in ["help", "--help", "help tree", "tree --help", ""] {
        let help = plugin(words, &[]).await.unwrap();
        assert_eq!((help.code, &*help.stderr), (Some(0), ""), "{words}");
        assert!(help.stdout.contains("kubectl hns"), "{words}: {}", help.stdout);
    }
    let get = plugin("--namespace x get secret", &[]).await.unwrap();
    get.fails("Error: \"secret\" cannot be listed");
    assert!(get.stderr.contains("list server") && get.stderr.contains("kubectl get secret -A"));
    for mistake in ["nonsense", "create", "tree --nonsense", "get"] {
        let output = plugin(mistake, &[]).await.unwrap();
        output.fails("Error: ");
        assert!(output.stderr.contains("Usage: kubectl hns"), "{mistake}: {output:?}");
    }
}

/// The state of an anchor in an excluded namespace never changes, so it is not waited for.
#[tokio::test]
async fn a_namespace_whose_parent_does_not_exist_becomes_no_subnamespace() {
    let still = still().await;
    still.apply(&[namespace("lost", "")]).await;
    still.apply(&[hierarchy("lost", "lost-gone", &[], &[MISSING])]).await;
    still.hns("convert lost --to sub --yes").await.fails(
        "Error: lost-gone, the parent of lost, does not exist, so lost cannot become a subnamespace\n\
         Set another parent first: `kubectl hns move lost --to PARENT`.\n",
    );
}

#[tokio::test]
async fn a_subnamespace_of_an_excluded_namespace_is_converted() {
    let still = still().await;
    let (home, name) = ("hnc-system", "st-kept");
    still.apply(&[namespace(home, ""), namespace(name, home)]).await;
    still.apply(&[hierarchy(name, home, &[], &[]), anchor(home, name, "Ok")]).await;
    let converted = still.hns(&format!("convert {name} --to full --yes")).await;
    assert!(converted.code == Some(0), "{converted:?}");
    let anchor = ["get", "subns", name, "-n", home, "--ignore-not-found", "-o", "name"];
    let annotation =
        ["get", "ns", name, "-o", "jsonpath={.metadata.annotations.hnc\\.x-k8s\\.io/subnamespace-of}"];
    for left in [&anchor[..], &annotation[..]] {
        assert_eq!(still.cluster.kubectl().args(left).ok().await.unwrap(), "");
    }
}

/// The anchor goes, its namespace does not.
#[tokio::test]
async fn a_subnamespace_of_an_excluded_namespace_outlives_its_anchor() {
    let still = still().await;
    let home = "hnc-system";
    still.apply(&[namespace(home, "")]).await;
    for (name, flags) in [
        ("st-dry", "--dry-run=client"),
        ("st-left", ""),
        ("st-waits", "--wait --timeout 5"),
        ("st-sure", "--yes"),
    ] {
        still.apply(&[namespace(name, home), anchor(home, name, "Forbidden")]).await;
        let deleted = still.hns(&format!("delete {name} -n {home} {flags}")).await;
        let note = format!(
            "Note: {home} is excluded, because hns runs in it, so the namespace {name} stays; to delete it: \
             `kubectl delete namespace {name}`, after the subnamespaces below it, if there are any\n"
        );
        assert!(deleted.code == Some(0) && deleted.stderr.ends_with(&note), "{flags}: {deleted:?}");
        assert!(deleted.stdout.contains("Successfully deleted"), "{flags}: {deleted:?}");
    }
}

/// Nothing is in a parent that does not exist.
#[tokio::test]
async fn a_subnamespace_without_a_parent_is_deleted_by_itself() {
    let still = still().await;
    still.apply(&[namespace("sl-left", "sl-lost")]).await;
    let refused = still.hns("delete sl-left -n sl-lost").await;
    let hint = "sl-left is a subnamespace of sl-lost, which does not exist, so it has no anchor: `kubectl delete namespace sl-left` deletes it.\n";
    assert!(refused.code == Some(1) && refused.stderr.ends_with(hint), "{refused:?}");
}
