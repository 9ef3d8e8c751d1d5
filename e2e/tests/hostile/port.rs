//! Attacks on the webhook's port without credentials, and their effect on the requests of users meanwhile. With client
//! certificates the attackers are refused.
//!
//! The reviews of users come from a real API server at 127.0.0.1; attacks come from 127.0.0.2, as from another pod, or from the
//! same address, as behind address translation.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use hns_api::labels;
use hns_api::names::paths;
use hns_e2e::product::CONTROLLER_USER;
use hns_e2e::{Cluster, Component, Launch, Options, Product, Replica, Steps, eventually, ports, refusal};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, MutexGuard, Notify, OnceCell};
use tokio::time::timeout;

use super::client::{Client, Sent, Session};
use super::fixture::unharmed;
use super::forged::{administrator, creation_below};
use super::review::honest;

/// Another pod.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How long a user's request may take meanwhile.
const PROMPT: Duration = Duration::from_secs(2);

struct Fixture {
    product: Product<'static>,
    webhook: Replica,
}

/// One installation for all tests here, which use it one after the other.
async fn fixture() -> Result<(&'static Fixture, MutexGuard<'static, ()>)> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let guard = ONE_AT_A_TIME.lock().await;
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
    let fixture = WORLD
        .get_or_try_init(async || {
            let product = Product::install(cluster, Options::default()).await?;
            let webhook = product.start_webhook().await?;
            Ok::<_, anyhow::Error>(Fixture { product, webhook })
        })
        .await?;
    Ok((fixture, guard))
}

impl Fixture {
    /// A tree of an administrator's and the steps of that user: `NAME` and `NAME-child`, two roots.
    async fn roots(&self, name: &str) -> Result<Steps> {
        let admin = Steps::of(self.product.cluster().admin());
        let user = format!("alice-{name}");
        for namespace in [name.to_owned(), format!("{name}-child")] {
            admin.create_namespace(&namespace).await?;
            admin.make_admin(&namespace, &user).await?;
            admin.set_parent(&namespace, "").await?;
        }
        Ok(Steps::of(self.product.cluster().client_as(&user, &[])))
    }
}

