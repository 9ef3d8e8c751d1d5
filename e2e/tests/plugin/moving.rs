//! `move` and `convert`: full namespaces and subnamespaces, interrupted after each write, and without the rights.

use std::collections::BTreeMap;

use hns_api::annotations::SUBNAMESPACE_OF;
use hns_api::{SubnamespaceAnchor, SubnamespaceAnchorSpec};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Proxy, Steps, eventually};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::fixture::{Output, live, plugin};

/// The tree `from` with the subnamespace `sub`, which has one below itself, and the tree `to`.
struct Scene {
    steps: Steps,
    from: String,
    to: String,
    sub: String,
    below: String,
    uids: BTreeMap<String, String>,
}

impl Scene {
    async fn plant(prefix: &str) -> Self {
        let steps = live().await.steps();
        let name = |suffix: &str| format!("{prefix}-{suffix}");
        let (from, to, sub, below) = (name("from"), name("to"), name("sub"), name("below"));
        steps.plant(&[(&from, ""), (&to, "")]).await.unwrap();
        steps.create_binding(&from, "of-from", ("ClusterRole", "view"), "alice").await.unwrap();
        steps.create_binding(&to, "of-to", ("ClusterRole", "view"), "bob").await.unwrap();
        steps.create_anchor(&from, &sub).await.unwrap();
        steps.labelled_in_time(&[&sub, &from]).await;
        steps.create_anchor(&sub, &below).await.unwrap();
        steps.labelled_in_time(&[&below, &sub, &from]).await;
        steps.binding_arrives(&[&sub, &below], "of-from", &from, "alice").await.unwrap();
        let mut scene = Self { steps, from, to, sub, below, uids: BTreeMap::new() };
        scene.uids = scene.uids_now().await;
        scene
    }

    async fn uids_now(&self) -> BTreeMap<String, String> {
        let mut uids = BTreeMap::new();
        for name in [&self.from, &self.to, &self.sub, &self.below] {
            let namespace = self.steps.namespaces().get(name).await.unwrap();
            assert!(namespace.metadata.deletion_timestamp.is_none(), "{name} is being deleted");
            uids.insert(name.clone(), namespace.metadata.uid.unwrap());
        }
        uids
    }

    async fn annotation(&self) -> Option<String> {
        let namespace = self.steps.namespaces().get(&self.sub).await.unwrap();
        namespace.metadata.annotations.unwrap_or_default().remove(SUBNAMESPACE_OF)
    }

