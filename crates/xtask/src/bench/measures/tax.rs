//! The price of hns for requests that do not use the hierarchy. The same requests are sent in turn to a cluster without hns, and to
//! one with hns, without and with its registrations and policies. And the usage of both programs while nothing happens.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hns_e2e::product::Component;
use hns_e2e::{Cluster, Launch, Options, Product, Replica};
use http::Method;
use serde_json::{Value, json};

use crate::bench::audit::{self, Follower};
use crate::bench::client::{Call, Client};
use crate::bench::registered::Registered;
use crate::bench::report::{Figure, Outcome, Target, decimal, median};
use crate::bench::testbed::{self, FILLING};
use crate::bench::usage::{self, Memory};
use crate::bench::{Scale, say};

/// The number of connections.
const CONNECTIONS: usize = 8;

/// All namespaces together, for the idle measurement.
const NAMESPACES: usize = 1000;

/// The children of the namespace `parent`.
const CHILDREN: usize = 500;

const IDLE: Duration = Duration::from_secs(60);

const API_SERVER: &str = "API server";

/// How hns is installed. The order is that of the first round and of the results; later rounds begin with another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    /// Without webhook configurations and policies.
    Unregistered,
    Registered,
}

const STATES: [State; 3] = [State::None, State::Unregistered, State::Registered];

/// Where objects are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Outside,
    Leaf,
    Parent,
    Cluster,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside trees",
            Self::Leaf => "leaf",
            Self::Parent => "parent of 500",
            Self::Cluster => "namespaces",
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Self::Outside | Self::Cluster => "lone-0000",
            Self::Leaf => "child-0000",
            Self::Parent => "parent",
        }
    }
}

const KINDS: [(&str, &str, &str); 5] = [
    ("Role", "/apis/rbac.authorization.k8s.io/v1", "roles"),
    ("RoleBinding", "/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ("Secret", "/api/v1", "secrets"),
    ("ConfigMap", "/api/v1", "configmaps"),
    ("Pod", "/api/v1", "pods"),
];

/// Namespaces are deleted at the end, because the control plane takes seconds for it.
const VERBS: [&str; 3] = ["create", "update", "delete"];

/// Many requests of one kind.
#[derive(Clone, Copy, Default)]
struct Cost {
    requests: usize,
    seconds: f64,
    /// Processor seconds of the API server.
    cpu: f64,
    /// Reviews that the webhook answered.
    calls: f64,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            seconds: self.seconds + other.seconds,
            cpu: self.cpu + other.cpu,
            calls: self.calls + other.calls,
        }
    }
}

/// The costs by place and kind, for each round in the order of [`STATES`].
type Costs = BTreeMap<(Place, &'static str), Vec<[Cost; 3]>>;

/// A cluster.
struct Site<'c> {
    cluster: &'c Cluster,
    client: Client,
    hns: Option<Hns<'c>>,
}

/// hns in a cluster.
struct Hns<'c> {
    webhook: Replica,
    controller: Replica,
    product: Product<'c>,
    registered: Option<Registered<'c>>,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let began = Instant::now();
    let policy = audit::policy();
    let clusters = tokio::try_join!(Cluster::start_audited(&policy), Cluster::start_audited(&policy))?;
    let bare = Site::create(&clusters.0, false).await?;
    let mut used = Site::create(&clusters.1, true).await?;
    let idle = idle(&used).await?;
    used.take_registrations().await?;
    let sites = [bare, used];
    let mut costs = Costs::new();
    for round in 0..scale.tax_rounds {
        say(&format!("tax: round {} of {}", round + 1, scale.tax_rounds));
        for place in [Place::Outside, Place::Leaf, Place::Parent, Place::Cluster] {
            one_round(&sites, scale, place, round, &mut costs).await?;
        }
    }
    let mut figures = figures(&costs);
    figures.extend(deletion(&sites, scale).await?);
    figures.extend(idle);
    let (webhook, controller) = sites[1].memory()?;
    let what = format!("{} rounds, {} requests of each kind and verb", scale.tax_rounds, scale.tax_requests);
    Ok(vec![Outcome {
        name: "tax".into(),
        what,
        figures,
        seconds: began.elapsed().as_secs_f64(),
        cpu: usage::Cpu::new(),
        webhook,
        controller,
        requests: BTreeMap::new(),
        needed: 0,
        made: 0,
        limits: Vec::new(),
    }])
}

