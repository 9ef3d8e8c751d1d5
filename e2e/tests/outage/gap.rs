//! What happens while the watches are broken is found by the list after them, deletions above all.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Fault, Proxy, Replica, Steps, eventually, refusal, stays};
use kube::api::DeleteParams;

use super::fixture::{Both, SECONDS, Turn, turn};

#[tokio::test]
async fn deletions_during_a_gap_are_found_after_it() -> Result<()> {
    let turn = turn().await;
    let both = turn.start().await?;
    for (prefix, fault) in [
        ("gone", Fault::Answer(410)),
        ("error", Fault::Answer(500)),
        ("busy", Fault::RetryAfter(1)),
        ("cut", Fault::Cut),
    ] {
        let tree = Tree::plant(&turn.steps, prefix).await?;
        tree.is_judged_by_what_is_there().await?;
        let took = tree.changes_during(&fault, &both).await.with_context(|| format!("{fault:?}"))?;
        ensure!(took < SECONDS, "after {fault:?} it took {took:?}");
        println!("{fault:?} to every request: all deletions found {took:.1?} after its end");
    }
    both.unharmed()?;
    turn.webhook_only_asked()?;
    the_api_server_itself_forgets(&turn, &both).await
}

struct Tree<'t> {
    steps: &'t Steps,
    root: String,
    leaf: String,
    doomed: String,
    outside: String,
}

impl<'t> Tree<'t> {
    /// A root with sources, two namespaces with copies, and one outside whose own role is in the way.
    async fn plant(steps: &'t Steps, prefix: &str) -> Result<Self> {
        let name = |name: &str| format!("g-{prefix}-{name}");
        let tree = Self {
            steps,
            root: name("root"),
            leaf: name("leaf"),
            doomed: name("doomed"),
            outside: name("outside"),
        };
        let Self { root, leaf, doomed, outside, .. } = &tree;
        steps.plant(&[(root, ""), (leaf, root), (doomed, root), (outside, "")]).await?;
        for namespace in [root, outside] {
            steps.create_role(namespace, "clash", (&["get"], "", "pods")).await?;
        }
        steps.create_binding(root, "source", ("ClusterRole", "view"), "alice").await?;
        steps.binding_arrives(&[leaf, doomed], "source", root, "alice").await?;
        tree.role_in_leaf(true).await?;
        Ok(tree)
    }

