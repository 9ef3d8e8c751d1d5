//! `kubectl hns convert --to hnc`: a tree of Accurate's in HNC's hierarchy, what is refused, and each interrupted after each write.

use std::time::Duration;

use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::accurate::labels::{PARENT, TYPE};
use hns_api::labels::INHERITED_FROM;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Proxy, eventually, stays};
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::scene::{World, world};
use crate::plugin::fixture::plugin;
use crate::plugin::moving::through;

/// A root, a sub-namespace and one below that, with a binding and a secret that Accurate copies.
struct Scene {
    world: World,
    names: [String; 3],
    uids: Vec<String>,
}

fn binding(namespace: &str, name: &str, mode: &str, user: &str) -> Value {
    let rbac = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": namespace, "annotations": { PROPAGATE: mode } },
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": rbac, "kind": "User", "name": user }],
    })
}

fn secret(namespace: &str, name: &str, mode: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace, "annotations": { PROPAGATE: mode } });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })
}

impl Scene {
    async fn plant(prefix: &str) -> Self {
        let world = world().await;
        let names = ["root", "sub", "below"].map(|it| format!("{prefix}-{it}"));
        let [root, sub, below] = &names.clone();
        world.create_root(root).await;
        world.create_sub(sub, root).await;
        world.create_sub(below, sub).await;
        world
            .fixture
            .apply(&[binding(root, "readers", "update", "alice"), secret(root, "once", "create")])
            .await;
        let mut uids = Vec::new();
        for name in &names {
            uids.push(world.uid(name).await);
        }
        let scene = Self { world, names, uids };
        for (from, to) in [(root, sub), (sub, below)] {
            scene
                .binds(to, "readers", |it| it.metadata.annotations.as_ref()?.get(FROM).cloned(), Some(from))
                .await;
        }
        scene
    }

    fn bindings(&self, namespace: &str) -> Api<RoleBinding> {
        Api::namespaced(self.world.steps.client.clone(), namespace)
    }

    /// Waits until this is what a binding says; `None` if there is no such binding.
    async fn binds(
        &self,
        namespace: &str,
        name: &str,
        what: impl Fn(&RoleBinding) -> Option<String>,
        wanted: Option<&str>,
    ) {
        eventually(&format!("{namespace}/{name} says {wanted:?}"), PATIENCE, async || {
            let found = self.bindings(namespace).get_opt(name).await.map_err(|error| error.to_string())?;
            if found.as_ref().and_then(&what).as_deref() == wanted {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await
        .unwrap();
    }

    /// No namespace and no copy was deleted, and nothing has come.
    async fn is_whole(&self) {
        for (name, uid) in self.names.iter().zip(&self.uids) {
            assert_eq!(self.world.uid(name).await, *uid);
        }
        for name in &self.names[1..] {
            let subjects = self.bindings(name).get("readers").await.unwrap().subjects;
            assert_eq!(subjects.map(names_of), Some(vec!["alice".to_owned()]), "{name}");
            assert!(self.bindings(name).get_opt("local").await.unwrap().is_none(), "{name}");
        }
    }

    /// The tree is HNC's, and has nothing of Accurate's left but what was created once.
    async fn has_passed(&self) {
        let Self { world, names: [root, sub, below], .. } = self;
        world.labelled(root, TYPE, None).await;
        world.labelled(below, &format!("{root}.tree.hnc.x-k8s.io/depth"), Some("2")).await;
        for (parent, child) in [(root, sub), (sub, below)] {
            world.labelled(child, PARENT, None).await;
            world.has_forms(child, &[]).await;
            let wait =
                ["wait", "subns", child, "-n", parent, "--for=jsonpath={.status.status}=Ok", "--timeout=60s"];
            world.fixture.cluster.kubectl().args(wait).ok().await.unwrap();
            self.binds(
                child,
                "readers",
                |it| it.metadata.labels.as_ref()?.get(INHERITED_FROM).cloned(),
                Some(root),
            )
            .await;
            let get = ["get", "secret", "once", "-n", child];
            world.fixture.cluster.kubectl().args(get).ok().await.unwrap();
        }
        for (name, uid) in self.names.iter().zip(&self.uids) {
            assert_eq!(world.uid(name).await, *uid);
        }
        assert!(self.bindings(below).get_opt("local").await.unwrap().is_none());
    }
}

fn names_of(subjects: Vec<Subject>) -> Vec<String> {
    subjects.into_iter().map(|it| it.name).collect()
}

#[tokio::test]
async fn a_tree_of_accurate_becomes_one_of_hnc() {
    let scene = Scene::plant("cv").await;
    let world = &scene.world;
    let words = "convert cv-root --to hnc --yes";
    for (object, wanted) in [
        (
            binding("cv-sub", "local", "", "bob"),
            "rolebindings.rbac.authorization.k8s.io cv-sub/local; nothing was changed",
        ),
        (secret("cv-root", "token", "update"), "secrets cv-root/token; nothing was changed"),
    ] {
        world.fixture.apply(std::slice::from_ref(&object)).await;
        let refused = world.fixture.hns(words).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(wanted), "{refused:?}");
        world.belongs("cv-below", "cv-sub").await;
        let [kind, name, namespace] =
            [&object["kind"], &object["metadata"]["name"], &object["metadata"]["namespace"]]
                .map(|it| it.as_str().unwrap());
        let change = match kind {
            "Secret" => format!("{PROPAGATE}-"),
            _ => "propagate.hnc.x-k8s.io/none=true".to_owned(),
        };
        let annotate = ["annotate", kind, name, "-n", namespace, &change];
        world.fixture.cluster.kubectl().args(annotate).ok().await.unwrap();
    }
    follows_what_was_copied_once(&scene, words).await;
    for (words, wanted) in [
        ("convert cv-sub --to hnc --yes", "cv-sub is a sub-namespace of cv-root"),
        ("convert cv-sub --to full --yes", "`kubectl accurate sub cut cv-sub` makes it a root namespace"),
        ("convert cv-gone --to hnc --yes", "there is no namespace cv-gone"),
    ] {
        let refused = world.fixture.hns(words).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(wanted), "{words}: {refused:?}");
    }
    let done = world.fixture.hns(words).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.contains("3. remove the label accurate.cybozu.com/type from namespace cv-root"),
        "{done:?}"
    );
    assert!(done.stdout.ends_with("The tree of cv-root is in HNC's hierarchy now\n"), "{done:?}");
    scene.has_passed().await;
    let from = |it: &RoleBinding| it.metadata.labels.as_ref()?.get(INHERITED_FROM).cloned();
    scene.binds("cv-below", "once", from, Some("cv-root")).await;
    let again = world.fixture.hns(words).await;
    assert!(again.stderr.contains("cv-root is not a root of a tree of Accurate's"), "{again:?}");
}

