//! A subtree that moves back and forth between two trees with different and same-named objects, with or without killing the
//! controller on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Component, Exit, Launch, Proxy, Replica, Signal, Steps, eventually};

use super::fixture::Turn;
use super::state::{Contents, State, allowed};
use super::way::Way;

/// The access reviews of each user. Each of the first four rights is granted by one role of one of the trees.
const ASKED: [(&str, &str); 5] =
    [("get", "pods"), ("list", "services"), ("get", "secrets"), ("delete", "configmaps"), ("create", "pods")];
const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// Two trees, and a namespace with a child that moves between their roots.
struct Moving {
    way: Way,
    steps: Steps,
    trees: [String; 2],
    moved: String,
    all: Vec<String>,
    /// The state with the subtree in the first tree, and in the second; known after a move without interruption.
    rest: Mutex<Option<[Rest; 2]>>,
}

/// A settled state.
#[derive(Debug, Clone)]
struct Rest {
    state: State,
    access: Access,
}

/// By namespace and user, what the API server allows.
type Access = BTreeMap<(String, &'static str), BTreeSet<String>>;

/// Kills the controller after each write of a move, and starts it again.
pub(crate) async fn killed_after_any_write(turn: &Turn, way: Way) -> Result<()> {
    let proxy = Proxy::start(turn.cluster())?;
    let launch = Launch { pod_name: Some("killed".into()), server: Some(proxy.url()), ..Launch::default() };
    let mut controller = turn.product.start(Component::Controller, launch).await?;
    let moving = Moving::plant(way, turn.cluster(), "k").await?;

    moving.undisturbed(&proxy).await?;
    // The number of writes differs from move to move: other objects, such as the status of the configuration, are written too.
    for writes in 1.. {
        let killed = Instant::now();
        let Some(again) = moving.killed_after(writes, &proxy, &mut controller).await? else {
            println!("a move ends before write {writes}");
            ensure!(writes > 1, "a move takes no writes");
            break;
        };
        ensure!(again < crate::AT_ONCE, "after a restart the first write took {again:?}");
        println!(
            "killed after write {writes}: access as before or as after, at work again after {again:.1?}, all as after an \
             undisturbed move after {:.1?}",
            killed.elapsed()
        );
    }
    Ok(())
}

impl Moving {
    async fn plant(way: Way, cluster: &Cluster, prefix: &str) -> Result<Self> {
        let steps = Steps::of(cluster.admin());
        let name = |suffix: &str| format!("{prefix}-{suffix}");
        let (trees, moved, below) = ([name("one"), name("two")], name("moved"), name("below"));
        way.plant(&steps, &trees, [&moved, &below]).await?;
        let [one, two] = &trees;
        // Not the order in which they are propagated: copies must not depend on it.
        for (tree, suffix, user, own, shared, named) in [
            (one, "one", "alice", ("get", "pods"), ("get", "secrets"), "view"),
            (two, "two", "bob", ("list", "services"), ("delete", "configmaps"), "edit"),
        ] {
            let only = |kind: &str| format!("{kind}-of-{suffix}");
            steps.create_binding(tree, &only("readers"), ("Role", &only("reader")), user).await?;
            steps.create_role(tree, &only("reader"), (&[own.0], "", own.1)).await?;
            // The same name in both trees, with different rules and subjects.
            steps.create_role(tree, "shared", (&[shared.0], "", shared.1)).await?;
            steps.create_binding(tree, "shared", ("Role", "shared"), user).await?;
            // The same name in both trees, with another role, which cannot be changed in place.
            steps.create_binding(tree, "named", ("ClusterRole", named), "carol").await?;
            steps.create_binding(tree, &only("viewers"), ("ClusterRole", "view"), &only("guest")).await?;
            way.offer(&steps, tree, suffix).await?;
        }
        let all = vec![trees[0].clone(), trees[1].clone(), moved.clone(), below.clone()];
        let moving = Self { way, steps, trees, moved, all, rest: Mutex::default() };
        moving.arrived(0).await?;
        Ok(moving)
    }

    /// Waits until the subtree has the objects that the tree at `index` gives.
    async fn arrived(&self, index: usize) -> Result<()> {
        let (tree, user) = (&self.trees[index], USERS[index]);
        let suffix = ["one", "two"][index];
        let other = ["two", "one"][index];
        let below = [self.moved.as_str(), &self.all[3]];
        for (name, user) in [
            (format!("readers-of-{suffix}"), user),
            ("shared".into(), user),
            ("named".into(), "carol"),
            (format!("viewers-of-{suffix}"), &format!("guest-of-{suffix}")),
        ] {
            self.way.arrives(&self.steps, below, &name, (tree, user)).await?;
        }
        for gone in ["readers", "viewers"] {
            self.steps.binding_leaves(&below, &format!("{gone}-of-{other}")).await?;
        }
        self.way.is_shown(&self.steps, below, (&self.trees, index)).await
    }

    /// Moves to the second tree and back without interruption, and records both states.
    async fn undisturbed(&self, proxy: &Proxy) -> Result<()> {
        let mut rest = Vec::new();
        // Moves once first, so that both states follow a move.
        for index in [1, 0, 1, 0] {
            proxy.reset();
            self.way.go(&self.steps, &self.moved, &self.trees[index]).await?;
            self.arrived(index).await?;
            self.settled(proxy).await?;
            rest.insert(0, self.rest(index).await?);
        }
        ensure!(
            rest[0].state == rest[2].state,
            "the second move left {}",
            rest[0].state.difference(&rest[2].state)
        );
        ensure!(
            rest[1].state == rest[3].state,
            "the second move left {}",
            rest[1].state.difference(&rest[3].state)
        );
        rest.truncate(2);
        *self.rest.lock().unwrap() = rest.try_into().ok();
        Ok(())
    }

    /// Waits until no write has come for a second; returns their number.
    async fn settled(&self, proxy: &Proxy) -> Result<usize> {
        let mut last = (proxy.writes(), Instant::now());
        eventually("the writes of a move end", PATIENCE, async || {
            let now = proxy.writes();
            if now != last.0 {
                last = (now, Instant::now());
            }
            let quiet = last.1.elapsed() >= Duration::from_secs(1);
            if quiet { Ok(now) } else { Err(format!("{now} writes")) }
        })
        .await
    }

    async fn rest(&self, index: usize) -> Result<Rest> {
        let state = State::read(&self.steps, &self.all).await?;
        let mine = &state.0[&self.moved].grants();
        ensure!(mine.iter().any(|grant| grant.contains(USERS[index])), "{mine:?}");
        // The authorizer follows the objects by a watch.
        let access = eventually("the API server sees the new access", PATIENCE, async || {
            let access = self.access().await.map_err(|error| error.to_string())?;
            let [mine, others] = [index, 1 - index].map(|user| &access[&(self.moved.clone(), USERS[user])]);
            if mine.len() == 2 && others.is_empty() { Ok(access) } else { Err(format!("{access:?}")) }
        })
        .await?;
        Ok(Rest { state, access })
    }

    async fn access(&self) -> Result<Access> {
        let mut access = Access::new();
        for namespace in &self.all[2..] {
            for user in USERS {
                let allowed = allowed(&self.steps, namespace, user, &ASKED).await?;
                access.insert((namespace.clone(), user), allowed);
            }
        }
        Ok(access)
    }

    /// Moves the subtree to the other tree, kills the controller after this many writes, checks the state, starts it again, and
    /// waits for the same result as without interruption. Returns the time from the start to the first write; none if the move is
    /// complete with fewer writes.
    async fn killed_after(
        &self,
        writes: usize,
        proxy: &Proxy,
        controller: &mut Replica,
    ) -> Result<Option<Duration>> {
        let target = writes % 2;
        let rest = self.rest.lock().unwrap().clone();
        let Some(rest) = rest else { anyhow::bail!("the undisturbed move comes first") };
        let (before, after) = (&rest[1 - target], &rest[target]);
        let process = controller.process();
        let kill = {
            let process = process.clone();
            move || process.signal(Signal::KILL).unwrap()
        };
        proxy.stop_after(writes, kill);
        self.way.go(&self.steps, &self.moved, &self.trees[target]).await?;
        let exit = tokio::select! {
            exit = process.wait_exit(PATIENCE) => exit?,
            settled = self.settled_as(after, proxy) => return settled.map(|()| None),
        };
        ensure!(
            proxy.stopped() && exit == Exit::Signal(9),
            "it should have been killed, and ended with {exit}"
        );

        let left = State::read(&self.steps, &self.all).await?;
        no_wider(&left, before, after)?;
        self.no_access_wider(before, after).await?;

        proxy.reset();
        let started = Instant::now();
        controller.relaunch()?;
        let again = eventually("the restarted controller goes on", PATIENCE, async || {
            let now = State::read(&self.steps, &self.all).await.map_err(|error| error.to_string())?;
            let done = now.difference(&after.state).is_empty();
            if proxy.writes() > 0 || done { Ok(started.elapsed()) } else { Err("it has not written".into()) }
        })
        .await?;
        // A write in flight would count in the next round.
        controller.wait_ready().await?;
        self.settled_as(after, proxy).await?;
        Ok(Some(again))
    }

    /// Waits until all is as after an undisturbed move, and remains so until no write has come for a second.
    async fn settled_as(&self, after: &Rest, proxy: &Proxy) -> Result<()> {
        eventually("all is as after an undisturbed move", PATIENCE, async || {
            let now = State::read(&self.steps, &self.all).await.map_err(|error| error.to_string())?;
            let difference = now.difference(&after.state);
            if difference.is_empty() { Ok(()) } else { Err(difference) }
        })
        .await?;
        let total = self.settled(proxy).await?;
        let now = State::read(&self.steps, &self.all).await?;
        ensure!(now == after.state, "after {total} writes: {}", now.difference(&after.state));
        Ok(())
    }

    /// The API server's authorizer agrees for each user.
    async fn no_access_wider(&self, before: &Rest, after: &Rest) -> Result<()> {
        eventually("no user may do what neither state allows", PATIENCE, async || {
            let now = self.access().await.map_err(|error| error.to_string())?;
            for (key, allowed) in &now {
                let (before, after) = (&before.access[key], &after.access[key]);
                if !allowed.is_subset(before) && !allowed.is_subset(after) {
                    return Err(format!("{key:?} may {allowed:?}, before {before:?}, after {after:?}"));
                }
            }
            Ok(())
        })
        .await
    }
}

/// In each namespace, the granted rights are a subset of those before, or of those after. Where there is a new one, there are all new
/// restrictions.
fn no_wider(left: &State, before: &Rest, after: &Rest) -> Result<()> {
    for (namespace, contents) in &left.0 {
        let all = [contents, &before.state.0[namespace], &after.state.0[namespace]];
        let [now, before, after] = all.map(Contents::grants);
        ensure!(
            now.is_subset(&before) || now.is_subset(&after),
            "{namespace} grants {now:?}, which is part neither of {before:?} nor of {after:?}"
        );
        let [restrictions, _, wanted] = all.map(|it| &it.quotas);
        let is_restricted = wanted.iter().all(|(name, quota)| restrictions.get(name) == Some(quota));
        ensure!(
            is_restricted || now.is_subset(&before),
            "{namespace} grants {now:?}, and is restricted by {restrictions:?} instead of {wanted:?}"
        );
    }
    Ok(())
}
