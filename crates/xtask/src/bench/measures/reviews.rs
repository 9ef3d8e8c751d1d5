//! The cost of a review: recorded `AdmissionReview`s are posted to a running `hns-webhook` as an API server posts them, over
//! HTTP/1.1 and TLS, and the processor time of the webhook is divided by their number.
//!
//! The reviews were recorded from a real API server (`reviews/recorded`) and need no question to it; [`world`] is the hierarchy
//! that they are about. Every response is checked. Nothing is written to the cluster meanwhile.
//!
//! A machine's speed changes by half within minutes, so the reviews are posted by turns, in many rounds, and in each round this
//! process parses one of them, too ([`yardstick`]).

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, available_parallelism};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use hns_e2e::{Cluster, Options, Product};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bench::client::{self, Call, trusting};
use crate::bench::report::{Figure, Outcome, Target as Held};
use crate::bench::testbed::{self, FILLING};
use crate::bench::usage::{self, Cpu, Memory, TICKS_PER_SECOND};
use crate::bench::{Scale, say};

const ROOT: &str = "company";

/// A recorded review, and what is to be said of it.
#[derive(Debug, Clone, Copy)]
struct Review {
    /// What it is called in tables.
    name: &'static str,
    path: &'static str,
    body: &'static str,
    /// The code of the answer's status.
    code: u16,
}

macro_rules! recorded {
    ($file:literal) => {
        include_str!(concat!("reviews/recorded/", $file, ".json"))
    };
}

const NAMESPACES: &str = "/validate-v1-namespace?timeout=5s";

const REVIEWS: [Review; 4] = [
    Review { name: "namespace update", path: NAMESPACES, body: recorded!("namespace-update"), code: 200 },
    Review {
        name: "source update",
        path: "/validate-objects?timeout=5s",
        body: recorded!("source-update"),
        code: 200,
    },
    Review {
        name: "denied copy update",
        path: "/validate-objects?timeout=5s",
        body: recorded!("copy-update"),
        code: 403,
    },
    Review {
        name: "denied cycle",
        path: "/validate-hnc-x-k8s-io-v1alpha2-hierarchyconfigurations?timeout=5s",
        body: recorded!("cycle"),
        code: 409,
    },
];

/// How the reviews are sent.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    /// Each with one review at a time.
    connections: usize,
    /// Of how many reviews one is sent.
    share: usize,
}

const LOADS: [Load; 2] = [
    // A burst of requests.
    Load { name: "", connections: 64, share: 1 },
    Load { name: ", one at a time", connections: 1, share: 4 },
];

/// A connection to the webhook.
type Sender = SendRequest<Full<Bytes>>;

/// The webhook that is measured.
#[derive(Debug, Clone)]
struct Target {
    /// Where it serves admission; its certificate is for `localhost`.
    address: SocketAddr,
    /// The authority (PEM) of its certificate.
    ca_pem: String,
    /// Its process.
    pid: i32,
}

impl Target {
    fn ticks(&self) -> anyhow::Result<(u64, u64)> {
        usage::ticks(&self.pid.to_string()).context("the webhook has ended")
    }
}

/// What reviews cost in one round.
#[derive(Debug, Clone, Copy)]
struct Cost {
    reviews: usize,
    seconds: f64,
    /// Ticks of the webhook's processor time in its own code.
    user: u64,
    /// The same in the kernel.
    system: u64,
}

/// What they cost in all rounds.
#[derive(Debug, Default)]
struct Costs(Vec<Cost>);

impl Costs {
    /// Microseconds for each review, of all rounds together.
    fn each(&self, ticks: impl Fn(&Cost) -> u64) -> f64 {
        micros(self.0.iter().map(ticks).sum()) / count(self.reviews())
    }

    /// As far as this client and the machine let it: both share its cores.
    fn per_second(&self) -> f64 {
        count(self.reviews()) / self.0.iter().map(|cost| cost.seconds).sum::<f64>()
    }

    fn reviews(&self) -> usize {
        self.0.iter().map(|cost| cost.reviews).sum()
    }

    /// Microseconds for each review in the cheapest round and in the dearest.
    fn range(&self) -> (f64, f64) {
        let each = |cost: &Cost| micros(cost.user + cost.system) / count(cost.reviews);
        let least = self.0.iter().map(each).fold(f64::INFINITY, f64::min);
        (least, self.0.iter().map(each).fold(0.0, f64::max))
    }
}

