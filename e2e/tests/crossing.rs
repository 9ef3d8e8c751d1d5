//! Two requests at the same moment, of which each would be allowed without the other: two parents that make a cycle, an edge with a
//! source, and an anchor with a namespace that names it as its missing parent. One replica never allows a cycle; if two replicas do, the
//! controller reports and halts it. A conflict is kept and reported. The anchor gets nothing.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which end where something is not as it should be"
)]

use std::time::{Duration, Instant};

use futures::future::join_all;
use hns_api::names::MISSING_PARENTS;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, labels};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{
    Cluster, Component, Launch, NAMESPACE, Options, Product, Replica, Signal, Steps, eventually, refusal,
};
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

const ROUNDS: usize = 1_000;
const TOGETHER: usize = 900;

/// A request, when it was under way, and whether it was allowed.
struct Tried {
    began: Instant,
    ended: Instant,
    outcome: Result<HierarchyConfiguration, kube::Error>,
}

async fn attempt(steps: &Steps, child: &str, parent: &str) -> Tried {
    let began = Instant::now();
    let outcome = steps.set_parent(child, parent).await;
    Tried { began, ended: Instant::now(), outcome }
}

fn code(tried: &Tried) -> u16 {
    tried.outcome.as_ref().map_or_else(status, |_| 200)
}

fn status(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        error => panic!("{error}"),
    }
}

async fn parents<const N: usize>(steps: &Steps, names: [&str; N]) -> [String; N] {
    let mut parents = [const { String::new() }; N];
    for (parent, name) in parents.iter_mut().zip(names) {
        let hierarchy = steps.hierarchies(name).get_opt(HIERARCHY).await.unwrap();
        *parent = hierarchy.and_then(|it| it.spec.parent).unwrap_or_default();
    }
    parents
}

