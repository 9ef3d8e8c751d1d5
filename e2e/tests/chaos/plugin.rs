//! What `kubectl hns` says of the cluster while nothing is under way, against what is there and what the
//! specification has there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hns_e2e::{Cluster, Command};
use serde_json::Value;

use super::comparison::Found;
use super::kind::Kind;
use super::operation::NAMES;
use super::specification::{DESCRIPTION, EXCLUDING, Key, Mode, World, inherited_from};

/// The plugin as the cluster's administrator.
pub(crate) struct Plugin {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Plugin {
    /// The one beside this test.
    pub(crate) fn of(cluster: &Cluster) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("../kubectl-hns");
        ensure!(program.is_file(), "{}: build it first", program.display());
        Ok(Self { program, kubeconfig: cluster.kubeconfig() })
    }

    async fn json(&self, words: &str) -> Result<Value> {
        let leading = [Path::new("--kubeconfig"), &self.kubeconfig];
        let output = Command::new("kubectl-hns", &self.program, leading).args(words.split(' ')).run().await?;
        serde_json::from_str(&output.stdout).with_context(|| format!("{words}: {output}"))
    }

    /// Checks what is said of an object in every namespace: whether it is there, whose copy it is, and why nothing is done.
    pub(crate) async fn explains(&self, world: &World, found: &Found, kind: Kind, name: &str) -> Result<()> {
        let roots: Vec<&str> = world.parents.keys().map(String::as_str).collect();
        let words = format!("tree {} --show-copies {}/{name} -o json", roots.join(" "), resource(kind));
        let mut said = BTreeMap::new();
        collect(&self.json(&words).await?["trees"], &mut said);
        let model = world.model();
        for namespace in roots {
            let name = NAMES.into_iter().find(|it| *it == name).context("an unknown name")?;
            let key = Key { kind, namespace: namespace.to_owned(), name };
            let there = found.objects.get(&(kind, namespace.to_owned(), name.to_owned()));
            let kept = kind.keeps() && key.source(&model).is_some();
            let states: &[&str] = match there {
                None => &["stopped", "absent"],
                Some(form) if inherited_from(form).is_some() => &["copy"],
                Some(_) if world.is_frozen(kind) => &["source", "conflict"],
                Some(_) if kept => &["conflict"],
                Some(_) => &["source"],
            };
            let object = said.get(namespace).with_context(|| format!("{words}: nothing of {namespace}"))?;
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let state = object["state"].as_str().unwrap_or("absent");
            ensure!(states.contains(&state), "{key}: {object} is said, but it is {there:?}");
            let from = there.and_then(inherited_from).unwrap_or_default();
            ensure!(
                state != "copy" || text("from") == from,
                "{key}: {object} is said, but it is from {from}"
            );
            let untouched = text("why").contains(match world.mode(kind) {
                Mode::Dropped => "does not name its kind",
                _ => "its kind is in mode Ignore",
            });
            // What never propagates does not depend on the mode.
            let names = |mark: &str| text("why").contains(mark);
            let is_excluded = names(DESCRIPTION) || names(&format!("{}={}", EXCLUDING.0, EXCLUDING.1));
            let never = is_excluded && key.source(&model).is_none();
            let treated = !world.is_frozen(kind);
            ensure!(
                state == "source" || state == "absent" || never || untouched != treated,
                "{key}: {object}"
            );
        }
        Ok(())
    }
}

fn resource(kind: Kind) -> String {
    let (group, plural, _) = kind.names();
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// By namespace, what is said of the object.
fn collect(nodes: &Value, said: &mut BTreeMap<String, Value>) {
    for node in nodes.as_array().into_iter().flatten() {
        said.insert(node["name"].as_str().unwrap_or_default().to_owned(), node["object"].clone());
        collect(&node["children"], said);
    }
}