/// Moves `NAME-child` below `NAME` and back; how long the slower of both took.
async fn moves(user: &Steps, name: &str) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for parent in [name, ""] {
        let asked = Instant::now();
        user.set_parent(&format!("{name}-child"), parent)
            .await
            .with_context(|| format!("a change of parent to {parent:?}"))?;
        slowest = slowest.max(asked.elapsed());
    }
    Ok(slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_changes_of_parents_leave_room_for_those_of_users() -> Result<()> {
    const LEAST: usize = 900;
    let (fixture, _guard) = fixture().await?;
    let user = fixture.roots("forged").await?;
    let session = Session::new(Client::new(&fixture.product)?.from(ELSEWHERE));
    let is_full = Notify::new();
    // The webhook forgets each after ten seconds, so they do not end before the user's requests.
    let attack = async {
        let mut answers =
            futures::stream::iter(0..).map(|number| forged(session.clone(), number)).buffer_unordered(64);
        let mut let_through = 0;
        while let Some(allowed) = answers.try_next().await? {
            let_through += usize::from(allowed);
            if !allowed {
                ensure!(let_through >= LEAST, "only {let_through} were let through, so this shows nothing");
                is_full.notify_one();
            }
        }
        Ok(())
    };
    let request = async {
        timeout(Duration::from_secs(60), is_full.notified()).await.context("no forged change is refused")?;
        let took = moves(&user, "forged").await?;
        println!("a user's changes of parent took at most {took:.1?} among forged ones");
        unharmed(&fixture.webhook)
    };
    tokio::select! {
        biased;
        outcome = request => outcome,
        outcome = attack => outcome,
    }
}

/// A forged review: an administrator creates a namespace below another one.
async fn forged(session: Session, number: usize) -> Result<bool> {
    let mut review = creation_below(&format!("ghost-{number}"), "forged");
    review["request"]["userInfo"] = administrator();
    // Another user each time: a user can use a part of the list only, and a forger can name any.
    review["request"]["userInfo"]["username"] = json!(format!("ghost-{number}"));
    review["request"]["uid"] = json!(format!("ghost-{number}"));
    let sent = Sent::json(&format!("{}?timeout=30s", paths::NAMESPACES), review.to_string());
    let (status, body) = session.ask(sent).await?;
    ensure!(status.is_success(), "{status} {body}");
    Ok(serde_json::from_str::<Value>(&body)?["response"]["allowed"] == true)
}

/// Whether a request declares the length of its body.
#[derive(Debug, Clone, Copy)]
enum Length {
    Known,
    /// The body comes in chunks.
    Unknown,
}

/// Sends all of a large body but its last byte, and then nothing; returns the connection.
async fn half_sent(client: Client, length: Length) -> Result<impl Sized> {
    const LENGTH: usize = 8 * 1024 * 1024;
    let (header, chunk) = match length {
        Length::Known => (format!("Content-Length: {LENGTH}"), String::new()),
        Length::Unknown => ("Transfer-Encoding: chunked".to_owned(), format!("{LENGTH:x}\r\n")),
    };
    let head = format!(
        "POST {}?timeout=30s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{header}\r\n\r\n{chunk}",
        paths::NAMESPACES
    );
    let mut stream = client.tls().await?;
    stream.write_all(head.as_bytes()).await?;
    // An error says that the webhook has closed the connection.
    let _ = stream.write_all(&vec![b' '; LENGTH - 1]).await;
    Ok(stream)
}

/// The most memory that a process has had, in MiB.
fn peak(replica: &Replica) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", replica.process().pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_bodies_take_little_memory_and_delay_no_request() -> Result<()> {
    const BODIES: usize = 120;
    let (fixture, _guard) = fixture().await?;
    let user = fixture.roots("bodies").await?;
    moves(&user, "bodies").await?;
    let before = peak(&fixture.webhook)?;
    for from in [ELSEWHERE, Ipv4Addr::LOCALHOST] {
        let client = Client::new(&fixture.product)?.from(from);
        let sending = tokio::spawn(join_all((0..BODIES).map(move |number| {
            // Connections are kept until all are there, and until this task is aborted.
            half_sent(client.clone(), if number % 2 == 0 { Length::Known } else { Length::Unknown })
        })));
        let mut slowest = Duration::ZERO;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            slowest = slowest.max(moves(&user, "bodies").await?);
        }
        sending.abort();
        let more = peak(&fixture.webhook)?.saturating_sub(before);
        println!(
            "{BODIES} half-sent bodies from {from}: {more} MiB more; a change of parent took {slowest:.1?}"
        );
        ensure!(more < 150, "{more} MiB more");
        ensure!(slowest < PROMPT, "a change of parent took {slowest:?}");
    }
    unharmed(&fixture.webhook)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_take_no_slots_from_others() -> Result<()> {
    /// More than there are slots.
    const CONNECTIONS: usize = 1_200;
    let (fixture, _guard) = fixture().await?;
    let user = fixture.roots("idle").await?;
    let client = Client::new(&fixture.product)?;
    let open = async || {
        let mut stream = client.tls().await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        stream.read_u8().await?;
        Ok::<_, anyhow::Error>(stream)
    };
    // One that is not answered continues to wait for a slot.
    let connections: Vec<_> = futures::stream::iter(0..CONNECTIONS)
        .map(|_| async {
            let mut opening = Box::pin(open());
            match timeout(PROMPT, &mut opening).await {
                Ok(stream) => (stream.ok(), None),
                Err(_) => (None, Some(opening)),
            }
        })
        .buffer_unordered(200)
        .collect()
        .await;
    let answered = connections.iter().filter(|(stream, _)| stream.is_some()).count();
    ensure!(answered > 1_000, "only {answered} of them were answered");
    let asked = Instant::now();
    timeout(PROMPT, honest(&client)).await.context("a review on another connection")??;
    println!("with {answered} connections, two reviews on others took {:.1?}", asked.elapsed());
    // The API server's own connections were the longest idle.
    let took = moves(&user, "idle").await?;
    println!("a change of parent took {took:.1?}");
    ensure!(took < PROMPT, "a change of parent took {took:?}");
    unharmed(&fixture.webhook)
}