    async fn anchors(&self) -> Vec<(String, String)> {
        let all: Api<SubnamespaceAnchor> = Api::all(self.steps.client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={}", self.sub));
        let shown = |it: SubnamespaceAnchor| {
            let state = it.state().unwrap_or_default().to_owned();
            (it.metadata.namespace.unwrap_or_default(), state)
        };
        all.list(&named).await.unwrap().items.into_iter().map(shown).collect()
    }

    /// That the subnamespace is one of `to`, with everything that this means, and that nothing was created anew.
    async fn has_moved(&self) {
        let Self { steps, from, to, sub, below, .. } = self;
        assert_eq!(self.annotation().await.as_ref(), Some(to));
        eventually("the new anchor holds, the old is gone", PATIENCE, async || {
            let anchors = self.anchors().await;
            if anchors == [(to.clone(), "Ok".to_owned())] { Ok(()) } else { Err(format!("{anchors:?}")) }
        })
        .await
        .unwrap();
        steps.labelled(&[sub, to]).await.unwrap();
        steps.labelled(&[below, sub, to]).await.unwrap();
        steps.binding_arrives(&[sub, below], "of-to", to, "bob").await.unwrap();
        steps.binding_leaves(&[sub, below], "of-from").await.unwrap();
        assert_eq!(self.uids_now().await, self.uids, "a namespace was deleted on the way from {from}");
    }
}

/// Waits for a subnamespace, which takes as long as creating it.
trait InTime {
    async fn labelled_in_time(&self, path: &[&str]);
}

impl InTime for Steps {
    async fn labelled_in_time(&self, path: &[&str]) {
        eventually("the subnamespace is there", PATIENCE, async || {
            self.namespaces()
                .get_opt(path[0])
                .await
                .ok()
                .flatten()
                .map(drop)
                .ok_or_else(|| "not yet".to_owned())
        })
        .await
        .unwrap();
        self.labelled(path).await.unwrap();
    }
}

#[tokio::test]
async fn a_subnamespace_moves_with_everything_below() {
    let scene = Scene::plant("ms").await;
    let live = live().await;
    let asked = live.hns("move ms-sub --to ms-to").await;
    let plan = "\
Moving ms-sub, a subnamespace of ms-from, below ms-to:
  1. annotate namespace ms-sub with hnc.x-k8s.io/subnamespace-of=ms-to (now ms-from)
  2. create the subnamespace anchor ms-sub in ms-to
  3. delete the subnamespace anchor ms-sub in ms-from, which then no longer owns ms-sub
";
    assert!(asked.code == Some(1) && asked.stdout.starts_with(plan), "{asked:?}");
    let binding = "rolebindings.rbac.authorization.k8s.io";
    for line in [
        "  ms-sub: the parent would change from ms-from to ms-to\n".to_owned(),
        "  ms-below: label ms-to.tree.hnc.x-k8s.io/depth=2 would be added\n".to_owned(),
        format!("  {binding} of-to in ms-below would be created, from ms-to\n  {binding} of-from in ms-sub would be deleted\n"),
        "  ms-sub in ms-to would be created\n".to_owned(),
        "objects: 2 created, 0 updated, 0 overwritten, 2 deleted; namespaces: 0 created, 0 deleted, 4 changed".to_owned(),
    ] {
        assert!(asked.stdout.contains(&line), "{line:?}: {asked:?}");
    }
    assert!(asked.stderr.contains("stdin is not a terminal; nothing was changed"), "{asked:?}");
    assert_eq!(scene.annotation().await.as_deref(), Some("ms-from"));
    let moved = live.hns("move ms-sub --to ms-to --yes").await;
    assert_eq!((moved.code, &*moved.stderr), (Some(0), ""), "{moved:?}");
    let end = "Moved ms-sub below ms-to\nms-sub and all namespaces below it have been moved; all copies are there\n";
    assert!(moved.stdout.starts_with(plan) && moved.stdout.ends_with(end), "{moved:?}");
    // What the command has waited for needs no more waiting.
    let copies = scene.steps.bindings("ms-below").list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = copies.items.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
    assert_eq!(names, ["of-to"]);
    scene.has_moved().await;
    let again = live.hns("move ms-sub --to ms-to --no-wait").await;
    again.says("ms-sub is below ms-to already; unchanged\n");
}

#[tokio::test]
async fn a_full_namespace_moves_and_impossible_moves_are_refused_first() {
    let live = live().await;
    let steps = live.steps();
    steps.plant(&[("mf-a", ""), ("mf-b", ""), ("mf-n", "mf-a"), ("mf-below", "mf-n")]).await.unwrap();
    steps.labelled(&["mf-below", "mf-n", "mf-a"]).await.unwrap();
    let moved = live.hns("move mf-n --to mf-b -y").await;
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(
        moved
            .stdout
            .starts_with("Moving mf-n, a child of mf-a, below mf-b:\n  1. set the parent of mf-n to mf-b\n")
    );
    steps.labelled(&["mf-below", "mf-n", "mf-b"]).await.unwrap();
    let conflicting = [("mf-c", "mine"), ("mf-n", "mine")];
    steps.create_namespace("mf-c").await.unwrap();
    for (namespace, name) in conflicting {
        steps.create_binding(namespace, name, ("ClusterRole", "view"), namespace).await.unwrap();
    }
    live.hns("move mf-n --to mf-c -y")
        .await
        .fails("Error: this would be refused (409): these objects are in the way");
    live.hns("move mf-n --to mf-n -y").await.fails("Error: mf-n cannot be its own parent\n");
    live.hns("move mf-n --to mf-below -y")
        .await
        .fails("Error: mf-below is below mf-n, so it cannot be its parent\n");
    live.hns("move mf-n --to no-such -y")
        .await
        .fails("Error reading namespace no-such: namespaces \"no-such\" not found\n");
    live.hns("move no-such --to mf-a -y").await.fails("Error reading namespace no-such: ");
}

#[tokio::test]
async fn a_namespace_is_converted_both_ways() {
    let scene = Scene::plant("mc").await;
    let live = live().await;
    let full = live.hns("convert mc-sub --to full --yes").await;
    assert_eq!(full.code, Some(0), "{full:?}");
    assert!(full.stdout.ends_with("mc-sub is a full namespace now\n"), "{full:?}");
    assert_eq!((scene.annotation().await, scene.anchors().await), (None, vec![]));
    scene.steps.labelled(&["mc-below", "mc-sub", "mc-from"]).await.unwrap();
    live.hns("convert mc-sub --to full --yes").await.says("mc-sub is a full namespace already; unchanged\n");
    for command in ["create", "plan create"] {
        let taken = live.hns(&format!("{command} mc-sub -n mc-from")).await;
        let hint = "`kubectl hns convert mc-sub --to sub` makes it a subnamespace.\n";
        assert!(taken.code == Some(1) && taken.stderr.ends_with(hint), "{command}: {taken:?}");
    }
    let sub = live.hns("convert mc-sub --to sub --yes").await;
    assert_eq!(sub.code, Some(0), "{sub:?}");
    assert_eq!(scene.annotation().await.as_deref(), Some("mc-from"));
    assert_eq!(scene.anchors().await, [("mc-from".to_owned(), "Ok".to_owned())]);
    live.hns("convert mc-sub --to sub --yes").await.says("mc-sub is a subnamespace already; unchanged\n");
    live.hns("convert mc-from --to sub --yes")
        .await
        .fails("Error: mc-from has no parent, so it cannot become a subnamespace\n");
    assert_eq!(scene.uids_now().await, scene.uids);
}

/// A kubeconfig of the administrator that leads through the proxy, which wants a token.
pub(super) async fn through(proxy: &Proxy, cluster: &Cluster) -> tempfile::NamedTempFile {
    let kubectl =
        |words: &str| cluster.kubectl().args(words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let bind =
        "create clusterrolebinding plugin-mover --clusterrole=cluster-admin --serviceaccount=default:default";
    kubectl(bind).run().await.unwrap();
    let token = kubectl("create token default -n default").ok().await.unwrap();
    let content = json!({
        "clusters": [{ "name": "c", "cluster": { "server": proxy.url() } }],
        "users": [{ "name": "u", "user": { "token": token.trim() } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content.to_string()).unwrap();
    file
}

#[tokio::test]
async fn a_move_interrupted_after_any_write_loses_nothing_and_is_finished_by_a_second_run() {
    let live = live().await;
    let proxy = Proxy::start(live.cluster).unwrap();
    let kubeconfig = through(&proxy, live.cluster).await;
    let hns = async |words: &str| -> Output {
        plugin(&format!("--kubeconfig {} {words}", kubeconfig.path().display()), &[]).await.unwrap()
    };
    let undisturbed = Scene::plant("mu").await;
    proxy.reset();
    let output = hns("move mu-sub --to mu-to --yes").await;
    assert_eq!(output.code, Some(0), "{output:?}");
    undisturbed.has_moved().await;
    // The annotation, the new anchor, the old anchor. One that a webhook refuses because it is behind is written again.
    let writes = 3;
    assert!(proxy.writes() >= writes, "{}", proxy.writes());
    for after in 0..=writes {
        let scene = Scene::plant(&format!("mi{after}")).await;
        let words = format!("move {} --to {} --yes", scene.sub, scene.to);
        proxy.stop_after(after, || {});
        let interrupted = hns(&words).await;
        assert!(proxy.stopped(), "after {after} writes: {interrupted:?}");
        assert_eq!(interrupted.code, Some(1), "after {after} writes: {interrupted:?}");
        assert_eq!(scene.uids_now().await, scene.uids);
        proxy.reset();
        let second = hns(&words).await;
        assert_eq!(second.code, Some(0), "after {after} writes: {interrupted:?}\n{second:?}");
        scene.has_moved().await;
        println!("interrupted after write {after} of {writes}: the second run made {} more", proxy.writes());
    }
}

/// There is one write: before it nothing has happened, and after it the second run has only to wait.
#[tokio::test]
async fn a_full_namespace_s_interrupted_move_is_finished_by_a_second_run() {
    let live = live().await;
    let proxy = Proxy::start(live.cluster).unwrap();
    let kubeconfig = through(&proxy, live.cluster).await;
    for after in 0..=1 {
        let [from, to, name] = ["from", "to", "n"].map(|it| format!("mg{after}-{it}"));
        live.steps().plant(&[(&from, ""), (&to, ""), (&name, &from)]).await.unwrap();
        live.steps().create_binding(&to, "of-to", ("ClusterRole", "view"), "bob").await.unwrap();
        live.steps().labelled(&[&name, &from]).await.unwrap();
        let words = format!("--kubeconfig {} move {name} --to {to} --yes", kubeconfig.path().display());
        proxy.stop_after(after, || {});
        let interrupted = plugin(&words, &[]).await.unwrap();
        assert!(proxy.stopped() && interrupted.code == Some(1), "after {after} writes: {interrupted:?}");
        proxy.reset();
        let second = plugin(&words, &[]).await.unwrap();
        assert_eq!(second.code, Some(0), "after {after} writes: {second:?}");
        live.steps().labelled(&[&name, &to]).await.unwrap();
        live.steps().binding_arrives(&[&name], "of-to", &to, "bob").await.unwrap();
        println!("interrupted after write {after} of 1: the second run made {} more", proxy.writes());
    }
}

#[tokio::test]
async fn a_missing_right_is_named_before_anything_is_changed() {
    let scene = Scene::plant("mr").await;
    let live = live().await;
    for namespace in ["mr-from", "mr-to", "mr-sub"] {
        scene.steps.make_admin(namespace, "mona").await.unwrap();
    }
    let get = live.cluster.kubectl().args([
        "create",
        "clusterrole",
        "mr-get",
        "--verb=get",
        "--resource=namespaces",
    ]);
    get.ok().await.unwrap();
    let bind = ["create", "clusterrolebinding", "mr-get", "--clusterrole=mr-get", "--user=mona"];
    live.cluster.kubectl().args(bind).ok().await.unwrap();
    let wanted = "Error: you may not update the namespace mr-sub, which this needs; nothing was changed\n";
    let refused = eventually("the authorizer knows mona's rights", PATIENCE, async || {
        let refused = live.hns("move mr-sub --to mr-to --yes --as mona").await;
        if refused.stderr.contains(wanted) { Ok(refused) } else { Err(format!("{refused:?}")) }
    })
    .await
    .unwrap();
    assert_eq!((refused.code, &*refused.stdout), (Some(1), ""));
    assert_eq!(scene.annotation().await.as_deref(), Some("mr-from"));
    assert_eq!(scene.anchors().await, [("mr-from".to_owned(), "Ok".to_owned())]);
}

/// The labels of an anchor go with it: its subnamespace would lose them otherwise.
#[tokio::test]
async fn the_new_anchor_hands_down_what_the_old_one_did() {
    let live = live().await;
    let scene = Scene::plant("ml").await;
    // No label is managed here, so only an empty list shows that the `spec` was taken over.
    let patch = json!({ "spec": { "labels": [] } }).to_string();
    let patch = ["patch", "subns", "ml-sub", "-n", "ml-from", "--type=merge", "-p", &patch];
    live.cluster.kubectl().args(patch).ok().await.unwrap();
    let moved = live.hns("move ml-sub --to ml-to --yes").await;
    assert_eq!(moved.code, Some(0), "{moved:?}");
    let anchor = scene.steps.anchors("ml-to").get("ml-sub").await.unwrap();
    assert_eq!(anchor.spec, SubnamespaceAnchorSpec { labels: Some(Vec::new()), ..Default::default() });
}

/// A quota in the new parent would refuse the anchor after the first write.
#[tokio::test]
async fn a_quota_on_anchors_refuses_before_the_first_write() {
    let (live, scene) = (live().await, Scene::plant("mq").await);
    live.apply_full_quota(&scene.to, "few", "count/subnamespaceanchors.hnc.x-k8s.io").await;
    let Scene { sub, to, from, .. } = &scene;
    let said = "is forbidden: exceeded quota: few, requested: count/subnamespaceanchors.hnc.x-k8s.io=1";
    let refused = live.hns(&format!("move {sub} --to {to} --yes")).await;
    assert!(refused.code == Some(1) && refused.stderr.contains(said), "{refused:?}");
    assert_eq!(scene.annotation().await.as_ref(), Some(from), "nothing was written");
    let plan = live.hns(&format!("plan create mq-new -n {to}")).await;
    assert!(plan.code == Some(1) && plan.stdout.contains(said), "{plan:?}");
    // The API server's own words.
    let created = live.hns(&format!("create mq-new -n {to}")).await;
    assert!(created.code == Some(1) && created.stderr.contains(said), "{created:?}");
}
