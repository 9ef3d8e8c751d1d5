//! A whole organization in one directory, applied at once: namespaces and their hierarchies, in any order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt};
use hns_e2e::Dice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::scene::{Scene, Structure, among_others, scene_in_rounds};

const NAMESPACES: usize = 30;
/// Each set of names is applied once …
const SETS: usize = 15;
/// … and these once more, after all of their namespaces have been deleted.
const AGAIN: usize = 5;
/// So many sets at a time: while one is being deleted, another is applied.
const AT_A_TIME: usize = 3;
const SEED: u64 = 0x5eed_0d1e;
const USER: &str = "gitops";

#[tokio::test]
async fn a_directory_of_new_namespaces_is_applied_in_one_go() -> Result<()> {
    let scene = scene_in_rounds().await?;
    hire(&scene).await?;
    println!("seed {SEED:#x}");
    futures::stream::iter((0..SETS).map(|set| rounds(&scene, set)))
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await
}

async fn rounds<H>(scene: &Scene<H>, number: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let set = format!("dir-{number:02}");
    let seed = set.bytes().fold(SEED, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
    let rounds = if number < AGAIN { 2 } else { 1 };
    for round in 0..rounds {
        let _place = among_others().await;
        let tree = tree(&set, seed + round);
        write(directory.path(), &tree)?;
        apply(scene, directory.path(), (&set, round)).await?;
        for name in tree.keys() {
            let path: Vec<&str> =
                std::iter::successors(Some(name.as_str()), |name| tree[*name].as_deref()).collect();
            scene.steps.labelled(&path).await?;
        }
        if round + 1 < rounds {
            let all: Vec<String> = tree.into_keys().collect();
            scene.steps.delete_namespaces(&all).await?;
        }
    }
    Ok(())
}

/// The user who applies it may create, read and change namespaces and hierarchies anywhere, and nothing else.
async fn hire<H>(scene: &Scene<H>) -> Result<()> {
    let admin = scene.cluster().admin();
    let all = |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "create", "update", "patch"] });
    let rules = [all("", "namespaces"), all(hns_api::GROUP, "hierarchyconfigurations")];
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

/// The parent of each, chosen so that the order of names is independent of the order of the tree.
fn tree(set: &str, seed: u64) -> BTreeMap<String, Option<String>> {
    let mut dice = Dice::new(seed);
    let mut order: Vec<String> = (0..NAMESPACES).map(|number| format!("{set}-{number:02}")).collect();
    dice.shuffle(&mut order);
    let parent = |place: usize, dice: &mut Dice| (place > 0).then(|| order[dice.below(place)].clone());
    order.iter().enumerate().map(|(place, name)| (name.clone(), parent(place, &mut dice))).collect()
}

fn write(directory: &Path, tree: &BTreeMap<String, Option<String>>) -> Result<()> {
    for (name, parent) in tree {
        let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
        if let Some(parent) = parent {
            write!(
                text,
                "---\napiVersion: {}\nkind: HierarchyConfiguration\nmetadata:\n  name: hierarchy\n  namespace: {name}\n\
                 spec:\n  parent: {parent}\n",
                hns_api::API_VERSION,
            )?;
        }
        fs::write(directory.join(format!("{name}.yaml")), text)?;
    }
    Ok(())
}

async fn apply<H>(scene: &Scene<H>, directory: &Path, (set, round): (&str, u64)) -> Result<()> {
    let mark = scene.cluster().audit().mark()?;
    let path = directory.to_string_lossy();
    let apply =
        async || scene.cluster().kubectl().as_user(USER, &[]).args(["apply", "-f", &*path]).run().await;
    let mut output = apply().await?;
    let warnings = output.stderr.matches("does not exist yet").count();
    let mut again = 0;
    // kubectl reads and then creates. On a slow machine the controller creates the object in between, and the user repeats the
    // command.
    while !output.success() && output.stderr.contains("AlreadyExists") && again < 3 {
        again += 1;
        output = apply().await?;
    }
    ensure!(output.success(), "{set}, round {round}: {output}");
    let writes = scene.cluster().audit().mutating_by(USER, mark)?;
    let of_this_set = writes.iter().filter(|write| write.uri.contains(set));
    let (written, refused): (Vec<_>, Vec<_>) = of_this_set.partition(|write| write.succeeded());
    let refused: Vec<_> = refused.into_iter().filter(|write| write.code != 409).collect();
    ensure!(refused.is_empty(), "{set}, round {round}: {refused:?}");
    // The creation of a namespace does not name it in the log.
    let wanted = NAMESPACES - 1;
    ensure!(
        written.len() >= wanted,
        "{set}, round {round}: {} hierarchies instead of {wanted}",
        written.len()
    );
    println!(
        "{set}, round {round}: none refused; {warnings} parents named before they existed; applied {again} times more"
    );
    Ok(())
}