impl<'c> Site<'c> {
    async fn create(cluster: &'c Cluster, with_hns: bool) -> anyhow::Result<Self> {
        let client = testbed::client(cluster).await?;
        let hns = if with_hns { Some(Hns::install(cluster).await?) } else { None };
        let site = Self { cluster, client, hns };
        let lone = (0..NAMESPACES - CHILDREN - 1).map(|number| format!("lone-{number:04}"));
        let children: Vec<String> = (0..CHILDREN).map(|number| format!("child-{number:04}")).collect();
        let names = ["parent".to_owned()].into_iter().chain(children.iter().cloned()).chain(lone);
        say(&format!("tax: creating {NAMESPACES} namespaces"));
        site.client.send(names.map(|name| testbed::create_namespace(&name)).collect(), FILLING).await?;
        if with_hns {
            let edges = children.iter().map(|child| testbed::create_edge(child, "parent"));
            site.client.send(edges.collect(), FILLING).await?;
        }
        site.rest().await?;
        Ok(site)
    }

    /// From now on, the measurement decides what is registered.
    async fn take_registrations(&mut self) -> anyhow::Result<()> {
        let Some(hns) = &mut self.hns else { return Ok(()) };
        let args = vec!["--manage-registrations=false".to_owned()];
        hns.registered = Some(Registered::read(self.cluster).await?);
        hns.controller.terminate().await?;
        hns.controller =
            hns.product.start(Component::Controller, Launch { args, ..Launch::default() }).await?;
        Ok(())
    }

    async fn enter(&self, state: State) -> anyhow::Result<()> {
        if let Some(registered) = self.hns.as_ref().and_then(|hns| hns.registered.as_ref()) {
            registered.delete(&registered.objects).await?;
            if state == State::Registered {
                registered.create(&registered.objects).await?;
            }
        }
        self.rest().await
    }

    fn processes(&self) -> Vec<(&'static str, i32)> {
        let programs = self.hns.as_ref().map(|hns| {
            [("webhook", hns.webhook.process().pid()), ("controller", hns.controller.process().pid())]
        });
        [(API_SERVER, self.cluster.api_server().pid())]
            .into_iter()
            .chain(programs.into_iter().flatten())
            .collect()
    }

    fn api_server(&self) -> anyhow::Result<f64> {
        let used = usage::cpu(&[(API_SERVER, self.cluster.api_server().pid())])?;
        Ok(used[API_SERVER])
    }

    async fn rest(&self) -> anyhow::Result<()> {
        testbed::rest(&self.processes()).await
    }

    /// The reviews that the webhook has answered.
    async fn calls(&self) -> anyhow::Result<f64> {
        match &self.hns {
            Some(hns) => testbed::reviews(&hns.webhook).await,
            None => Ok(0.0),
        }
    }

    fn memory(&self) -> anyhow::Result<(Memory, Memory)> {
        let none = Memory { rss_kib: 0, peak_kib: 0 };
        match &self.hns {
            Some(hns) => Ok((
                usage::memory(hns.webhook.process().pid())?,
                usage::memory(hns.controller.process().pid())?,
            )),
            None => Ok((none, none)),
        }
    }

    /// Sends the requests. With `until_rest`, what the cluster does because of them counts too.
    async fn cost(&self, calls: Vec<Call>, until_rest: bool) -> anyhow::Result<Cost> {
        let (requests, calls_before) = (calls.len(), self.calls().await?);
        let before = self.api_server()?;
        let sent = self.client.send(calls, CONNECTIONS).await?;
        ensure!(sent.repeated == 0, "the API server asked for {} repetitions", sent.repeated);
        if until_rest {
            self.rest().await?;
        }
        let cpu = self.api_server()? - before;
        Ok(Cost {
            requests,
            seconds: sent.wall.as_secs_f64(),
            cpu,
            calls: self.calls().await? - calls_before,
        })
    }
}

impl<'c> Hns<'c> {
    async fn install(cluster: &'c Cluster) -> anyhow::Result<Self> {
        let product = Product::install(cluster, Options::default()).await?;
        let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
        testbed::propagate(cluster, "secrets").await?;
        Ok(Self { webhook, controller, product, registered: None })
    }
}

