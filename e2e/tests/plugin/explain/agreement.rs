//! In random worlds at rest, what the plugin says of each object in each namespace is what is there. The controller is at work
//! and nothing refuses anything, so that the worlds may be as odd as they come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use hns_api::labels::INHERITED_FROM;
use hns_api::{
    ConflictPolicy, HNCConfiguration, HNCConfigurationSpec, HierarchyConfiguration, ResourceSpec,
    SynchronizationMode,
};
use hns_e2e::{Cluster, Dice, Steps, eventually, stays};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::PATIENCE;
use crate::plugin::world::{World, unguarded};

const SEED: u64 = 20_261_121;
const WORLDS: usize = 3;
const NAMESPACES: usize = 12;
const KINDS: [(&str, &str); 3] =
    [("configmaps", "ConfigMap"), ("secrets", "Secret"), ("limitranges", "LimitRange")];
const NAMES: [&str; 2] = ["one", "two"];
/// Always propagated. Each binding refers to a Role of one of the names.
const BINDINGS: (&str, &str) = ("rolebindings", "RoleBinding");
const ROLE: &str = "Role";
/// Of the first kind, beside these.
const CLASHING: &str = "clash";
const AT_ONCE: usize = 3;
/// A label that the controller was told to exclude, so that its settings matter.
const EXCLUDING: (&str, &str) = ("keep", "here");

/// What is there of an object: its own, or whence it was copied.
type Presence = BTreeMap<String, Option<String>>;

struct Random {
    dice: Dice,
    prefix: String,
    /// With their parents.
    tree: Vec<(String, Option<usize>)>,
}

impl Random {
    fn grow(mut dice: Dice, number: usize) -> Self {
        let prefix = format!("w{number}");
        let mut tree = Vec::new();
        for at in 0..NAMESPACES {
            let parent = (at > 0 && !dice.percent(15)).then(|| dice.below(at));
            tree.push((format!("{prefix}-{at}"), parent));
        }
        Self { dice, prefix, tree }
    }

    fn names(&self) -> Vec<&str> {
        self.tree.iter().map(|(name, _)| &**name).collect()
    }

