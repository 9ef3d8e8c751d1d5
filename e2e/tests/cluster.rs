//! The harness itself: clusters start, keep apart, and leave nothing behind; its tools see what happens. Nothing here is
//! about hns.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hns_api::names;
use hns_e2e::{
    Cluster, Exit, Fault, Options, Process, ProcessSpec, Product, Proxy, Signal, Steps, audit, eventually,
    product,
};
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhookConfiguration, WebhookClientConfig};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config};
use rustix::process::{Pid, kill_process, test_kill_process};
use rustls::server::Acceptor;
use tokio::net::TcpListener;
use tokio_rustls::LazyConfigAcceptor;

const SOON: Duration = Duration::from_secs(30);

fn runs(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn pids(cluster: &Cluster) -> [i32; 3] {
    [cluster.etcd().pid(), cluster.api_server().pid(), cluster.controller_manager().pid()]
}

async fn namespace(cluster: &Cluster, name: &str) -> Result<()> {
    cluster.kubectl().args(["create", "namespace", name]).ok().await.map(drop)
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

#[tokio::test]
async fn two_clusters_side_by_side_keep_apart_and_leave_nothing() -> Result<()> {
    let (one, other) = tokio::try_join!(Cluster::start(), Cluster::start())?;
    namespace(&one, "only-here").await?;
    let find = |cluster: &Cluster| Api::<Namespace>::all(cluster.admin());
    assert!(find(&one).get_opt("only-here").await?.is_some());
    assert!(find(&other).get_opt("only-here").await?.is_none());

    let processes = [pids(&one), pids(&other)].concat();
    let directories = [one.dir().to_owned(), other.dir().to_owned()];
    assert!(processes.iter().all(|pid| runs(*pid)));
    assert!(directories.iter().all(|directory| directory.is_dir()));
    drop(one);
    assert!(find(&other).get_opt("default").await?.is_some(), "the other goes on");
    drop(other);
    assert!(!processes.iter().any(|pid| runs(*pid)));
    assert!(!directories.iter().any(|directory| directory.exists()));
    Ok(())
}

/// What `hns-cluster` prints: the pids of its programs and its directory.
fn started(output: impl BufRead) -> Result<(Vec<i32>, PathBuf)> {
    let mut pids = Vec::new();
    let mut directory = None;
    for line in output.lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["pid", pid, ..] => pids.push(pid.parse()?),
            ["dir", path] => directory = Some(PathBuf::from(path)),
            ["export", ..] => break,
            _ => {}
        }
    }
    Ok((pids, directory.context("hns-cluster names no directory")?))
}

#[tokio::test]
async fn a_starter_that_is_killed_or_interrupted_leaves_nothing() -> Result<()> {
    for signal in [Signal::KILL, Signal::INT] {
        let mut starter = Command::new(env!("CARGO_BIN_EXE_hns-cluster")).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(starter.stdout.take().context("no output")?);
        let (pids, directory) = tokio::task::spawn_blocking(|| started(output)).await??;
        ensure!(pids.len() == 3 && pids.iter().all(|pid| runs(*pid)), "{pids:?}");
        ensure!(directory.join("etcd").is_dir());

        kill_process(Pid::from_child(&starter), signal)?;
        tokio::task::spawn_blocking(move || starter.wait()).await??;
        eventually("nothing is left", SOON, async || {
            let left: Vec<_> = pids.iter().filter(|pid| runs(**pid)).collect();
            if left.is_empty() && !directory.exists() { Ok(()) } else { Err(format!("{signal:?}: {left:?}")) }
        })
        .await?;
    }
    Ok(())
}

fn shell(directory: &Path, script: &str) -> Result<Process> {
    Process::spawn(ProcessSpec {
        name: "script".into(),
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("GREETING".into(), "hello".into())],
        directory: directory.to_owned(),
        log: directory.join("script.log"),
        grace: Duration::from_secs(5),
    })
}

