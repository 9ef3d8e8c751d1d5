//! A whole organisation in one directory, as GitOps tools apply it: namespaces and their hierarchies, children before parents
//! as often as not.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::scene::{Scene, Structure, scene};
use super::shuffle::Dice;

const NAMESPACES: usize = 30;
const ROUNDS: u64 = 20;
const SEED: u64 = 0x5eed_0d1e;
const USER: &str = "gitops";

#[tokio::test]
async fn a_directory_of_new_namespaces_is_applied_in_one_go() -> Result<()> {
    let scene = scene().await?;
    hire(&scene).await?;
    let directory = tempfile::tempdir()?;
    println!("seed {SEED:#x}");
    for round in 0..ROUNDS {
        let tree = tree(SEED + round);
        write(directory.path(), &tree)?;
        apply(&scene, directory.path(), round).await?;
        for name in 0..NAMESPACES {
            let path = path(&tree, name);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            scene.steps.labelled(&path).await?;
        }
        let all: Vec<String> = (0..NAMESPACES).map(name).collect();
        scene.steps.delete_namespaces(&all).await?;
    }
    Ok(())
}

/// Whoever applies it may create, read and change namespaces and hierarchies anywhere, and nothing else.
async fn hire<H>(scene: &Scene<H>) -> Result<()> {
    let admin = scene.cluster().admin();
    let rule = |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "create", "update", "patch"] });
    let rules = [rule("", "namespaces"), rule(hns_api::GROUP, "hierarchyconfigurations")];
    let role: ClusterRole = serde_json::from_value(json!({ "metadata": { "name": USER }, "rules": rules }))?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": USER },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER }],
    }))?;
    Api::all(admin.clone()).create(&PostParams::default(), &role).await?;
    Api::all(admin).create(&PostParams::default(), &binding).await?;
    hns_e2e::eventually("its rights are known", hns_e2e::steps::PATIENCE, async || {
        let ask = ["auth", "can-i", "create", "hierarchyconfigurations.hnc.x-k8s.io", "-A"];
        scene.cluster().kubectl().as_user(USER, &[]).args(ask).ok().await.map_err(|error| error.to_string())
    })
    .await
    .map(drop)
}

fn name(number: usize) -> String {
    format!("dir-{number:02}")
}

/// The parent of each, drawn so that the order of names says nothing about the order of the tree.
fn tree(seed: u64) -> Vec<Option<usize>> {
    let mut dice = Dice::new(seed);
    let mut order: Vec<usize> = (0..NAMESPACES).collect();
    dice.shuffle(&mut order);
    let mut parents = vec![None; NAMESPACES];
    for (place, number) in order.iter().enumerate().skip(1) {
        parents[*number] = Some(order[dice.below(place)]);
    }
    parents
}

fn path(tree: &[Option<usize>], number: usize) -> Vec<String> {
    std::iter::successors(Some(number), |number| tree[*number]).map(name).collect()
}

fn write(directory: &Path, tree: &[Option<usize>]) -> Result<()> {
    for (number, parent) in tree.iter().enumerate() {
        let name = name(number);
        let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
        if let Some(parent) = parent {
            write!(
                text,
                "---\napiVersion: {}\nkind: HierarchyConfiguration\nmetadata:\n  name: hierarchy\n  namespace: {name}\n\
                 spec:\n  parent: {}\n",
                hns_api::API_VERSION,
                self::name(*parent)
            )?;
        }
        fs::write(directory.join(format!("{name}.yaml")), text)?;
    }
    Ok(())
}

async fn apply<H>(scene: &Scene<H>, directory: &Path, round: u64) -> Result<()> {
    let mark = scene.cluster().audit().mark()?;
    let directory = directory.to_string_lossy();
    let output =
        scene.cluster().kubectl().as_user(USER, &[]).args(["apply", "-f", &*directory]).run().await?;
    ensure!(output.success(), "round {round}: {output}");
    let writes = scene.cluster().audit().mutating_by(USER, mark)?;
    let refused: Vec<_> = writes.iter().filter(|write| !write.succeeded()).collect();
    ensure!(refused.is_empty(), "round {round}: {refused:?}");
    let wanted = 2 * NAMESPACES - 1;
    ensure!(writes.len() == wanted, "round {round}: {} writes instead of {wanted}", writes.len());
    let warnings = output.stderr.matches("does not exist yet").count();
    println!(
        "round {round}: {} writes, none refused; {warnings} parents were named before they existed",
        writes.len()
    );
    Ok(())
}
