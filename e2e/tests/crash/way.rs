//! How a subtree hangs on the one or the other tree: by a parent of HNC's API, or by a template of Accurate's.

use anyhow::Result;
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::accurate::labels::{TEMPLATE, TYPE, TYPE_TEMPLATE};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Steps, eventually};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

/// A namespace and the one below it, which move together.
pub(crate) type Subtree<'a> = [&'a str; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Parent,
    /// Objects go hop by hop: what is below the moved namespace gets what arrives there.
    Template,
}

impl Way {
    pub(crate) async fn plant(self, steps: &Steps, trees: &[String; 2], subtree: Subtree<'_>) -> Result<()> {
        let ([one, two], [moved, below]) = (trees, subtree);
        if self == Self::Parent {
            return steps.plant(&[(one, ""), (two, ""), (moved, one), (below, moved)]).await;
        }
        for (name, labels) in [
            (&**one, json!({ TYPE: TYPE_TEMPLATE, "team": "one" })),
            (two, json!({ TYPE: TYPE_TEMPLATE, "team": "two" })),
            (moved, json!({ TYPE: TYPE_TEMPLATE, TEMPLATE: one })),
            (below, json!({ TEMPLATE: moved })),
        ] {
            let namespace: Namespace =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
            eventually(&format!("{name} can be created"), PATIENCE, async || {
                let created = steps.namespaces().create(&PostParams::default(), &namespace).await;
                created.map_err(|error| error.to_string())
            })
            .await?;
        }
        Ok(())
    }

    /// Makes sources of the objects of a tree. For HNC they are already. In Accurate's way, the tree has restrictions, too: one of
    /// the same name in both, and one of its own.
    pub(crate) async fn offer(self, steps: &Steps, tree: &str, suffix: &str) -> Result<()> {
        if self == Self::Parent {
            return Ok(());
        }
        let quotas = Api::<ResourceQuota>::namespaced(steps.client.clone(), tree);
        for (name, pods) in [("shared".to_owned(), suffix.len()), (format!("only-of-{suffix}"), 7)] {
            let quota =
                json!({ "metadata": { "name": name }, "spec": { "hard": { "pods": pods.to_string() } } });
            quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
        }
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { PROPAGATE: "update" } } }));
        let (all, params) = (ListParams::default(), PatchParams::default());
        for name in names(&quotas.list_metadata(&all).await?.items) {
            quotas.patch_metadata(&name, &params, &patch).await?;
        }
        let (roles, bindings) = (steps.roles(tree), steps.bindings(tree));
        for name in names(&roles.list_metadata(&all).await?.items) {
            roles.patch_metadata(&name, &params, &patch).await?;
        }
        for name in names(&bindings.list_metadata(&all).await?.items) {
            bindings.patch_metadata(&name, &params, &patch).await?;
        }
        Ok(())
    }

    /// Moves the subtree below a tree.
    pub(crate) async fn go(self, steps: &Steps, moved: &str, tree: &str) -> Result<()> {
        if self == Self::Parent {
            return Ok(steps.set_parent(moved, tree).await.map(drop)?);
        }
        let patch = Patch::Merge(json!({ "metadata": { "labels": { TEMPLATE: tree } } }));
        Ok(steps.namespaces().patch_metadata(moved, &PatchParams::default(), &patch).await.map(drop)?)
    }

    /// Waits until the binding is in the whole subtree.
    pub(crate) async fn arrives(
        self,
        steps: &Steps,
        [moved, below]: Subtree<'_>,
        name: &str,
        (tree, user): (&str, &str),
    ) -> Result<()> {
        if self == Self::Parent {
            return steps.binding_arrives(&[moved, below], name, tree, user).await;
        }
        for (from, to) in [(tree, moved), (moved, below)] {
            eventually(&format!("rolebinding {name} arrives in {to}"), PATIENCE, async || {
                let found = steps.bindings(to).get_opt(name).await.map_err(|error| error.to_string())?;
                let found = serde_json::to_value(found).map_err(|error| error.to_string())?;
                let is_of = found["metadata"]["annotations"][FROM] == from;
                if is_of && found["subjects"][0]["name"] == user { Ok(()) } else { Err(found.to_string()) }
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the labels, and what else the controller writes, show where the subtree is.
    pub(crate) async fn is_shown(
        self,
        steps: &Steps,
        [moved, below]: Subtree<'_>,
        (trees, index): (&[String; 2], usize),
    ) -> Result<()> {
        if self == Self::Template {
            let suffix = ["one", "two"][index];
            for name in [moved, below] {
                eventually(&format!("{name} is in team {suffix}"), PATIENCE, async || {
                    let seen = steps.namespaces().get(name).await.map_err(|error| error.to_string())?;
                    let team = seen.metadata.labels.and_then(|mut it| it.remove("team"));
                    if team.as_deref() == Some(suffix) { Ok(()) } else { Err(format!("{team:?}")) }
                })
                .await?;
            }
            return Ok(());
        }
        let tree = &trees[index];
        steps.labelled(&[moved, tree]).await?;
        steps.labelled(&[below, moved, tree]).await?;
        for root in trees {
            let wanted = if root == tree { vec![moved.to_owned()] } else { vec![] };
            eventually(&format!("{root} lists its children"), PATIENCE, async || {
                let hierarchy = steps.hierarchies(root).get_opt("hierarchy").await;
                let hierarchy = hierarchy.map_err(|error| error.to_string())?;
                let children = hierarchy.and_then(|it| it.status).unwrap_or_default().children;
                if children == wanted { Ok(()) } else { Err(format!("{children:?}")) }
            })
            .await?;
        }
        Ok(())
    }
}

fn names<K: ResourceExt>(items: &[K]) -> Vec<String> {
    items.iter().map(ResourceExt::name_any).collect()
}