#[tokio::test]
async fn a_process_has_a_log_an_exit_status_and_an_end() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let process = shell(directory.path(), "echo $GREETING; echo complaint >&2; exit 3")?;
    assert_eq!(process.wait_exit(SOON).await?, Exit::Code(3));
    assert_eq!(process.log(), "hello\ncomplaint\n");
    process.signal(Signal::TERM).context("a signal to an ended process is no error")?;

    let process = shell(directory.path(), "exec sleep 1000")?;
    assert!(process.wait_exit(Duration::from_millis(100)).await.is_err());
    process.signal(Signal::KILL)?;
    assert_eq!(process.wait_exit(SOON).await?, Exit::Signal(9));

    // SIGTERM does not reach a stopped process before it is continued.
    let process =
        shell(directory.path(), "trap 'echo ends; exit 0' TERM; echo runs; while :; do sleep 0.05; done")?;
    eventually("the trap is set", SOON, async || {
        process.log().ends_with("runs\n").then_some(()).ok_or(process.log())
    })
    .await?;
    process.signal(Signal::STOP)?;
    let pid = process.pid();
    process.stop();
    assert!(!runs(pid));
    assert_eq!(process.wait_exit(SOON).await?, Exit::Code(0));
    assert!(process.log().ends_with("ends\n"), "{}", process.log());
    Ok(())
}