    fn namespaces(&mut self) -> Vec<Value> {
        let labelled = |name: &String, dice: &mut Dice| {
            let team = dice.pick(&["red", "blue"]);
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { "team": team } } })
        };
        self.tree.iter().map(|(name, _)| labelled(name, &mut self.dice)).collect()
    }

    /// Each name of each kind in some namespaces, mostly with annotations.
    fn objects(&mut self) -> Vec<Value> {
        let mut objects = Vec::new();
        for (kind, name) in KINDS.iter().flat_map(|(_, kind)| NAMES.map(|name| (*kind, name))) {
            let mut places: BTreeSet<usize> = BTreeSet::from([self.dice.below(4)]);
            places.extend((0..self.dice.below(3)).map(|_| self.dice.below(NAMESPACES)));
            for at in places {
                let mut object = object(kind, &self.tree[at].0, name);
                object["metadata"]["annotations"] = self.annotations();
                if self.dice.percent(8) {
                    object["metadata"]["labels"] = json!({ EXCLUDING.0: EXCLUDING.1 });
                }
                if kind == "Secret" && self.dice.percent(20) {
                    object["type"] = json!("helm.sh/release.v1");
                }
                objects.push(object);
            }
        }
        objects.extend(self.bindings());
        objects
    }

    /// Roles in many namespaces, and bindings in some.
    fn bindings(&mut self) -> Vec<Value> {
        let mut objects = Vec::new();
        for at in 0..NAMESPACES {
            for name in NAMES {
                let kinds =
                    [(ROLE, if at < 4 { 50 } else { 15 }), (BINDINGS.1, if at < 4 { 60 } else { 10 })];
                for (kind, percent) in kinds {
                    if self.dice.percent(percent) {
                        let mut object = object(kind, &self.tree[at].0, name);
                        object["metadata"]["annotations"] = self.annotations();
                        if kind == BINDINGS.1 {
                            object["roleRef"]["name"] = json!(self.dice.pick(&NAMES));
                        }
                        objects.push(object);
                    }
                }
            }
        }
        objects
    }

    /// An object and another of its name right below it.
    fn clash(&self) -> [Value; 2] {
        let pair = self.tree.iter().find_map(|(child, parent)| Some((child, &self.tree[(*parent)?].0)));
        let (child, parent) = pair.expect("a tree with more than roots");
        [parent, child].map(|namespace| object(KINDS[0].1, namespace, CLASHING))
    }

    fn annotations(&mut self) -> Value {
        let names = self.names();
        let some = names[self.dice.clone().below(names.len())].to_owned();
        let choices = [
            json!({}),
            json!({}),
            json!({}),
            json!({ "propagate.hnc.x-k8s.io/all": "true" }),
            json!({ "propagate.hnc.x-k8s.io/select": "team=blue" }),
            json!({ "propagate.hnc.x-k8s.io/select": "!hnc.x-k8s.io/has-children" }),
            json!({ "propagate.hnc.x-k8s.io/treeSelect": some }),
            json!({ "propagate.hnc.x-k8s.io/treeSelect": format!("!{some}") }),
            json!({ "propagate.hnc.x-k8s.io/none": "true" }),
            json!({ "propagate.hnc.x-k8s.io/none": "perhaps" }),
        ];
        self.dice.pick(&choices)
    }

    /// The same, but that conflicts of the first kind are sure to be reported.
    fn first_configuration(&mut self) -> Vec<ResourceSpec> {
        let mut entries = self.configuration();
        entries.retain(|it| it.resource != KINDS[0].0);
        entries.push(ResourceSpec { on_conflict: Some(ConflictPolicy::Report), ..entry(KINDS[0].0) });
        entries
    }

    fn configuration(&mut self) -> Vec<ResourceSpec> {
        use SynchronizationMode::{AllowPropagate, Ignore, Propagate, Remove};
        let modes = [Propagate, Propagate, Propagate, AllowPropagate, Remove, Ignore];
        let mut entries = Vec::new();
        for (resource, _) in KINDS {
            // Now and then a kind is not configured at all.
            if self.dice.percent(8) {
                continue;
            }
            let conflicts = [None, None, Some(ConflictPolicy::Report), Some(ConflictPolicy::Overwrite)];
            let on_conflict = self.dice.pick(&conflicts);
            entries.push(ResourceSpec {
                group: None,
                resource: resource.to_owned(),
                mode: Some(self.dice.pick(&modes)),
                on_conflict,
                excluded_names: self.dice.percent(15).then(|| vec!["t*".to_owned()]),
            });
        }
        entries
    }

    /// Something that has something below, and a parent that it cannot have: one that is not there, one that is not managed, or
    /// one that is below it.
    fn fatal(&mut self) -> (String, String) {
        let parents: BTreeSet<usize> = self.tree.iter().filter_map(|(_, parent)| *parent).collect();
        let parents: Vec<usize> = parents.into_iter().collect();
        let at = self.dice.pick(&parents);
        let child = self.tree.iter().find(|(_, parent)| *parent == Some(at)).map(|(name, _)| name.clone());
        let wrong = [format!("{}-nowhere", self.prefix), "hnc-system".to_owned(), child.unwrap_or_default()];
        (self.tree[at].0.clone(), self.dice.pick(&wrong))
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": { "namespace": namespace, "name": name },
    });
    if kind == "LimitRange" {
        object["spec"] = json!({ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] });
    }
    if [ROLE, BINDINGS.1].contains(&kind) {
        object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    }
    if kind == BINDINGS.1 {
        object["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": ROLE });
    }
    object
}

fn api(steps: &Steps, kind: &str, resource: &str) -> Api<DynamicObject> {
    let group = if kind == BINDINGS.1 { "rbac.authorization.k8s.io" } else { "" };
    let gvk = GroupVersionKind::gvk(group, "v1", kind);
    Api::all_with(steps.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, resource))
}

