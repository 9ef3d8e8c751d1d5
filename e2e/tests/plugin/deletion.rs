//! `delete`: its questions, the cases without a question, and dry runs.

use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;

use super::fixture::{Output, live};

/// The subnamespaces `sub`, `one` and `two` below each other, and the full namespace `full` below `one`.
struct Scene {
    org: String,
    names: [String; 4],
}

impl Scene {
    async fn plant(prefix: &str) -> Self {
        let steps = live().await.steps();
        let name = |suffix: &str| format!("{prefix}-{suffix}");
        let (org, names) = (name("org"), ["sub", "one", "two", "full"].map(name));
        let [sub, one, two, full] = names.each_ref().map(String::as_str);
        steps.create_namespace(&org).await.unwrap();
        for path in [&[sub, &*org][..], &[one, sub, &*org], &[two, one, sub, &*org]] {
            let (child, parent) = (path[0], path[1]);
            eventually("the anchor is accepted", PATIENCE, async || {
                steps.create_anchor(parent, child).await.map_err(|error| error.to_string())
            })
            .await
            .unwrap();
            eventually("the subnamespace is there", PATIENCE, async || {
                let found = steps.namespaces().get_opt(child).await.map_err(|error| error.to_string())?;
                found.map(drop).ok_or_else(|| child.to_owned())
            })
            .await
            .unwrap();
            steps.labelled(path).await.unwrap();
        }
        steps.plant(&[(full, one)]).await.unwrap();
        steps.labelled(&[full, one, sub, &org]).await.unwrap();
        Self { org, names }
    }

    /// Those of the four namespaces that are there and not being deleted.
    async fn left(&self) -> Vec<&str> {
        let steps = live().await.steps();
        let mut left = Vec::new();
        for name in &self.names {
            let found = steps.namespaces().get_opt(name).await.unwrap();
            if found.is_some_and(|it| it.metadata.deletion_timestamp.is_none()) {
                left.push(&**name);
            }
        }
        left
    }