#[tokio::test]
async fn a_user_is_refused_until_a_role_binding_allows() -> Result<()> {
    let cluster = Cluster::shared().await;
    namespace(cluster, "users").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client_as("alice", &["team"]), "users");
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert_eq!(code(&refused), 403, "{refused}");
    let get = || cluster.kubectl().as_user("alice", &["team"]).args(["-n", "users", "get", "configmaps"]);
    let output = get().run().await?;
    assert!(!output.success() && output.stderr.contains(r#"User "alice" cannot list"#), "{output}");
    let error = get().ok().await.unwrap_err().to_string();
    assert!(error.contains("get configmaps") && error.contains("Forbidden"), "{error}");

    let binding = ["create", "rolebinding", "readers", "-n", "users", "--clusterrole=view", "--group=team"];
    cluster.kubectl().args(binding).ok().await?;
    eventually("alice may list", SOON, async || {
        maps.list(&ListParams::default()).await.map_err(|error| error.to_string())
    })
    .await?;
    assert!(get().ok().await?.contains("kube-root-ca.crt"));
    Ok(())
}

#[tokio::test]
async fn the_audit_log_counts_writes_by_user() -> Result<()> {
    let cluster = Cluster::shared().await;
    namespace(cluster, "audited").await?;
    let users = ["audited-bob", "audited-eve"];
    for user in users {
        let binding = ["create", "rolebinding", user, "-n", "audited", "--clusterrole=edit", "--user", user];
        cluster.kubectl().args(binding).ok().await?;
    }
    let of = |user| Api::<ConfigMap>::namespaced(cluster.client_as(user, &[]), "audited");
    let (bob, eve) = (of(users[0]), of(users[1]));
    eventually("bob may write", SOON, async || {
        bob.create(&PostParams::default(), &config_map("before")).await.map_err(|error| error.to_string())
    })
    .await?;

    let mark = cluster.audit().mark()?;
    for name in ["one", "two"] {
        bob.create(&PostParams::default(), &config_map(name)).await?;
    }
    bob.get("one").await?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    bob.create(&dry_run, &config_map("three")).await?;
    eve.delete("one", &kube::api::DeleteParams::default()).await?;
    let twice = bob.create(&PostParams::default(), &config_map("two")).await.unwrap_err();
    assert_eq!(code(&twice), 409);

    let seen = cluster.audit().mutating_by(users[0], mark)?;
    let seen: Vec<_> =
        seen.iter().map(|event| (event.verb.as_str(), event.name.as_str(), event.code)).collect();
    assert_eq!(seen, [("create", "one", 201), ("create", "two", 201), ("create", "two", 409)]);
    let events = cluster.audit().since(mark)?;
    let counts = audit::counts(&events);
    let count = |user: &str| counts.get(&(user.to_owned(), "configmaps".to_owned())).copied();
    assert_eq!((count(users[0]), count(users[1])), (Some(4), Some(1)), "the dry run is a write by verb");
    assert!(events.iter().all(|event| event.verb != "get"));
    Ok(())
}

/// A client with a token of its own that reaches the API server through the proxy, and the namespace it may edit.
async fn client_through(proxy: &Proxy, cluster: &Cluster, name: &str) -> Result<Api<ConfigMap>> {
    namespace(cluster, name).await?;
    let account = format!("--serviceaccount={name}:default");
    let binding = ["create", "rolebinding", "editors", "-n", name, "--clusterrole=edit", &account];
    cluster.kubectl().args(binding).ok().await?;
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(cluster.admin(), name);
    eventually("the service account", SOON, async || match accounts.get_opt("default").await {
        Ok(Some(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;
    let token = cluster.kubectl().args(["create", "token", "default", "-n", name]).ok().await?;
    let file = cluster.dir().join(format!("{name}.token"));
    std::fs::write(&file, token.trim())?;
    let mut config = Config::new(proxy.url().parse()?);
    config.auth_info.token_file = Some(file.display().to_string());
    config.default_retry = false;
    let maps = Api::namespaced(Client::try_from(config)?, name);
    eventually("the binding works", SOON, async || {
        maps.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    Ok(maps)
}

#[tokio::test]
async fn the_proxy_stops_after_the_planned_write() -> Result<()> {
    let cluster = Cluster::shared().await;
    let proxy = Proxy::start(cluster)?;
    let maps = client_through(&proxy, cluster, "proxied").await?;
    let create = async |name: &str| maps.create(&PostParams::default(), &config_map(name)).await;
    create("free").await?;
    assert_eq!(proxy.writes(), 1);

    let seen_by_hook = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&seen_by_hook);
    proxy.stop_after(3, move || {
        told.fetch_add(1, Ordering::SeqCst);
    });
    // All at once: no more than the planned number may arrive, in any order.
    let names = ["a", "b", "c", "d", "e", "f"];
    let outcomes = futures::future::join_all(names.map(&create)).await;
    let passed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(passed < 3, "the answer to the last write is lost, and others may be: {passed}");
    assert!(proxy.stopped());
    assert_eq!(seen_by_hook.load(Ordering::SeqCst), 1);
    assert!(maps.list(&ListParams::default()).await.is_err(), "everything is refused");

    let direct: Api<ConfigMap> = Api::namespaced(cluster.admin(), "proxied");
    let mut there: Vec<_> = direct.list(&ListParams::default()).await?.items;
    there.retain(|map| names.contains(&map.metadata.name.as_deref().unwrap_or_default()));
    assert_eq!(there.len(), 3, "exactly three writes took effect");

    proxy.reset();
    create("again").await?;
    proxy.stop_after(0, || {});
    assert!(create("never").await.is_err());
    assert!(proxy.stopped() && direct.get_opt("never").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn the_proxy_streams_watches_and_makes_faults() -> Result<()> {
    use futures::StreamExt;
    let cluster = Cluster::shared().await;
    let proxy = Proxy::start(cluster)?;
    let maps = client_through(&proxy, cluster, "faulty").await?;
    let mut events = maps.watch(&kube::api::WatchParams::default(), "0").await?.boxed();
    maps.create(&PostParams::default(), &config_map("watched")).await?;
    let seen = tokio::time::timeout(SOON, async {
        while let Some(event) = events.next().await {
            if matches!(&event, Ok(kube::api::WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("watched"))
            {
                return true;
            }
        }
        false
    });
    assert!(seen.await?, "the event arrives while the watch goes on");
    proxy.cut();
    let ended = tokio::time::timeout(SOON, async { while let Some(Ok(_)) = events.next().await {} });
    ended.await.context("the watch ends when connections are cut")?;
    // A request may still be sent on a connection that was kept open and has just been cut.
    eventually("new connections are served", SOON, async || {
        maps.get("watched").await.map_err(|error| error.to_string())
    })
    .await?;

    let answer = async |fault: Fault| {
        proxy.set_rule(move |parts| (parts.method == http::Method::GET).then(|| fault.clone()));
        maps.get("watched").await
    };
    assert_eq!(code(&answer(Fault::Answer(503)).await.unwrap_err()), 503);
    assert_eq!(code(&answer(Fault::RetryAfter(1)).await.unwrap_err()), 429);
    assert_eq!(code(&answer(Fault::Cut).await.unwrap_err()), 0);
    answer(Fault::Delay(Duration::from_millis(10))).await?;
    proxy.set_rule(|parts| (parts.method == http::Method::POST).then_some(Fault::LoseAnswer));
    assert!(maps.create(&PostParams::default(), &config_map("unheard")).await.is_err());
    proxy.reset();
    maps.get("unheard").await.context("the write whose answer was lost took effect")?;
    Ok(())
}

#[tokio::test]
async fn programs_restart_with_the_same_data() -> Result<()> {
    let cluster = Cluster::start().await?;
    namespace(&cluster, "kept").await?;
    let (before, url) = (pids(&cluster), cluster.url());
    cluster.restart_api_server().await?;
    cluster.restart_etcd().await?;
    cluster.restart_controller_manager()?;
    assert!(before.iter().all(|pid| !runs(*pid)));
    assert_eq!(cluster.url(), url);
    assert!(Api::<Namespace>::all(cluster.admin()).get_opt("kept").await?.is_some());
    // The controllers work again: they make a service account for every namespace.
    namespace(&cluster, "later").await?;
    let accounts = ["get", "serviceaccount", "default", "-n", "later"];
    eventually("controllers act", SOON, async || {
        cluster.kubectl().args(accounts).ok().await.map_err(|error| error.to_string())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_manifests_are_installed_and_registrations_name_the_service() -> Result<()> {
    let cluster = Cluster::start().await?;
    let product = Product::install(&cluster, Options::default()).await?;
    let crds = cluster.kubectl().args(["get", "crd", "-o", "name"]).ok().await?;
    assert!(crds.contains("/hierarchyconfigurations.hnc.x-k8s.io"), "{crds}");
    let namespace =
        cluster.kubectl().args(["get", "namespace", product::NAMESPACE, "-o", "yaml"]).ok().await?;
    assert!(namespace.contains(r#"hnc.x-k8s.io/excluded-namespace: "true""#), "{namespace}");

    let name = "hnc-validating-webhook-configuration";
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(cluster.admin());
    let clients = async || -> Result<Vec<_>> {
        let configuration = configurations.get(name).await?;
        Ok(configuration.webhooks.into_iter().flatten().map(|webhook| webhook.client_config).collect())
    };
    let check = |clients: Vec<WebhookClientConfig>, port: u16| {
        assert!(!clients.is_empty());
        for client in clients {
            let service = client.service.map(|it| (it.namespace, it.name, it.port));
            let expected =
                (product::NAMESPACE.to_owned(), names::WEBHOOK_SERVICE.to_owned(), Some(i32::from(port)));
            assert_eq!(service, Some(expected));
            assert_eq!(client.ca_bundle.unwrap_or_default().0, product.ca_pem().as_bytes());
        }
    };
    check(clients().await?, product.webhook_port());
    product.route_to(4711).await?;
    check(clients().await?, 4711);
    product.uninstall_registrations().await?;
    assert!(configurations.get_opt(name).await?.is_none());
    product.install_registrations().await?;
    check(clients().await?, product.webhook_port());
    Ok(())
}

/// The API server offers HTTP/2 only to a webhook whose URL names loopback, and in production there is none.
#[tokio::test]
async fn webhooks_are_called_over_http1_as_in_production() -> Result<()> {
    let cluster = Cluster::start().await?;
    let product = Product::install(&cluster, Options::default()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    product.route_to(listener.local_addr()?.port()).await?;
    let offered = async {
        let (stream, _) = listener.accept().await?;
        let handshake = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let hello = handshake.client_hello();
        let protocols = hello.alpn().into_iter().flatten();
        Ok::<_, anyhow::Error>(
            protocols.map(|it| String::from_utf8_lossy(it).into_owned()).collect::<Vec<_>>(),
        )
    };
    let steps = Steps::of(cluster.admin());
    let asking = async {
        loop {
            // Refused: the other side closes the connection, or the API server does not know its address yet.
            let _ = steps.set_parent("default", "kube-public").await;
        }
    };
    let offered = async {
        tokio::select! { offered = offered => offered, never = asking => never }
    };
    assert_eq!(tokio::time::timeout(SOON, offered).await??, ["http/1.1"]);
    Ok(())
}