/// The configuration, and that the controller has taken it over.
async fn configure(steps: &Steps, entries: Vec<ResourceSpec>) {
    let api: Api<HNCConfiguration> = Api::all(steps.client.clone());
    let is_ours = |resource: &str| KINDS.iter().any(|(it, _)| *it == resource);
    let ours = entries.iter().filter(|it| is_ours(&it.resource));
    let wanted: BTreeMap<String, SynchronizationMode> =
        ours.map(|it| (it.resource.clone(), it.mode())).collect();
    let config = HNCConfiguration::new("config", HNCConfigurationSpec { resources: Some(entries) });
    api.patch("config", &PatchParams::apply("test").force(), &Patch::Apply(config)).await.unwrap();
    eventually("the configuration is in force", PATIENCE, async || {
        let seen = api.get("config").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let mut shown = BTreeMap::new();
        for it in &seen.resources {
            shown.insert(it.resource.clone(), it.mode.clone().unwrap_or_default());
        }
        let ours: BTreeMap<_, _> = shown.iter().filter(|(resource, _)| is_ours(resource)).collect();
        if ours == wanted.iter().collect() { Ok(()) } else { Err(format!("{shown:?}, not {wanted:?}")) }
    })
    .await
    .unwrap();
}

async fn present(
    steps: &Steps,
    (resource, kind): (&str, &str),
    name: &str,
    prefix: &str,
) -> Result<Presence, String> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api(steps, kind, resource).list_metadata(&named).await.map_err(|error| error.to_string())?;
    let place = |metadata: kube::core::ObjectMeta| {
        let from = metadata.labels.unwrap_or_default().remove(INHERITED_FROM);
        Some((metadata.namespace?, from))
    };
    let all = found.items.into_iter().filter_map(|it| place(it.metadata));
    Ok(all.filter(|(namespace, _)| namespace.starts_with(&format!("{prefix}-"))).collect())
}

/// By namespace: the state, the source and the reason.
type Said = BTreeMap<String, (String, Option<String>, String)>;

fn collect(nodes: &Value, said: &mut Said) {
    for node in nodes.as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let object = &node["object"];
        let state = text(&object["state"]).unwrap_or_else(|| "absent".into());
        let why = text(&object["why"]).unwrap_or_default();
        said.insert(text(&node["name"]).unwrap_or_default(), (state, text(&object["from"]), why));
        collect(&node["children"], said);
    }
}

/// How often each state was seen, and the reasons.
#[derive(Default)]
struct Tally {
    states: BTreeMap<String, usize>,
    halted: usize,
    other_roles: usize,
    cases: usize,
}

struct Scene<'a> {
    world: &'a World,
    random: Random,
    /// The kinds that something is done with.
    treated: BTreeSet<String>,
}

