//! The price of each webhook entry and each policy: the processor time that the API server needs for requests that match its rules
//! and call no webhook, with it alone and without any. Dry runs, so that etcd does not count.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use hns_api::names::CONTROLLER_SERVICE_ACCOUNT;
use hns_e2e::{Cluster, Options, Product};
use http::Method;
use serde_json::{Value, json};

use crate::bench::client::{Call, Client};
use crate::bench::registered::Registered;
use crate::bench::report::{Figure, Outcome, decimal, median};
use crate::bench::testbed::{self, create_edge, create_namespace};
use crate::bench::usage::{self, Cpu};
use crate::bench::{Scale, say};

const CONNECTIONS: usize = 4;

/// A request that a registration matches.
struct Row {
    /// The name of the webhook or the policy.
    registration: &'static str,
    what: &'static str,
    method: Method,
    path: &'static str,
    body: Value,
    by_the_controller: bool,
}

fn row(
    registration: &'static str,
    what: &'static str,
    method: Method,
    path: &'static str,
    body: Value,
) -> Row {
    Row { registration, what, method, path, body, by_the_controller: false }
}

fn rows() -> [Row; 12] {
    let label = || json!({ "metadata": { "labels": { "example.com/team": "red" } } });
    let new = || json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "fresh" } });
    let namespace = "/api/v1/namespaces/child";
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/parent/roles/source";
    let copy = "/apis/rbac.authorization.k8s.io/v1/namespaces/child/roles/source";
    let hierarchy = "/apis/hnc.x-k8s.io/v1alpha2/namespaces/child/hierarchyconfigurations/hierarchy";
    let anchor = "/apis/hnc.x-k8s.io/v1alpha2/namespaces/parent/subnamespaceanchors/sub";
    let configuration = "/apis/hnc.x-k8s.io/v1alpha2/hncconfigurations/config";
    let patch = || Method::PATCH;
    [
        row("objects.hnc.x-k8s.io", "change of a Role in a namespace with children", patch(), role, label()),
        row("namespaces.hnc.x-k8s.io", "label of a namespace", patch(), namespace, label()),
        row("hns-namespace-keys", "label of a namespace", patch(), namespace, label()),
        row("awaited-namespaces.hnc.x-k8s.io", "new namespace", Method::POST, "/api/v1/namespaces", new()),
        row("hns-defaults", "new namespace", Method::POST, "/api/v1/namespaces", new()),
        row("hns-namespace-anchors", "deletion of a namespace", Method::DELETE, namespace, Value::Null),
        row("hierarchyconfigurations.hnc.x-k8s.io", "label of a hierarchy", patch(), hierarchy, label()),
        row("hns-hierarchy", "label of a hierarchy", patch(), hierarchy, label()),
        row("subnamespaceanchors.hnc.x-k8s.io", "label of an anchor", patch(), anchor, label()),
        row("hns-anchors", "label of an anchor", patch(), anchor, label()),
        row("hncconfigurations.hnc.x-k8s.io", "label of the configuration", patch(), configuration, label()),
        Row {
            by_the_controller: true,
            ..row("hns-copies", "change of a copy by the controller", Method::PUT, copy, changed_copy())
        },
    ]
}

fn changed_copy() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "source", "labels": { "hnc.x-k8s.io/inherited-from": "parent" } },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }],
    })
}

/// The clients, and what the controller has registered; nothing of it is in force.
struct World<'c> {
    cluster: &'c Cluster,
    administrator: Client,
    controller: Client,
    registered: Registered<'c>,
}

pub(crate) async fn measure(cluster: &Cluster, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let began = Instant::now();
    let product = Product::install(cluster, Options::default()).await?;
    let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    let world = World::create(cluster).await?;
    let memory = [&webhook, &controller].map(|replica| usage::memory(replica.process().pid()));
    controller.kill().await?;
    world.registered.delete(&world.registered.objects).await?;
    let (rounds, count) = (scale.tax_rounds.div_ceil(3), 5 * scale.tax_requests);
    let mut figures = Vec::new();
    for row in rows() {
        say(&format!("price: {}", row.registration));
        figures.extend(world.price(&row, rounds, count).await?);
    }
    let calls = testbed::reviews(&webhook).await?;
    figures.push(Figure::new("calls of the webhook", calls, ""));
    let [webhook, controller] = memory;
    Ok(vec![Outcome {
        name: "price".into(),
        what: format!("{rounds} rounds of {count} requests with and without each registration"),
        figures,
        seconds: began.elapsed().as_secs_f64(),
        cpu: Cpu::new(),
        webhook: webhook?,
        controller: controller?,
        requests: BTreeMap::new(),
        needed: 0,
        made: 0,
        limits: Vec::new(),
    }])
}

impl<'c> World<'c> {
    async fn create(cluster: &'c Cluster) -> anyhow::Result<Self> {
        let administrator = testbed::client(cluster).await?;
        let token = format!("create token {CONTROLLER_SERVICE_ACCOUNT} -n hnc-system --duration=24h");
        let token = cluster.kubectl().args(token.split(' ')).ok().await?;
        let controller = Client::new(&cluster.url(), cluster.ca_pem(), &token)?;
        let anchor = json!({
            "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor", "metadata": { "name": "sub" },
        });
        let anchors = "/apis/hnc.x-k8s.io/v1alpha2/namespaces/parent/subnamespaceanchors";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "source" },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
        });
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/parent/roles";
        for call in [
            create_namespace("parent"),
            create_namespace("child"),
            create_namespace("orphan"),
            Call::new(Method::POST, roles, role.to_string()),
            create_edge("child", "parent"),
            create_edge("orphan", "missing"),
            Call::new(Method::POST, anchors, anchor.to_string()),
        ] {
            administrator.ask(call).await?;
        }
        testbed::propagate(cluster, "secrets").await?;
        testbed::rest(&[("API server", cluster.api_server().pid())]).await?;
        let registered = Registered::read(cluster).await?;
        Ok(Self { cluster, administrator, controller, registered })
    }

    async fn price(&self, row: &Row, rounds: usize, count: usize) -> anyhow::Result<[Figure; 2]> {
        let alone = self.registered.alone(row.registration)?;
        let (mut without, mut more) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let base =
                self.cost(row, count).await.with_context(|| format!("without {}", row.registration))?;
            self.registered.create(&alone).await?;
            let cost = self.cost(row, count).await.with_context(|| format!("with {}", row.registration))?;
            self.registered.delete(&alone).await?;
            without.push(base);
            more.push(cost - base);
        }
        let name = format!("{}: {}", row.registration, row.what);
        Ok([
            Figure::new(format!("{name}, more"), median(more.into_iter()), "µs"),
            Figure::new(format!("{name}, without it"), median(without.into_iter()), "µs"),
        ])
    }

    /// Processor microseconds of the API server for one request.
    async fn cost(&self, row: &Row, count: usize) -> anyhow::Result<f64> {
        let body = if row.body.is_null() { String::new() } else { row.body.to_string() };
        let call = Call::new(row.method.clone(), format!("{}?dryRun=All", row.path), body);
        let client = if row.by_the_controller { &self.controller } else { &self.administrator };
        let processes = [("API server", self.cluster.api_server().pid())];
        let before = usage::cpu(&processes)?;
        client.send(vec![call; count], CONNECTIONS).await?;
        let used = usage::difference(&before, &usage::cpu(&processes)?);
        Ok(used["API server"] * 1e6 / decimal(count))
    }
}