/// What a review may cost, in microseconds.
const ALLOWED: f64 = 40.0;

/// On a cluster of its own, filled past the webhook.
pub(crate) async fn measure(cluster: &Cluster, scale: &Scale) -> anyhow::Result<Vec<Outcome>> {
    let product = Product::install(cluster, Options { policies: false, ..Options::default() }).await?;
    product.uninstall_registrations().await?;
    say(&format!("creating {} namespaces", scale.below_root));
    let client = testbed::client(cluster).await?;
    client.send(world(scale.below_root), FILLING).await?;
    client.send(changed()?, FILLING).await?;
    let webhook = product.start_webhook().await?;
    let pid = webhook.process().pid();
    let target = Target {
        address: (Ipv4Addr::LOCALHOST, product.webhook_port()).into(),
        ca_pem: product.ca_pem().to_owned(),
        pid,
    };

    let (before, began) = (usage::cpu(&[("webhook", pid)])?, Instant::now());
    let mut figures = Vec::new();
    for load in LOADS {
        say(&format!("posting reviews{}", load.name));
        figures.extend(by_turns(&target, load, scale).await?);
    }
    let cpu = usage::difference(&before, &usage::cpu(&[("webhook", pid)])?);
    let what = format!("recorded reviews, a root of {} namespaces", scale.below_root);
    Ok(vec![outcome(what, figures, began.elapsed().as_secs_f64(), cpu, usage::memory(pid)?)])
}

/// All reviews in each round, one after the other.
async fn by_turns(target: &Target, load: Load, scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let mut costs = [const { Costs(Vec::new()) }; REVIEWS.len()];
    let mut read = 0.0;
    for _ in 0..scale.review_rounds {
        for (review, costs) in REVIEWS.into_iter().zip(&mut costs) {
            let cost = measure_one(target, review, load, scale.reviews / load.share).await;
            costs.0.push(cost.with_context(|| format!("the review {:?}", review.name))?);
        }
        read += yardstick()? / count(scale.review_rounds);
    }
    let shown = REVIEWS.into_iter().zip(&costs).flat_map(|(review, costs)| shown(review, load, costs));
    let unit = format!("the machine{}: to read {} into a general value", load.name, REVIEWS[0].name);
    Ok(shown.chain([Figure::new(unit, read, "µs")]).collect())
}

fn shown(review: Review, load: Load, costs: &Costs) -> [Figure; 5] {
    let what = format!("{}{}", review.name, load.name);
    let each = costs.each(|cost| cost.user + cost.system);
    let total = Figure::new(format!("{what} ({} bytes)", review.body.len()), each, "µs");
    let is_held = load.connections > 1;
    let (cheapest, dearest) = costs.range();
    [
        if is_held { total.held_to(Held::AtMost(ALLOWED)) } else { total },
        Figure::new(format!("{what}: of that in the kernel"), costs.each(|cost| cost.system), "µs"),
        Figure::new(format!("{what}: cheapest round"), cheapest, "µs"),
        Figure::new(format!("{what}: dearest round"), dearest, "µs"),
        Figure::new(format!("{what}: reviews"), costs.per_second(), "/s"),
    ]
}

/// How fast the machine is just now: the microseconds that a plain reader takes for a review, with every processor at work.
fn yardstick() -> anyhow::Result<f64> {
    const TIMES: usize = 2000;
    let read = || {
        let began = Instant::now();
        for _ in 0..TIMES {
            black_box(serde_json::from_str::<Value>(black_box(REVIEWS[0].body))?);
        }
        anyhow::Ok(began.elapsed().as_secs_f64() * 1e6 / count(TIMES))
    };
    let processors = available_parallelism()?.get();
    let readings: Vec<anyhow::Result<f64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(read)).collect();
        threads.into_iter().map(|it| it.join().expect("it reads what was read before")).collect()
    });
    Ok(readings.into_iter().sum::<anyhow::Result<f64>>()? / count(processors))
}

/// No request is made and nothing is written meanwhile, and there is no controller.
fn outcome(what: String, figures: Vec<Figure>, seconds: f64, cpu: Cpu, webhook: Memory) -> Outcome {
    Outcome {
        name: "reviews".into(),
        what,
        figures,
        seconds,
        cpu,
        webhook,
        controller: Memory { rss_kib: 0, peak_kib: 0 },
        requests: BTreeMap::new(),
        needed: 0,
        made: 0,
        limits: Vec::new(),
    }
}