impl Scene<'_> {
    /// Asks about an object everywhere until everything agrees.
    async fn agrees(&self, kind: (&str, &str), name: &str) -> anyhow::Result<Said> {
        let prefix = &*self.random.prefix;
        let roots = self.random.names().join(" ");
        let words = format!("tree {roots} --show-copies {}/{name} -o json", kind.0);
        eventually(&format!("{prefix}: what is said of {}/{name} is so", kind.0), PATIENCE, async || {
            let output = self.world.hns(&words).await;
            if output.code != Some(0) || !output.stderr.is_empty() {
                return Err(format!("{output:?}"));
            }
            let mut said = Said::new();
            collect(&output.json()["trees"], &mut said);
            let present = present(&self.world.steps(), kind, name, prefix).await?;
            let halted = self.halted().await?;
            for namespace in self.random.names() {
                let (state, from, why) =
                    said.get(namespace).ok_or_else(|| format!("nothing of {namespace}"))?;
                let agrees = match present.get(namespace) {
                    None => ["stopped", "absent"].contains(&&**state),
                    Some(None) => ["source", "conflict"].contains(&&**state),
                    Some(Some(source)) => state == "copy" && from.as_ref() == Some(source),
                };
                if !agrees || !self.is_reason(kind.0, (state, why), halted.contains(namespace)) {
                    return Err(format!(
                        "{namespace}: {state} {from:?} ({why}), but {:?}",
                        present.get(namespace)
                    ));
                }
            }
            Ok(said)
        })
        .await
    }

    /// Whether what leaves everything as it is, is given as the reason where it is so, and nowhere else.
    fn is_reason(&self, resource: &str, (state, why): (&str, &str), halted: bool) -> bool {
        let untouched =
            ["its kind is in mode Ignore", "does not name its kind"].iter().any(|it| why.contains(it));
        let (frozen, treated) = (why.contains("is halted"), self.treated.contains(resource));
        match state {
            "copy" | "stopped" => untouched != treated && (frozen == (halted && treated)),
            _ => !(untouched && treated) && (halted || !frozen),
        }
    }

    /// The namespaces that show that they are halted.
    async fn halted(&self) -> Result<BTreeSet<String>, String> {
        let api: Api<HierarchyConfiguration> = Api::all(self.world.steps().client);
        let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let shows = |it: &HierarchyConfiguration| {
            let shown = it.status.iter().flat_map(|status| &status.conditions);
            shown.into_iter().any(|condition| condition.type_ == "ActivitiesHalted")
        };
        Ok(all.items.into_iter().filter(shows).filter_map(|it| it.metadata.namespace).collect())
    }

    /// Has the controller take this configuration over.
    async fn configure(&mut self, entries: Vec<ResourceSpec>) {
        let treated = entries.iter().filter(|it| it.mode() != SynchronizationMode::Ignore);
        self.treated = treated.map(|it| it.resource.clone()).chain([BINDINGS.0.to_owned()]).collect();
        configure(&self.world.steps(), entries).await;
    }

    /// The same of all objects, which then stay as they are; and `explain` says the same of some.
    async fn settles(&mut self, tally: &mut Tally) -> anyhow::Result<()> {
        let mut asked: Vec<_> = KINDS.iter().flat_map(|kind| NAMES.map(|name| (*kind, name))).collect();
        asked.push((KINDS[0], CLASHING));
        asked.extend(NAMES.map(|name| (BINDINGS, name)));
        let ask = |(kind, name): &((&'static str, &'static str), &'static str)| {
            let (kind, name) = (*kind, *name);
            let scene = &*self;
            async move { anyhow::Ok((kind, name, scene.agrees(kind, name).await?)) }
        };
        let asks: Vec<_> = asked.iter().map(ask).collect();
        let all: Vec<_> = stream::iter(asks).buffered(AT_ONCE).try_collect().await?;
        let before = self.all_present(&asked).await.map_err(anyhow::Error::msg)?;
        stays("what was agreed upon", Duration::from_millis(400), async || {
            let now = self.all_present(&asked).await?;
            if now == before { Ok(()) } else { Err(format!("{before:?} has become {now:?}")) }
        })
        .await?;
        for (_, _, said) in &all {
            for (state, _, why) in said.values() {
                *tally.states.entry(state.clone()).or_default() += 1;
                tally.halted += usize::from(state == "stopped" && why.contains("is halted"));
                tally.other_roles += usize::from(why.contains("it refers to the Role"));
                tally.cases += 1;
            }
        }
        let ((resource, _), name, said) = self.random.dice.pick(&all);
        let namespace = self.random.tree[self.random.dice.below(NAMESPACES)].0.clone();
        let explained =
            self.world.hns(&format!("explain {resource}/{name} -n {namespace} -o json")).await.json();
        let (state, from, _) = &said[&namespace];
        assert_eq!(
            (explained["state"].as_str(), explained["from"].as_str()),
            (Some(&**state), from.as_deref())
        );
        Ok(())
    }

    async fn all_present(&self, asked: &[((&str, &str), &str)]) -> Result<Vec<Presence>, String> {
        let steps = self.world.steps();
        let mut all = Vec::new();
        for (kind, name) in asked {
            all.push(present(&steps, *kind, name, &self.random.prefix).await?);
        }
        Ok(all)
    }
}