/// The cluster that is measured in a state.
fn site<'s, 'c>(sites: &'s [Site<'c>; 2], state: State) -> &'s Site<'c> {
    &sites[usize::from(state != State::None)]
}

/// Each kind and verb in one place, in each state.
async fn one_round(
    sites: &[Site<'_>; 2],
    scale: &Scale,
    place: Place,
    round: usize,
    costs: &mut Costs,
) -> anyhow::Result<()> {
    let kinds: Vec<&'static str> = match place {
        Place::Cluster => vec!["Namespace"],
        _ => KINDS.iter().map(|(kind, ..)| *kind).collect(),
    };
    let mut new: BTreeMap<&'static str, [Cost; 3]> = BTreeMap::new();
    for turn in 0..STATES.len() {
        let index = (turn + round) % STATES.len();
        let site = site(sites, STATES[index]);
        site.enter(STATES[index]).await?;
        for &kind in &kinds {
            let mut cost = Cost::default();
            for verb in VERBS.into_iter().filter(|verb| place != Place::Cluster || *verb != "delete") {
                let calls = calls(scale, place, kind, verb, (round, index));
                cost = cost.plus(site.cost(calls, place == Place::Cluster).await?);
            }
            new.entry(kind).or_default()[index] = cost;
        }
    }
    for (kind, cost) in new {
        costs.entry((place, kind)).or_default().push(cost);
    }
    Ok(())
}

/// The names of objects contain the round and the index of the state, because namespaces stay until the end.
fn calls(scale: &Scale, place: Place, kind: &str, verb: &str, (round, state): (usize, usize)) -> Vec<Call> {
    let count = if place == Place::Cluster { scale.tax_requests / 5 } else { scale.tax_requests };
    (0..count).map(|number| call(place, kind, verb, &format!("tax-{round:02}-{state}-{number:04}"))).collect()
}

fn call(place: Place, kind: &str, verb: &str, name: &str) -> Call {
    let path = match KINDS.iter().find(|(it, ..)| *it == kind) {
        Some((_, root, plural)) => format!("{root}/namespaces/{}/{plural}", place.namespace()),
        None => "/api/v1/namespaces".to_owned(),
    };
    match verb {
        "create" => Call::new(Method::POST, path, object(place, kind, name).to_string()),
        "update" => Call::new(Method::PATCH, format!("{path}/{name}"), change(kind).to_string()),
        _ => Call::new(Method::DELETE, format!("{path}/{name}"), ""),
    }
}

fn object(place: Place, kind: &str, name: &str) -> Value {
    let (version, content) = match kind {
        "Role" => ("rbac.authorization.k8s.io/v1", json!({ "rules": [rule("get")] })),
        "RoleBinding" => {
            let role =
                json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" });
            ("rbac.authorization.k8s.io/v1", json!({ "roleRef": role, "subjects": [subject("alice")] }))
        }
        "Secret" | "ConfigMap" => ("v1", json!({ "data": { "key": "dmFsdWU=" } })),
        "Pod" => ("v1", json!({ "spec": { "containers": [{ "name": "main", "image": "none" }] } })),
        _ => ("v1", json!({})),
    };
    let mut object = content;
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({ "name": name });
    if place == Place::Parent {
        object["metadata"]["annotations"] = json!({ "propagate.hnc.x-k8s.io/none": "true" });
    }
    object
}

fn change(kind: &str) -> Value {
    match kind {
        "Role" => json!({ "rules": [rule("list")] }),
        "RoleBinding" => json!({ "subjects": [subject("bob")] }),
        "Secret" | "ConfigMap" => json!({ "data": { "key": "b3RoZXI=" } }),
        _ => json!({ "metadata": { "labels": { "example.com/team": "red" } } }),
    }
}

fn rule(verb: &str) -> Value {
    json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [verb] })
}

fn subject(user: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user })
}