    fn all(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn deletes(&self, deleted: &[&str], orphaned: &[&str]) -> String {
        let list = |names: &[&str]| names.iter().flat_map(|name| ["  ", name, "\n"]).collect::<String>();
        let (sub, org) = (&self.names[0], &self.org);
        let orphans = if orphaned.is_empty() {
            String::new()
        } else {
            format!("These namespaces stay, and lose their parent:\n{}", list(orphaned))
        };
        format!(
            "Deleting the subnamespace anchor {sub} in {org} deletes these namespaces, with everything in them:\n{}{orphans}",
            list(deleted),
        )
    }
}

fn done(output: &Output, wanted: &str) {
    assert_eq!((output.code, &*output.stdout), (Some(0), wanted), "{output:?}");
}

#[tokio::test]
async fn a_deletion_is_asked_about_with_every_namespace_that_goes() {
    let (live, scene) = (live().await, Scene::plant("da").await);
    let [sub, one, two, full] = scene.all()[..] else { unreachable!() };
    let delete = format!("delete {sub} -n {}", scene.org);
    let plan = scene.deletes(&[one, sub, two], &[full]);
    for answer in ["n", "", "no"] {
        let refused = live.asked(&format!("{delete} -a"), answer).await;
        assert_eq!((refused.code, &*refused.stdout), (Some(1), &*plan), "{refused:?}");
        assert_eq!(refused.stderr, "Delete? [y/N] Nothing was changed\n");
    }
    assert_eq!(scene.left().await, scene.all());
    let hierarchy = live.hns(&format!("describe {sub}")).await;
    assert!(hierarchy.stdout.contains("Allows Cascading Deletion: false"), "{hierarchy:?}");
    let deleted = live.asked(&format!("{delete} -a --wait"), "y").await;
    let end = format!(
        "Allowing cascading deletion on '{sub}'\nSuccessfully deleted {sub:?} subnamespace anchor in {:?} namespace\n",
        scene.org
    );
    done(&deleted, &format!("{plan}{end}"));
    assert_eq!(scene.left().await, [full]);
}

/// What HNC's scripts do goes through; what they would not expect does not.
#[tokio::test]
async fn without_a_terminal_only_what_is_named_is_deleted() {
    let (live, scene) = (live().await, Scene::plant("dn").await);
    let [sub, one, two, full] = scene.all()[..] else { unreachable!() };
    let org = &scene.org;
    let delete = format!("delete {sub} -n {org}");
    live.hns(&delete).await.fails("Could not delete subnamespace anchor.\nReason: admission webhook");
    live.hns(&format!("set {sub} -a")).await;
    let refused = live.hns(&delete).await;
    assert_eq!(refused.code, Some(1));
    assert_eq!(refused.stdout, scene.deletes(&[one, sub, two], &[full]));
    assert_eq!(
        refused.stderr,
        "Error: this needs confirmation, and stdin is not a terminal; nothing was changed\n\
         Use --yes to continue without confirmation.\n"
    );
    assert_eq!(scene.left().await, scene.all());
    live.hns(&format!("delete {two} -n {one} --wait"))
        .await
        .says(&format!("Successfully deleted {two:?} subnamespace anchor in {one:?} namespace\n"));
    assert_eq!(scene.left().await, [sub, one, full]);
    let (mut watching, mut lines) = live.started(&format!("tree {one} -o name --watch"));
    assert_eq!(lines.next_line().await.unwrap(), Some(format!("namespace/{one}")));
    let deleted = live.hns(&format!("{delete} --yes --wait")).await;
    assert!(watching.wait().await.unwrap().success(), "{one} is deleted, so there is nothing to watch");
    done(&deleted, &format!("Successfully deleted {sub:?} subnamespace anchor in {org:?} namespace\n"));
    assert_eq!(
        deleted.stderr,
        format!(
            "Note: these namespaces below are deleted, with everything in them: {one}\n\
             Note: these namespaces stay, and lose their parent: {full}\n"
        )
    );
    assert_eq!(scene.left().await, [full]);
    live.hns(&delete).await.fails("Could not delete subnamespace anchor.\nReason: subnamespaceanchors");
    let system = live.hns(&format!("delete kube-system -n {org}")).await;
    assert!(!system.stderr.contains("kubectl delete namespace"), "{system:?}");
}

#[tokio::test]
async fn a_dry_run_of_a_deletion_changes_nothing() {
    let (live, scene) = (live().await, Scene::plant("dd").await);
    let [sub, one, two, full] = scene.all()[..] else { unreachable!() };
    let org = &scene.org;
    let plan = scene.deletes(&[one, sub, two], &[full]);
    let end = |suffix: &str| {
        format!("Successfully deleted {sub:?} subnamespace anchor in {org:?} namespace{suffix}\n")
    };
    let delete = format!("delete {sub} -n {org}");
    let client = live.hns(&format!("{delete} -a --dry-run=client")).await;
    let allowing = format!("Allowing cascading deletion on '{sub}' (dry run)\n");
    client.says(&format!("{plan}{allowing}{}", end(" (dry run)")));
    let server = live.hns(&format!("{delete} -a --dry-run=server")).await;
    let allowing = format!("Allowing cascading deletion on '{sub}' (server dry run)\n");
    done(&server, &format!("{plan}{allowing}{}", end(" (server dry run)")));
    assert!(
        server.stderr.starts_with("Note: the API server can check the deletion itself only"),
        "{server:?}"
    );
    let hint = format!(
        "With -a (--allowCascadingDeletion) the subnamespaces below are deleted as well; a full namespace below stays with all below \
         it, and loses its parent. This needs the right to update hierarchyconfigurations in {sub}. Without it, first delete each of these \
         subnamespaces, and give each full namespace another parent: `kubectl hns set NAME --parent PARENT`.\n"
    );
    for (run, said) in [
        ("client", "Error: this would be refused: the subnamespace"),
        ("server", "Could not delete subnamespace anchor.\nReason: admission webhook"),
    ] {
        let refused = live.hns(&format!("{delete} --dry-run={run}")).await;
        refused.fails(said);
        assert!(refused.stderr.ends_with(&hint), "{refused:?}");
    }
    live.hns(&format!("delete {two} -n {one} --dry-run=server")).await.says(&format!(
        "Deleting the subnamespace anchor {two} in {one} deletes these namespaces, with everything in them:\n  {two}\n\
         Successfully deleted {two:?} subnamespace anchor in {one:?} namespace (server dry run)\n"
    ));
    let stranger = live.hns(&format!("{delete} --dry-run=server --as nobody")).await;
    assert_eq!(stranger.code, Some(1), "{stranger:?}");
    // Who may read the anchor and not delete it is refused before the question.
    live.steps().create_role(org, "reader", (&["get"], "hnc.x-k8s.io", "subnamespaceanchors")).await.unwrap();
    live.steps().create_binding(org, "reader", ("Role", "reader"), "rita").await.unwrap();
    for flag in ["--dry-run=client", "--dry-run=server", ""] {
        let words = format!("{delete} {flag} --as rita");
        let refused = eventually(&words, PATIENCE, async || {
            let output = live.asked(&words, "y").await;
            if output.stderr.contains("cannot delete resource") {
                Ok(output)
            } else {
                Err(format!("{output:?}"))
            }
        })
        .await
        .unwrap();
        assert!(refused.stdout.is_empty() && !refused.stderr.contains("Delete?"), "{flag}: {refused:?}");
    }
    // Who may delete the anchor and not allow cascading deletion.
    for (namespace, verbs, resource) in [
        (org.as_str(), &["get", "delete"][..], "subnamespaceanchors"),
        (sub, &["get"], "hierarchyconfigurations"),
    ] {
        live.steps().create_role(namespace, resource, (verbs, "hnc.x-k8s.io", resource)).await.unwrap();
        live.steps().create_binding(namespace, resource, ("Role", resource), "della").await.unwrap();
    }
    let words = format!("{delete} -a --yes --as della");
    let refused = eventually(&words, PATIENCE, async || {
        let output = live.hns(&words).await;
        if output.stderr.contains("cannot update resource") { Ok(output) } else { Err(format!("{output:?}")) }
    })
    .await
    .unwrap();
    assert!(refused.stderr.contains("You lack this right"), "{refused:?}");
    assert!(refused.stderr.ends_with("\nNothing was deleted.\n"), "{refused:?}");
    assert!(!refused.stderr.contains("are deleted"), "{refused:?}");
    assert_eq!(scene.left().await, scene.all());
    let hierarchy = live.hns(&format!("describe {sub}")).await;
    assert!(hierarchy.stdout.contains("Allows Cascading Deletion: false"), "{hierarchy:?}");
}

#[tokio::test]
async fn what_an_ancestor_allows_needs_no_right_on_the_child() {
    let (live, scene) = (live().await, Scene::plant("dp").await);
    let [sub, .., full] = scene.all()[..] else { unreachable!() };
    let org = &scene.org;
    assert_eq!(live.hns(&format!("set {org} -a")).await.code, Some(0));
    for (resource, verbs) in
        [("subnamespaceanchors", &["get", "delete"][..]), ("hierarchyconfigurations", &["get"])]
    {
        live.steps().create_role(org, resource, (verbs, "hnc.x-k8s.io", resource)).await.unwrap();
        live.steps().create_binding(org, resource, ("Role", resource), "dora").await.unwrap();
    }
    let allowed =
        format!("Cascading deletion for '{sub}' is already allowed by {org}, which is above it; unchanged\n");
    let deleted = format!("Successfully deleted {sub:?} subnamespace anchor in {org:?} namespace\n");
    let words = format!("delete {sub} -n {org} -a --yes --no-wait --as dora");
    // The copies of the bindings arrive in the child, and the webhook learns that org allows it.
    eventually(&words, PATIENCE, async || {
        let output = live.hns(&words).await;
        let is_done = output.code == Some(0) && output.stdout == format!("{allowed}{deleted}");
        if is_done { Ok(()) } else { Err(format!("{output:?}")) }
    })
    .await
    .unwrap();
    eventually("only the full namespace is left", PATIENCE, async || {
        let left = scene.left().await;
        if left == [full] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await
    .unwrap();
}

/// Who may not list anchors, or not read the hierarchy of the child, does not delete what is below without a question.
#[tokio::test]
async fn what_cannot_be_listed_is_asked_about_as_well() {
    let (live, scene) = (live().await, Scene::plant("dl").await);
    let [sub, one, two, full] = scene.all()[..] else { unreachable!() };
    let org = &scene.org;
    assert_eq!(live.hns(&format!("set {sub} -a")).await.code, Some(0));
    for (user, name, resource, verbs) in [
        ("pat", "pat-anchors", "subnamespaceanchors", &["get", "delete"][..]),
        ("pat", "pat-hierarchies", "hierarchyconfigurations", &["get"]),
        ("wim", "wim-anchors", "subnamespaceanchors", &["get", "list", "delete"]),
    ] {
        live.steps().create_role(org, name, (verbs, "hnc.x-k8s.io", resource)).await.unwrap();
        live.steps().create_binding(org, name, ("Role", name), user).await.unwrap();
        live.steps().binding_arrives(&[sub, one, two], name, org, user).await.unwrap();
    }
    // What pat cannot read, and has no anchor, may be a subnamespace.
    let unsure = "You may not read these namespaces. Those that are subnamespaces are deleted as well, with the subnamespaces below them; \
                  the others stay, and lose their parent:\n";
    let to_pat = format!("{}{unsure}  {full}\n", scene.deletes(&[one, sub, two], &[]));
    let to_wim = "If cascading deletion is allowed, all subnamespaces below are deleted as well, also those that are not listed.\n";
    for (user, text) in [("pat", &*to_pat), ("wim", to_wim)] {
        let refused = live.hns(&format!("delete {sub} -n {org} --as {user}")).await;
        assert!(refused.code == Some(1) && refused.stdout.ends_with(text), "{refused:?}");
        assert!(refused.stderr.contains("this needs confirmation"), "{refused:?}");
    }
    assert_eq!(scene.left().await, scene.all());
    let deletion = format!("delete {two} -n {one} --as pat");
    live.hns(&deletion)
        .await
        .says(&format!("Successfully deleted {two:?} subnamespace anchor in {one:?} namespace\n"));
}