/// Two users, each admin of both namespaces.
async fn users(cluster: &Cluster, names: [&str; 2]) -> [Steps; 2] {
    let admin = Steps::of(cluster.admin());
    for name in names {
        admin.create_namespace(name).await.unwrap();
        for user in ["alice", "bob"] {
            admin.make_admin(name, user).await.unwrap();
        }
    }
    let users = ["alice", "bob"].map(|user| Steps::of(cluster.client_as(user, &[])));
    for (steps, name) in users.iter().flat_map(|steps| names.map(|name| (steps, name))) {
        eventually(&format!("the authorizer knows the admins of {name}"), PATIENCE, async || {
            let listed = steps.hierarchies(name).list(&ListParams::default()).await;
            listed.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    }
    users
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_never_lets_both_through_and_always_one() {
    let cluster = Cluster::start().await.unwrap();
    let product = Product::install(&cluster, Options::default()).await.unwrap();
    let _webhook = product.start_webhook().await.unwrap();
    let [alice, bob] = users(&cluster, ["a", "b"]).await;
    for name in ["a", "b"] {
        // Objects that exist already: a new one is judged the same, but deleting it takes longer than crossing.
        alice.set_parent(name, "").await.unwrap();
    }
    let (mut together, mut codes) = (0, std::collections::BTreeMap::<u16, usize>::new());
    for round in 0..ROUNDS {
        let (one, other) = tokio::join!(attempt(&alice, "a", "b"), attempt(&bob, "b", "a"));
        together += usize::from(one.began < other.ended && other.began < one.ended);
        let stand = parents(&alice, ["a", "b"]).await;
        let edges = stand.iter().filter(|parent| !parent.is_empty()).count();
        assert_eq!(edges, 1, "round {round}: {stand:?}, answers {} and {}", code(&one), code(&other));
        for tried in [one, other] {
            *codes.entry(code(&tried)).or_default() += 1;
        }
        for (name, parent) in ["a", "b"].iter().zip(&stand) {
            if !parent.is_empty() {
                alice.set_parent(name, "").await.unwrap();
            }
        }
    }
    println!("{ROUNDS} rounds, {together} with both requests in flight together; answers: {codes:?}");
    assert!(together >= TOGETHER, "only {together} rounds were a race");
    assert_eq!(codes.get(&200), Some(&ROUNDS), "one in each round, and only one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_replicas_let_through_is_reported_and_halts_only_its_members() {
    let cluster = Cluster::start().await.unwrap();
    let (_product, _replicas) = with_two_replicas(&cluster).await;

    let admin = Steps::of(cluster.admin());
    let [alice, bob] = users(&cluster, ["a", "b"]).await;
    admin.plant(&[("below", ""), ("aside", ""), ("aside-child", "aside")]).await.unwrap();
    admin.set_parent("below", "a").await.unwrap();
    admin.labelled(&["below", "a"]).await.unwrap();
    let (mut cycles, mut slowest) = (0, Duration::ZERO);
    for _ in 0..60 {
        let (one, other) = tokio::join!(attempt(&alice, "a", "b"), attempt(&bob, "b", "a"));
        let began = one.ended.max(other.ended);
        if one.outcome.is_ok() && other.outcome.is_ok() {
            cycles += 1;
            for name in ["a", "b"] {
                let shown = admin.reasons(name, &["InCycle"]).await.unwrap();
                assert!(shown[0].ends_with("a <- b <- a"), "{shown:?}");
            }
            admin.reasons("below", &["AncestorHaltActivities"]).await.unwrap();
            slowest = slowest.max(began.elapsed());
            assert!(admin.conditions("aside-child").await.unwrap().is_empty());
        }
        clear(&cluster, ["a", "b"]).await;
    }
    println!("60 rounds against two replicas, {cycles} cycles, the slowest shown after {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

/// Alice names a missing parent, and Bob, who is no admin of her namespaces, creates it by an anchor. He never gets a right there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_anchor_takes_no_namespace_that_names_it_at_the_same_moment_at_another_replica() {
    const PAIRS: usize = 60;
    const STEP: Duration = Duration::from_millis(5);
    let cluster = Cluster::start().await.unwrap();
    let (_product, replicas) = with_two_replicas(&cluster).await;
    let admin = Steps::of(cluster.admin());
    let [alice, bob] = ["alice", "bob"].map(|user| Steps::of(cluster.client_as(user, &[])));
    admin.create_namespace("bobs").await.unwrap();
    admin.make_admin("bobs", "bob").await.unwrap();
    // Not `update` on hierarchies, which would make her an admin of every namespace.
    for command in [
        &[
            "create",
            "clusterrole",
            "names",
            "--verb=create",
            "--resource=namespaces,hierarchyconfigurations.hnc.x-k8s.io",
        ][..],
        &["create", "clusterrolebinding", "names", "--clusterrole=names", "--user=alice"],
    ] {
        cluster.kubectl().args(command.iter().copied()).ok().await.unwrap();
    }
    let pair = |round: usize| [format!("parent-{round}"), format!("alices-{round}")];
    let children = (0..PAIRS).map(|round| pair(round)[1].clone());
    join_all(children.map(async |child| {
        admin.create_namespace(&child).await.unwrap();
        admin.make_admin(&child, "alice").await.unwrap();
        // An object that exists already is changed by one request.
        admin.set_parent(&child, "").await.unwrap();
    }))
    .await;
    let mut answers = std::collections::BTreeMap::<[u16; 2], usize>::new();
    // How long a naming takes depends on the machine: its start ahead of the anchor grows until it wins, and shrinks until it loses.
    let mut ahead = Duration::ZERO;
    for [parent, child] in (0..PAIRS).map(pair) {
        let anchor = async {
            tokio::time::sleep(ahead).await;
            bob.create_anchor("bobs", &parent).await
        };
        let (anchor, naming) = tokio::join!(anchor, attempt(&alice, &child, &parent));
        let anchor = anchor.map_or_else(|error| status(&error), |_| 201);
        ahead = if anchor == 201 { ahead + STEP } else { ahead.saturating_sub(STEP) };
        *answers.entry([anchor, code(&naming)]).or_default() += 1;
    }
    println!("{PAIRS} anchors and namings: {answers:?}, the naming {ahead:?} ahead at last");
    // A naming that the webhook did not retract keeps anchors for ten seconds.
    let anchors = bob.anchors("bobs");
    eventually("every anchor is Ok or in conflict", Duration::from_secs(30), async || {
        let anchors = anchors.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let is_open = |it: &&SubnamespaceAnchor| !matches!(it.state(), Some("Ok" | "Conflict"));
        match anchors.iter().find(is_open) {
            Some(open) => Err(format!("{open:?}")),
            None => Ok(()),
        }
    })
    .await
    .unwrap();
    let mut taken = Vec::new();
    for [parent, child] in (0..PAIRS).map(pair) {
        let [above] = parents(&admin, [&child]).await;
        let is_there = admin.namespaces().get_opt(&parent).await.unwrap().is_some();
        let copies = admin.bindings(&child).get_opt("hierarchy-admin-bob-bobs").await.unwrap();
        if (is_there && !above.is_empty()) || copies.is_some() {
            taken.push(child);
        }
    }
    assert!(taken.is_empty(), "{} of {PAIRS} are Bob's: {taken:?}", taken.len());
    assert!(answers.len() > 1, "every pair ended in the same way, so none was a race");

    // What two reviews at the same moment leave behind: an anchor that is stored, and a naming without its consent.
    replicas[2].process().signal(Signal::STOP).unwrap();
    bob.create_anchor("bobs", "late").await.unwrap();
    let namings =
        json!([{ "parent": "late", "child": "alices-0", "consentTo": [], "review": "1", "since": "" }]);
    let patch = Patch::Merge(json!({ "data": { "namings.json": namings.to_string() } }));
    let lists = Api::<ConfigMap>::namespaced(cluster.admin(), NAMESPACE);
    lists.patch(MISSING_PARENTS, &PatchParams::default(), &patch).await.unwrap();
    replicas[2].process().signal(Signal::CONT).unwrap();
    eventually("the late anchor is in conflict", Duration::from_secs(10), async || {
        let anchor = bob.anchors("bobs").get("late").await.map_err(|error| error.to_string())?;
        if anchor.state() == Some("Conflict") { Ok(()) } else { Err(format!("{anchor:?}")) }
    })
    .await
    .unwrap();
    assert!(admin.namespaces().get_opt("late").await.unwrap().is_none());
    bob.anchors("bobs").delete("late", &DeleteParams::default()).await.unwrap();
    eventually("the late anchor goes", PATIENCE, async || match bob.anchors("bobs").get_opt("late").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    // A client that does not try again by itself.
    let mut config = cluster.config();
    config.default_retry = false;
    config.auth_info.impersonate = Some("bob".into());
    let again = Steps::of(Client::try_from(config).unwrap()).create_anchor("bobs", "late").await;
    let refused = refusal(again);
    assert_eq!(refused.code, 503, "{refused:?}");
    assert!(refused.message.contains("make \"late\" the parent of \"alices-0\""), "{refused:?}");
}

/// An installation with two webhooks: Alice's `HierarchyConfigurations` go to the second, and everything else to the first.
async fn with_two_replicas(cluster: &Cluster) -> (Product<'_>, [Replica; 3]) {
    // The test changes the registrations itself.
    let controller_args = vec!["--manage-registrations=false".to_owned()];
    let options = Options { controller_args, ..Options::default() };
    let product = Product::install(cluster, options).await.unwrap();
    let first = product.start_webhook().await.unwrap();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let launch = Launch { webhook_port: Some(port), ..Launch::default() };
    let second = product.start(Component::Webhook, launch).await.unwrap();
    let controller = product.start_controller().await.unwrap();
    split_by_user(cluster, port, product.webhook_port()).await;
    (product, [first, second, controller])
}

/// A source is created in a namespace at the moment in which the namespace gets its first child. Until the controller has labelled the
/// namespace, no review compares the source with the objects below. Whatever is allowed, the child's own object stays, and a conflict
/// is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_created_at_the_moment_of_an_edge_overwrites_nothing() {
    const LANES: usize = 10;
    let cluster = Cluster::start().await.unwrap();
    let product = Product::install(&cluster, Options::default()).await.unwrap();
    let (_webhook, _controller) =
        tokio::try_join!(product.start_webhook(), product.start_controller()).unwrap();
    let steps = Steps::of(cluster.admin());
    let lanes = (0..LANES).map(async |lane| {
        let (parent, child) = (format!("parent-{lane}"), format!("child-{lane}"));
        steps.plant(&[(&parent, ""), (&child, "")]).await.unwrap();
        steps.set_parent(&child, "").await.unwrap();
        let own = steps.create_role(&child, "same", (&["get"], "", "pods")).await.unwrap();
        let mut outcomes = Vec::new();
        for round in 0..ROUNDS / LANES {
            outcomes.push(edge_and_source(&steps, &parent, &child, round).await);
            let now = steps.roles(&child).get("same").await.unwrap();
            assert_eq!((now.metadata.uid, now.rules), (own.metadata.uid.clone(), own.rules.clone()));
        }
        outcomes
    });
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for outcome in join_all(lanes).await.concat() {
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!("{ROUNDS} rounds: {outcomes:#?}");
    assert!(outcomes.contains_key("edge 200, source 201"), "no round was a race");
    assert!(outcomes.len() > 1, "nothing was ever refused");
}

/// Sets the parent and creates the source, the one or the other first by up to 36 milliseconds. If both are allowed, waits until the conflict
/// is reported. Returns the answers, and takes both back.
async fn edge_and_source(steps: &Steps, parent: &str, child: &str, round: usize) -> String {
    let delay = |first: bool| {
        let milliseconds = if first { 0 } else { 4 * u64::try_from(round / 2 % 10).unwrap() };
        tokio::time::sleep(Duration::from_millis(milliseconds))
    };
    let edge = async {
        delay(round.is_multiple_of(2)).await;
        attempt(steps, child, parent).await
    };
    let source = async {
        delay(!round.is_multiple_of(2)).await;
        steps.create_role(parent, "same", (&["list"], "", "pods")).await
    };
    let (edge, source) = tokio::join!(edge, source);
    let edge = code(&edge);
    let source = source.map_or_else(|error| status(&error), |_| 201);
    if (edge, source) == (200, 201) {
        let shown = steps.reasons(child, &["CannotPropagateObject"]).await.unwrap();
        assert!(shown[0].contains("\"same\""), "{shown:?}");
    } else {
        assert!([200, 409, 503].contains(&edge) && [201, 409, 503].contains(&source), "{edge}, {source}");
    }
    steps.set_parent(child, "").await.unwrap();
    if source == 201 {
        steps.roles(parent).delete("same", &DeleteParams::default()).await.unwrap();
    }
    eventually("the former parent has no label of a parent", Duration::from_secs(20), async || {
        let namespace = steps.namespaces().get(parent).await.map_err(|error| error.to_string())?;
        let is_labelled = namespace.metadata.labels.is_some_and(|it| it.contains_key(labels::HAS_CHILDREN));
        if is_labelled { Err("it has".to_owned()) } else { Ok(()) }
    })
    .await
    .unwrap();
    steps.reasons(child, &[]).await.unwrap();
    format!("edge {edge}, source {source}")
}

/// Removes a cycle, and waits until no namespace is halted.
async fn clear(cluster: &Cluster, names: [&str; 2]) {
    let admin = Steps::of(cluster.admin());
    for name in names {
        eventually("the edge can be removed", Duration::from_secs(10), async || {
            admin.set_parent(name, "").await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    }
    for name in names {
        admin.reasons(name, &[]).await.unwrap();
    }
}

/// Alice's requests go to the replica on `first`, other users' to the one on `second`.
async fn split_by_user(cluster: &Cluster, first: u16, second: u16) {
    let api = Api::<ValidatingWebhookConfiguration>::all(cluster.admin());
    let mut registration = api.get("hnc-validating-webhook-configuration").await.unwrap();
    let mut webhooks = registration.webhooks.take().unwrap();
    let of_hierarchy = |name: &str| name == "hierarchyconfigurations.hnc.x-k8s.io";
    let original = webhooks.iter().find(|it| of_hierarchy(&it.name)).unwrap().clone();
    webhooks.retain(|it| !of_hierarchy(&it.name));
    for (name, port, expression) in [
        ("alice.hnc.x-k8s.io", first, "request.userInfo.username == 'alice'"),
        ("others.hnc.x-k8s.io", second, "request.userInfo.username != 'alice'"),
    ] {
        let mut webhook = original.clone();
        webhook.name = name.into();
        webhook.client_config.service.as_mut().unwrap().port = Some(port.into());
        let condition = MatchCondition { name: "whose".into(), expression: expression.into() };
        webhook.match_conditions.get_or_insert_default().push(condition);
        webhooks.push(webhook);
    }
    registration.webhooks = Some(webhooks);
    api.replace("hnc-validating-webhook-configuration", &PostParams::default(), &registration).await.unwrap();
}