/// The ratios of each place, as the median of all rounds, and of each kind.
fn figures(costs: &Costs) -> Vec<Figure> {
    let mut places: BTreeMap<Place, Vec<[Cost; 3]>> = BTreeMap::new();
    for ((place, _), rounds) in costs {
        let sums = places.entry(*place).or_insert_with(|| vec![[Cost::default(); 3]; rounds.len()]);
        for (sum, round) in sums.iter_mut().zip(rounds) {
            *sum = [0, 1, 2].map(|index| sum[index].plus(round[index]));
        }
    }
    let mut figures = Vec::new();
    for (place, rounds) in &places {
        let name = place.name();
        let cpu = |base: usize| {
            median(rounds.iter().map(|it| each(it[2].cpu, it[2]) / each(it[base].cpu, it[base])))
        };
        let rate = |base: usize| {
            median(rounds.iter().map(|it| each(it[base].seconds, it[base]) / each(it[2].seconds, it[2])))
        };
        let calls = rounds.iter().map(|it| it[2].calls).sum();
        let (cpu_bound, rate_bound) = match place {
            Place::Outside | Place::Leaf => (Some(1.05), Some(0.95)),
            Place::Parent => (None, Some(0.6)),
            Place::Cluster => (Some(1.1), None),
        };
        let held = |figure: Figure, target: Option<Target>| match target {
            Some(target) => figure.held_to(target),
            None => figure,
        };
        let no_calls = (*place != Place::Parent).then_some(Target::AtMost(0.0));
        figures.extend([
            held(Figure::new(format!("{name}: calls of the webhook"), calls, ""), no_calls),
            held(
                Figure::new(format!("{name}: processor time, with : without registrations"), cpu(1), ""),
                cpu_bound.map(Target::AtMost),
            ),
            held(
                Figure::new(format!("{name}: rate, with : without registrations"), rate(1), ""),
                rate_bound.map(Target::AtLeast),
            ),
            Figure::new(format!("{name}: processor time, with : without hns"), cpu(0), ""),
            Figure::new(format!("{name}: rate, with : without hns"), rate(0), ""),
        ]);
    }
    for ((place, kind), rounds) in costs {
        for (index, state) in [(0, "without hns"), (1, "without registrations"), (2, "with hns")] {
            let sum = rounds.iter().fold(Cost::default(), |sum, round| sum.plus(round[index]));
            let what = format!("{}, {kind}: processor time of the API server {state}", place.name());
            figures.push(Figure::new(what, each(sum.cpu, sum) * 1e6, "µs"));
        }
    }
    figures
}

fn each(seconds: f64, cost: Cost) -> f64 {
    seconds / decimal(cost.requests)
}

/// All namespaces of the rounds are deleted, in one state after the other.
async fn deletion(sites: &[Site<'_>; 2], scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    /// The namespace controller waits five seconds for each namespace.
    const GONE: Duration = Duration::from_secs(8);
    say("tax: deleting namespaces");
    let mut costs = Vec::new();
    for (index, state) in STATES.into_iter().enumerate() {
        let site = site(sites, state);
        site.enter(state).await?;
        let all = (0..scale.tax_rounds)
            .flat_map(|round| calls(scale, Place::Cluster, "Namespace", "delete", (round, index)));
        let all: Vec<Call> = all.collect();
        let (requests, before) = (all.len(), site.api_server()?);
        site.client.send(all, CONNECTIONS).await?;
        tokio::time::sleep(GONE).await;
        site.rest().await?;
        costs.push(each(site.api_server()? - before, Cost { requests, ..Cost::default() }));
    }
    Ok(vec![
        Figure::new(
            "namespaces, deleted: processor time, with : without registrations",
            costs[2] / costs[1],
            "",
        ),
        Figure::new("namespaces, deleted: processor time, with : without hns", costs[2] / costs[0], ""),
    ])
}

/// What both programs use while nothing happens.
async fn idle(site: &Site<'_>) -> anyhow::Result<Vec<Figure>> {
    say(&format!("tax: idle for {IDLE:?}"));
    let mut audit = Follower::new(site.cluster.audit().path())?;
    let before = usage::cpu(&site.processes())?;
    tokio::time::sleep(IDLE).await;
    let used = usage::difference(&before, &usage::cpu(&site.processes())?);
    let programs: f64 = ["webhook", "controller"].iter().filter_map(|name| used.get(name)).sum();
    let is_request = |it: &&audit::Record| it.who != "client" && !it.is_lease() && it.verb != "watch";
    let records = audit.read()?;
    let requests = records.iter().filter(is_request).count();
    Ok(vec![
        Figure::new("idle: processors of both programs", 100.0 * programs / IDLE.as_secs_f64(), "%")
            .held_to(Target::AtMost(0.5)),
        Figure::new("idle: requests", decimal(requests) / IDLE.as_secs_f64(), "/s")
            .held_to(Target::AtMost(1.0)),
    ])
}