/// Makes a world, changes its configuration, and breaks it; asks after each.
async fn live_through(world: &World, random: Random, tally: &mut Tally) -> anyhow::Result<()> {
    let steps = world.steps();
    let mut scene = Scene { world, random, treated: BTreeSet::new() };
    world.apply(&scene.random.namespaces()).await;
    for (name, parent) in &scene.random.tree {
        if let Some(parent) = parent {
            steps.set_parent(name, &scene.random.tree[*parent].0).await?;
        }
    }
    // While nothing is propagated, objects come to stand where copies will want to be.
    scene.configure(Vec::new()).await;
    world.apply(&scene.random.objects()).await;
    world.apply(&scene.random.clash()).await;
    let entries = scene.random.first_configuration();
    scene.configure(entries).await;
    scene.settles(tally).await?;
    let entries = scene.random.configuration();
    scene.configure(entries).await;
    scene.settles(tally).await?;

    let (halted, parent) = scene.random.fatal();
    steps.set_parent(&halted, &parent).await?;
    eventually(&format!("{halted} below {parent} is halted"), PATIENCE, async || {
        let shown = steps.conditions(&halted).await.map_err(|error| error.to_string())?;
        let is_halted = shown.iter().any(|(type_, ..)| type_ == "ActivitiesHalted");
        if is_halted { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await?;
    // What comes now goes nowhere from here.
    scene.configure(KINDS.map(|(resource, _)| entry(resource)).into()).await;
    world.apply(&KINDS.map(|(_, kind)| object(kind, &halted, NAMES[0]))).await;
    scene.settles(tally).await
}

/// A kind that is configured, but that nobody can list.
async fn cannot_be_listed(world: &World) {
    let review =
        ResourceSpec { group: Some("authorization.k8s.io".into()), ..entry("localsubjectaccessreviews") };
    configure(&world.steps(), vec![review]).await;
    let output = world.hns("explain localsubjectaccessreview/x -n w0-0").await;
    let said = "unknown\n  Why: what the HNCConfiguration says of its kind is not in force: ";
    assert!(output.code == Some(0) && output.stdout.contains(said), "{output:?}");
    assert_eq!(
        output.stderr,
        "Note: the API server lists no localsubjectaccessreviews.authorization.k8s.io\n"
    );
}

fn entry(resource: &str) -> ResourceSpec {
    ResourceSpec { resource: resource.to_owned(), ..ResourceSpec::default() }
}

#[tokio::test]
async fn what_is_said_is_so_in_random_worlds() {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let began = Instant::now();
    let (key, value) = EXCLUDING;
    let world = unguarded(&CLUSTER, &[&format!("--nopropagation-label={key}={value}")]).await.unwrap();
    let started = began.elapsed();
    let mut tally = Tally::default();
    println!("seed {SEED}");
    for number in 0..WORLDS {
        let dice = Dice::new(SEED + u64::try_from(number).unwrap());
        live_through(&world, Random::grow(dice, number), &mut tally).await.unwrap();
    }
    cannot_be_listed(&world).await;
    println!(
        "{} questions in {WORLDS} worlds, {} of them stopped by a halted namespace, {} by a Role: {:?}; the cluster took \
         {started:.1?}, all {:.1?}",
        tally.cases,
        tally.halted,
        tally.other_roles,
        tally.states,
        began.elapsed()
    );
    assert!(tally.cases >= 100 && tally.halted > 0 && tally.other_roles > 0);
    for state in ["source", "copy", "stopped", "absent", "conflict"] {
        assert!(tally.states.contains_key(state), "{state} was never seen: {:?}", tally.states);
    }
}