/// Copies that were created once are refused, until their source is in mode update.
async fn follows_what_was_copied_once(scene: &Scene, words: &str) {
    let annotation = |it: &RoleBinding, key| it.metadata.annotations.as_ref()?.get(key).cloned();
    scene.world.fixture.apply(&[binding("cv-root", "once", "create", "carol")]).await;
    scene.binds("cv-below", "once", |it| annotation(it, FROM), Some("cv-sub")).await;
    let refused = scene.world.fixture.hns(words).await;
    let wanted = "these copies, which were created once, are in the way of what HNC copies from above: \
                  rolebindings.rbac.authorization.k8s.io cv-below/once, ";
    assert!(refused.code == Some(1) && refused.stderr.contains(wanted), "{refused:?}");
    scene.world.fixture.apply(&[binding("cv-root", "once", "update", "carol")]).await;
    scene.binds("cv-below", "once", |it| annotation(it, PROPAGATE), Some("update")).await;
}

/// Both passes, the type, and for each sub-namespace the anchor and the `SubNamespace`.
const WRITES: usize = 7;

/// Nothing goes and nothing comes before the last namespace has passed. What is revoked meanwhile is revoked in the end.
#[tokio::test]
async fn a_conversion_interrupted_after_any_write_loses_nothing_and_is_finished_by_a_second_run() {
    let cluster = world().await.fixture.cluster;
    let proxy = Proxy::start(cluster).unwrap();
    let kubeconfig = through(&proxy, cluster).await;
    for after in 0..WRITES {
        let scene = Scene::plant(&format!("ci{after}")).await;
        let [root, _, below] = &scene.names;
        let local = binding(root, "local", "", "bob");
        scene.world.fixture.apply(&[local]).await;
        let annotate = ["annotate", "rolebinding", "local", "-n", root, "propagate.hnc.x-k8s.io/none=true"];
        cluster.kubectl().args(annotate).ok().await.unwrap();
        let words = format!("--kubeconfig {} convert {root} --to hnc --yes", kubeconfig.path().display());
        proxy.stop_after(after, || {});
        let first = plugin(&words, &[]).await.unwrap();
        assert!(proxy.stopped() && first.code == Some(1), "after {after} writes: {first:?}");
        if after < 2 {
            stays(&format!("all copies, after {after} writes"), Duration::from_secs(2), async || {
                scene.is_whole().await;
                Ok(())
            })
            .await
            .unwrap();
        }
        let revoked = Patch::Merge(json!({ "subjects": null }));
        scene.bindings(root).patch("readers", &PatchParams::default(), &revoked).await.unwrap();
        proxy.reset();
        let second = plugin(&words, &[]).await.unwrap();
        assert_eq!(second.code, Some(0), "after {after} writes: {first:?}\n{second:?}");
        scene.has_passed().await;
        scene.binds(below, "readers", |it| it.subjects.clone().map(names_of)?.pop(), None).await;
        println!("interrupted after write {after} of {WRITES}: {} more", proxy.writes());
    }
}