#[tokio::test]
async fn a_selector_of_the_largest_annotations_is_refused_at_once() -> Result<()> {
    let (fixture, _guard) = fixture().await?;
    let admin = Steps::of(fixture.product.cluster().admin());
    admin.create_namespace("selects").await?;
    // The webhook judges sources in namespaces with these labels. No controller runs here, and the policy that labels new namespaces
    // may not be in force yet.
    let both = json!({ labels::INCLUDED_NAMESPACE: labels::TRUE, labels::HAS_CHILDREN: labels::TRUE });
    let labelled = json!({ "metadata": { "labels": both } });
    let controller = Steps::of(fixture.product.cluster().client_as(CONTROLLER_USER, &[]));
    controller.namespaces().patch("selects", &PatchParams::default(), &Patch::Merge(labelled)).await?;
    admin.create_binding("selects", "tessa", ("ClusterRole", "admin"), "tessa").await?;
    let tessa = Steps::of(fixture.product.cluster().client_as("tessa", &[]));
    eventually("tessa may create roles", Duration::from_secs(20), async || {
        let created = tessa.create_role("selects", "role", (&["get"], "", "pods")).await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    // The API server learns of the labels a moment later.
    eventually("sources of the namespace are judged", Duration::from_secs(20), async || {
        let wrong =
            Patch::Merge(json!({ "metadata": { "annotations": { "propagate.hnc.x-k8s.io/select": "(" } } }));
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        match tessa.roles("selects").patch("role", &dry, &wrong).await {
            Err(kube::Error::Api(status)) if status.code == 400 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    let cases = [
        (
            "select",
            (0..40_000).map(|at| format!("{at:05}=")).collect::<Vec<_>>().join(","),
            "256 requirements",
        ),
        (
            "treeSelect",
            (0..40_000).map(|at| format!("!{at:05}")).collect::<Vec<_>>().join(","),
            "256 namespaces",
        ),
    ];
    for (key, value, limit) in cases {
        let patch = json!({ "metadata": { "annotations": { (format!("propagate.hnc.x-k8s.io/{key}")): value[..261_000] } } });
        let (roles, params, patch) = (tessa.roles("selects"), PatchParams::default(), Patch::Merge(patch));
        let asked = Instant::now();
        let answers = join_all((0..6).map(|_| roles.patch("role", &params, &patch))).await;
        let took = asked.elapsed();
        for answer in answers {
            let status = refusal(answer);
            ensure!(
                status.code == 400 && status.message.contains(limit),
                "{} {}",
                status.code,
                status.message
            );
            ensure!(status.message.len() < 2_000, "{}", status.message);
        }
        println!("{key} of 261 kB, six times at once: 400 after {took:.1?}");
        ensure!(took < PROMPT, "{key}: {took:?}");
    }
    Ok(())
}

/// A certificate of the cluster's authority, and its key.
fn certificate(cluster: &Cluster, name: &str) -> [PathBuf; 2] {
    let directory = cluster.ca_file().with_file_name("");
    ["crt", "key"].map(|ending| directory.join(format!("{name}.{ending}")))
}

/// Whether the webhook answers this client; what went wrong, if it does not.
async fn is_answered(client: &Client) -> Result<()> {
    honest(client).await
}

#[tokio::test]
async fn with_an_authority_of_clients_only_the_api_server_is_answered() -> Result<()> {
    let (fixture, _guard) = fixture().await?;
    let user = fixture.roots("certified").await?;
    let (product, cluster) = (&fixture.product, fixture.product.cluster());
    let directory = tempfile::tempdir_in(cluster.dir())?;
    let file = directory.path().join("clients.crt");
    fs::copy(cluster.ca_file(), &file)?;
    let [port] = ports::free()?;
    let launch = Launch {
        webhook_port: Some(port),
        args: vec![
            format!("--client-ca-file={}", file.display()),
            "--client-allowed-name=kube-apiserver-webhooks".into(),
        ],
        ..Launch::default()
    };
    let webhook = product.start(Component::Webhook, launch).await?;
    let client = Client::new(product)?.at(port);
    let with = |name: &str| client.clone().with_certificate(&certificate(cluster, name));
    is_answered(&with("webhooks")?).await?;
    for (who, client) in [("no certificate", client.clone()), ("another name", with("kubelet")?)] {
        let refused = is_answered(&client).await.expect_err("a review was answered");
        println!("{who}: {refused:#}");
    }
    // Probes and metrics have ports of their own.
    ensure!(webhook.is_ready().await?);

    product.route_to(port).await?;
    let through = async || -> Result<()> {
        eventually("reviews come from the API server", Duration::from_secs(20), async || {
            moves(&user, "certified").await.map_err(|error| format!("{error:#}"))?;
            let metrics = webhook.metrics().await.map_err(|error| error.to_string())?;
            let reviews = "webhook=\"hierarchyconfigurations.hnc.x-k8s.io\"";
            if metrics.contains(reviews) { Ok(()) } else { Err("no review has arrived here".into()) }
        })
        .await
    };
    let outcome = async {
        through().await?;
        authority_changes(&file, &client, &webhook, cluster).await
    };
    let outcome = outcome.await;
    product.install_registrations().await?;
    outcome?;
    unharmed(&webhook)
}

/// The authority is replaced by another one, and then restored.
async fn authority_changes(file: &Path, client: &Client, webhook: &Replica, cluster: &Cluster) -> Result<()> {
    let known = client.clone().with_certificate(&certificate(cluster, "webhooks"))?;
    let former = fs::read(file)?;
    let patience = Duration::from_secs(10);
    fs::write(file, "no certificate")?;
    eventually("the damage is told", patience, async || {
        webhook.log().contains("the former one stays").then_some(()).ok_or("it is not in the log".to_owned())
    })
    .await?;
    is_answered(&known).await.context("a damaged file leaves the former authority")?;
    fs::copy(cluster.ca_file().with_file_name("front-proxy-ca.crt"), file)?;
    eventually("the former authority is not believed", patience, async || {
        is_answered(&known).await.err().map(drop).ok_or("it is answered".to_owned())
    })
    .await?;
    fs::write(file, former)?;
    eventually("the first authority is back", patience, async || {
        is_answered(&known).await.map_err(|error| format!("{error:#}"))
    })
    .await
}