async fn measure_one(target: &Target, review: Review, load: Load, reviews: usize) -> anyhow::Result<Cost> {
    let mut senders = Vec::new();
    for _ in 0..load.connections {
        senders.push(connect(target).await?);
    }
    let expected = first_answer(&mut senders[0], review).await?;
    post(&mut senders, review, &expected, reviews / 10).await?;
    let (before, began) = (target.ticks()?, Instant::now());
    let reviews = post(&mut senders, review, &expected, reviews).await?;
    let (after, took) = (target.ticks()?, began.elapsed());
    Ok(Cost { reviews, seconds: took.as_secs_f64(), user: after.0 - before.0, system: after.1 - before.1 })
}

/// Posts so many reviews over all connections; returns how many were answered.
async fn post(
    senders: &mut Vec<Sender>,
    review: Review,
    expected: &Bytes,
    reviews: usize,
) -> anyhow::Result<usize> {
    let each = reviews.div_ceil(senders.len());
    let mut tasks = JoinSet::new();
    for mut sender in senders.drain(..) {
        let expected = expected.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                // The same review is answered by the same bytes.
                let answer = ask(&mut sender, review).await?;
                ensure!(answer == expected, "it was answered otherwise: {answer:?}");
            }
            anyhow::Ok(sender)
        });
    }
    while let Some(task) = tasks.join_next().await {
        senders.push(task??);
    }
    Ok(each * senders.len())
}

async fn first_answer(sender: &mut Sender, review: Review) -> anyhow::Result<Bytes> {
    let answer = ask(sender, review).await?;
    let said: Value = serde_json::from_slice(&answer)?;
    let response = &said["response"];
    if response["status"]["code"] != review.code || response["allowed"] != (review.code == 200) {
        bail!("{} is expected, not {said}", review.code);
    }
    Ok(answer)
}

async fn ask(sender: &mut Sender, review: Review) -> anyhow::Result<Bytes> {
    let request = Request::post(review.path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from_static(review.body.as_bytes())))?;
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == StatusCode::OK, "HTTP status {}", response.status());
    Ok(response.into_body().collect().await?.to_bytes())
}

async fn connect(target: &Target) -> anyhow::Result<Sender> {
    let mut config = trusting(&target.ca_pem)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost")?;
    let stream = client::connect(target.address, name, Arc::new(config)).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a hundredth of a second")]
fn micros(ticks: u64) -> f64 {
    ticks as f64 * 1e6 / TICKS_PER_SECOND
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn count(reviews: usize) -> f64 {
    reviews as f64
}

/// The root that the reviews are about, and so many namespaces below it.
fn world(children: usize) -> Vec<Call> {
    let namespace = |metadata: Value| {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        Call::new(Method::POST, "/api/v1/namespaces", body.to_string())
    };
    let child = |number: usize| {
        let name = format!("team-{number:05}");
        namespace(json!({
            "name": name,
            "labels": {
                "hnc.x-k8s.io/included-namespace": "true",
                format!("{name}.tree.hnc.x-k8s.io/depth"): "0",
                format!("{ROOT}.tree.hnc.x-k8s.io/depth"): "1",
            },
            "annotations": { "hnc.x-k8s.io/subnamespace-of": ROOT },
        }))
    };
    let root = namespace(json!({ "name": ROOT }));
    std::iter::once(root).chain((0..children).map(child)).collect()
}

/// The objects that the reviews would change, but for the namespaces.
fn changed() -> anyhow::Result<Vec<Call>> {
    REVIEWS.iter().filter(|review| review.path != NAMESPACES).map(|review| create(review.body)).collect()
}

/// The creation of the object that a review finds.
fn create(review: &str) -> anyhow::Result<Call> {
    let review: Value = serde_json::from_str(review)?;
    let request = &review["request"];
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).context("a recorded review");
    let (group, version) = (text("/resource/group")?, text("/resource/version")?);
    let (resource, namespace) = (text("/resource/resource")?, text("/namespace")?);
    let mut object = request["oldObject"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // What the API server says itself.
        for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(own);
        }
    }
    let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{resource}");
    Ok(Call::new(Method::POST, path, object.to_string()))
}
