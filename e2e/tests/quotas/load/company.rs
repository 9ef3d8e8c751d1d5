//! Thirty namespaces under one quota, and nested quotas. Each of the nested ones can be exhausted, and together they exceed the one
//! above them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hns_e2e::eventually;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use crate::quotas::scene::{Scene, numbers};

pub(crate) const LIMITED: &str = "services";
pub(crate) const ROOT: &str = "company";
const QUOTA: &str = "budget";
const TEAMS: usize = 8;
const PROJECTS: usize = 21;

/// The namespaces, and the quotas.
pub(crate) struct Company {
    /// Each namespace with its parent, parents first.
    pub(crate) tree: Vec<(String, String)>,
    /// The limit of the quota in a namespace.
    pub(crate) limits: BTreeMap<String, i64>,
}

impl Company {
    pub(crate) async fn found(scene: &Scene<'_>) -> Result<Self> {
        let teams = (0..TEAMS).map(|team| (format!("team-{team}"), ROOT.to_owned()));
        let projects =
            (0..PROJECTS).map(|project| (format!("project-{project}"), format!("team-{}", project % TEAMS)));
        let tree: Vec<_> =
            [(ROOT.to_owned(), String::new())].into_iter().chain(teams).chain(projects).collect();
        let borrowed: Vec<(&str, &str)> = tree.iter().map(|(name, parent)| (&**name, &**parent)).collect();
        scene.steps.plant(&borrowed).await?;
        let nested = (0..TEAMS).map(|team| (format!("team-{team}"), 20));
        let limits: BTreeMap<String, i64> = [(ROOT.to_owned(), 100)].into_iter().chain(nested).collect();
        for (namespace, limit) in &limits {
            scene.set(namespace, QUOTA, json!({ LIMITED: limit.to_string() })).await?;
        }
        for namespace in limits.keys() {
            scene.enforced(namespace, QUOTA).await?;
        }
        Ok(Self { tree, limits })
    }

    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.tree.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The namespaces with quotas that limit this one.
    pub(crate) fn limiting(&self, namespace: &str) -> Vec<&str> {
        let mut path = vec![];
        let mut at = self.tree.iter().find(|(name, _)| name == namespace);
        while let Some((name, parent)) = at {
            path.push(&**name);
            at = self.tree.iter().find(|(name, _)| name == parent);
        }
        path.retain(|name| self.limits.contains_key(*name));
        path
    }

    /// Waits until the status of each quota shows what there is, counted by hand; returns how long it took.
    pub(crate) async fn settles(&self, scene: &Scene<'_>, within: Duration) -> Result<Duration> {
        let began = Instant::now();
        let mut counted: BTreeMap<&str, i64> = self.limits.keys().map(|name| (&**name, 0)).collect();
        for (namespace, _) in &self.tree {
            let all = scene.services(namespace).list_metadata(&ListParams::default()).await?.items.len();
            for quota in self.limiting(namespace) {
                *counted.entry(quota).or_default() += i64::try_from(all)?;
            }
        }
        println!("Services in the end, counted by hand: {counted:?}");
        eventually("the status of each quota shows what there is", within, async || {
            for (namespace, count) in &counted {
                let quota =
                    scene.hierarchical(namespace).get(QUOTA).await.map_err(|error| error.to_string())?;
                let used = numbers(quota.status.unwrap_or_default().used.as_ref());
                let wanted = count.to_string().parse().map_err(|_| "it is a number")?;
                if used.get(LIMITED) != Some(&wanted) {
                    return Err(format!("{namespace}: {used:?}, counted by hand: {count}"));
                }
            }
            Ok(())
        })
        .await?;
        Ok(began.elapsed())
    }
}