    async fn role_in_leaf(&self, wanted: bool) -> Result<()> {
        eventually(&format!("the role is in {}: {wanted}", self.leaf), PATIENCE, async || {
            let found =
                self.steps.roles(&self.leaf).get_opt("clash").await.map_err(|error| error.to_string())?;
            if found.is_some() == wanted { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// The webhook knows of both roles, and refuses what would overwrite one with the other.
    async fn is_judged_by_what_is_there(&self) -> Result<()> {
        eventually("the clash is seen", PATIENCE, async || match self.joins().await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let named = status.message.contains("clash") && status.message.contains(&self.outside);
                if named { Ok(()) } else { Err(format!("{status:?}")) }
            }
            other => Err(format!("{other:?}")),
        })
        .await
    }

    async fn joins(&self) -> Result<(), kube::Error> {
        self.steps.set_parent(&self.outside, &self.root).await.map(drop)
    }

    /// Makes both blind by `fault`, deletes a binding, a role and a namespace, and lets them see again, but not go on from
    /// where they were. Returns the time that it took them.
    async fn changes_during(&self, fault: &Fault, both: &Both) -> Result<Duration> {
        for proxy in &both.proxies {
            let fault = fault.clone();
            let lease = "/apis/coordination.k8s.io/";
            proxy.set_rule(move |parts| (!parts.uri.path().starts_with(lease)).then(|| fault.clone()));
            proxy.cut();
        }
        self.steps.bindings(&self.root).delete("source", &DeleteParams::default()).await?;
        self.steps.roles(&self.root).delete("clash", &DeleteParams::default()).await?;
        self.steps.delete_namespace(&self.doomed).await?;
        stays("nothing is seen of it", Duration::from_secs(1), async || {
            let copy =
                self.steps.bindings(&self.leaf).get_opt("source").await.map_err(|error| error.to_string())?;
            copy.map(drop).ok_or_else(|| "the copy has gone".to_owned())
        })
        .await?;
        let before = [lists(&both.webhook).await?, lists(&both.controller).await?];
        both.proxies.iter().for_each(every_watch_begins_anew);
        let healed = Instant::now();
        self.is_found().await?;
        let took = healed.elapsed();
        let after = [lists(&both.webhook).await?, lists(&both.controller).await?];
        for (before, after) in before.iter().zip(&after) {
            ensure!(
                after >= &(before + STREAMS),
                "{before} lists before, {after} after: it was not listed anew"
            );
        }
        both.proxies.iter().for_each(Proxy::reset);
        Ok(took)
    }

    async fn is_found(&self) -> Result<()> {
        self.steps.binding_leaves(&[&self.leaf], "source").await?;
        self.role_in_leaf(false).await?;
        eventually(&format!("{} lists one child", self.root), PATIENCE, async || {
            let hierarchy = self.steps.hierarchies(&self.root).get(HIERARCHY).await;
            let children = hierarchy.map_err(|error| error.to_string())?.status.unwrap_or_default().children;
            if children == [self.leaf.as_str()] { Ok(()) } else { Err(format!("{children:?}")) }
        })
        .await?;
        eventually("the webhook knows that nothing is in the way", PATIENCE, async || {
            self.joins().await.map_err(|error| error.to_string())
        })
        .await?;
        self.steps.labelled(&[&self.outside, &self.root]).await
    }
}

/// Namespaces, `HierarchyConfigurations`, roles and role bindings.
const STREAMS: u64 = 4;

/// The first watch of each kind is told that the place to go on from is forgotten; lists pass.
fn every_watch_begins_anew(proxy: &Proxy) {
    let told: Arc<Mutex<HashSet<String>>> = Arc::default();
    proxy.set_rule(move |parts| {
        let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let first = watch && told.lock().unwrap().insert(parts.uri.path().to_owned());
        first.then_some(Fault::Answer(410))
    });
    proxy.cut();
}

/// How many complete lists a replica has received.
async fn lists(replica: &Replica) -> Result<u64> {
    let metrics = replica.metrics().await?;
    let counts = metrics.lines().filter(|line| line.starts_with("hns_watch_lists_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<u64>().context("a count")).sum()
}

/// With a real fault: etcd is compacted and the API server restarted, so that no component remembers what was deleted while no
/// watch was open.
async fn the_api_server_itself_forgets(turn: &Turn, both: &Both) -> Result<()> {
    let tree = Tree::plant(&turn.steps, "forgotten").await?;
    tree.is_judged_by_what_is_there().await?;
    for proxy in &both.proxies {
        proxy.set_rule(|parts| {
            (!parts.uri.path().starts_with("/apis/coordination.k8s.io/")).then_some(Fault::Cut)
        });
        proxy.cut();
    }
    let steps = &turn.steps;
    steps.bindings(&tree.root).delete("source", &DeleteParams::default()).await?;
    steps.roles(&tree.root).delete("clash", &DeleteParams::default()).await?;
    steps.delete_namespace(&tree.doomed).await?;
    ensure!(refusal(steps.bindings(&tree.root).get("source").await).code == 404);
    // Its watch cache begins with the present objects.
    turn.cluster().restart_api_server().await?;
    both.proxies.iter().for_each(Proxy::reset);
    let healed = Instant::now();
    tree.is_found().await?;
    println!("an API server that has forgotten the gap: all deletions found after {:.1?}", healed.elapsed());
    both.unharmed()
}
