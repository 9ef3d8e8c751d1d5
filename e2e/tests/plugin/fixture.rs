//! The plugin as a process, and two clusters for it: one with hns running, one with only the definitions and settings, whose status
//! the tests write.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use hns_api::names::{DEFAULT_NAMESPACE, SETTINGS_CONFIG_MAP};
use hns_cluster::settings::DOCUMENT;
use hns_e2e::{Cluster, Options, Product, Replica, Steps};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::OnceCell;

/// The result of a run of the plugin.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    fn of(output: std::process::Output) -> Result<Self> {
        Ok(Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// It succeeded with exactly this output and no errors.
    #[track_caller]
    pub(crate) fn says(&self, wanted: &str) {
        assert_eq!((self.code, &*self.stdout, &*self.stderr), (Some(0), wanted, ""));
    }

    /// It failed, with no standard output and this beginning of standard error.
    #[track_caller]
    pub(crate) fn fails(&self, wanted: &str) {
        assert_eq!((self.code, &*self.stdout), (Some(1), ""), "{self:?}");
        assert!(self.stderr.starts_with(wanted), "{self:?}");
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs the plugin with words separated by blanks, in an environment without a kubeconfig.
pub(crate) async fn plugin(words: &str, variables: &[(&str, &str)]) -> Result<Output> {
    run(words, variables, Stdio::null()).await
}

/// The same with `answer` typed at a terminal.
pub(crate) async fn at_terminal(words: &str, answer: &str) -> Result<Output> {
    let (mut typist, terminal) = pseudoterminal()?;
    typist.write_all(format!("{answer}\n").as_bytes())?;
    run(words, &[], terminal.into()).await
}

/// Runs the plugin, and agrees to what it asks when `meanwhile` has ended, which begins with the question.
pub(crate) async fn agreed(words: &str, meanwhile: impl Future<Output = ()>) -> Result<Output> {
    let (mut typist, terminal) = pseudoterminal()?;
    let mut command = command(words)?;
    let mut child = command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut stderr, mut asked) = (child.stderr.take().context("stderr")?, Vec::new());
    while !asked.ends_with(b"[y/N] ") {
        ensure!(stderr.read_buf(&mut asked).await? > 0, "no question: {}", String::from_utf8_lossy(&asked));
    }
    meanwhile.await;
    typist.write_all(b"y\n")?;
    stderr.read_to_end(&mut asked).await?;
    Output::of(std::process::Output { stderr: asked, ..child.wait_with_output().await? })
}

/// Where one types, and the terminal that a program sees.
fn pseudoterminal() -> Result<(File, File)> {
    let typist = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?);
    grantpt(&typist)?;
    unlockpt(&typist)?;
    let path = ptsname(&typist, Vec::new())?;
    let terminal = File::options().read(true).write(true).open(path.to_str()?)?;
    Ok((typist, terminal))
}

/// Runs the plugin under its other name, with this kubeconfig.
pub(crate) async fn accurate(kubeconfig: &Path, words: &str) -> Result<Output> {
    let mut command = command(&format!("{words} --kubeconfig {}", kubeconfig.display()))?;
    command.arg0("/usr/bin/kubectl-accurate");
    output_of(command).await
}

/// A command of the plugin, in an environment without a kubeconfig.
fn command(words: &str) -> Result<Command> {
    // Tests are beside the binaries, one directory down.
    let program = std::env::current_exe()?.with_file_name("../kubectl-hns");
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

async fn run(words: &str, variables: &[(&str, &str)], stdin: Stdio) -> Result<Output> {
    let mut command = command(words)?;
    command.envs(variables.iter().copied()).stdin(stdin);
    output_of(command).await
}

async fn output_of(mut command: Command) -> Result<Output> {
    Output::of(command.output().await.context("kubectl-hns: build it first")?)
}

/// A cluster and its administrator.
pub(crate) struct Fixture {
    pub(crate) cluster: &'static Cluster,
    kubeconfig: PathBuf,
    /// They run until the end.
    pub(crate) replicas: Vec<Replica>,
}

impl Fixture {
    /// Runs the plugin as the administrator.
    pub(crate) async fn hns(&self, words: &str) -> Output {
        let words = format!("--kubeconfig {} {words}", self.kubeconfig.display());
        plugin(&words, &[]).await.unwrap()
    }

    /// Creates a quota that leaves no room for objects of `counted`, such as `count/RESOURCE`. The control plane looks for new kinds every
    /// half minute, so the status is written here.
    pub(crate) async fn apply_full_quota(&self, namespace: &str, name: &str, counted: &str) {
        let none = json!({ counted: "0" });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": name, "namespace": namespace },
            "spec": { "hard": none },
        });
        self.apply(&[quota]).await;
        let status = json!({ "status": { "hard": none, "used": none } }).to_string();
        let patch =
            ["patch", "quota", name, "--subresource=status", "--type=merge", "-n", namespace, "-p", &status];
        self.cluster.kubectl().args(patch).ok().await.unwrap();
    }

    /// Runs `kubectl accurate` as the administrator.
    pub(crate) async fn accurate(&self, words: &str) -> Output {
        accurate(&self.kubeconfig, words).await.unwrap()
    }

    /// Runs `kubectl hns`, with `answer` typed at a terminal.
    pub(crate) async fn asked(&self, words: &str, answer: &str) -> Output {
        let words = format!("--kubeconfig {} {words}", self.kubeconfig.display());
        at_terminal(&words, answer).await.unwrap()
    }

    /// Starts the plugin; its standard output can be read line by line.
    pub(crate) fn started(&self, words: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
        let words = format!("--kubeconfig {} {words}", self.kubeconfig.display());
        let mut child = command(&words).unwrap().stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }

    pub(crate) fn steps(&self) -> Steps {
        Steps::of(self.cluster.admin())
    }

    /// Applies objects, including their status: these kinds have no status subresource.
    pub(crate) async fn apply(&self, objects: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let apply = self.cluster.kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
        apply.stdin(list.to_string()).ok().await.unwrap();
    }
}

/// hns at work.
pub(crate) async fn live() -> &'static Fixture {
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    let start = async || start(Cluster::shared().await).await;
    WORLD.get_or_try_init(start).await.expect("the product starts")
}

/// hns at work on this cluster.
pub(crate) async fn start(cluster: &'static Cluster) -> Result<Fixture> {
    start_with(cluster, Options::default()).await
}

/// The same with these options.
pub(crate) async fn start_with(cluster: &'static Cluster, options: Options) -> Result<Fixture> {
    let product = Product::install(cluster, options).await?;
    let (webhook, controller) = tokio::try_join!(product.start_webhook(), product.start_controller())?;
    // The replicas' certificates are in the product's directory, which goes with the cluster.
    Ok(Fixture { cluster, kubeconfig: cluster.kubeconfig(), replicas: vec![webhook, controller] })
}

/// The definitions, and settings that everybody may read, as a controller that has ended leaves them.
pub(crate) async fn still() -> &'static Fixture {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<Fixture> = OnceCell::const_new();
    let start = async || {
        let cluster = CLUSTER.get_or_try_init(Cluster::start).await?;
        let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/crd");
        let definitions = definitions.to_str().context("a path that is no text")?;
        let kubectl = || cluster.kubectl();
        kubectl().args(["apply", "--server-side", "-f", definitions]).ok().await?;
        let said = kubectl().established(["-f", definitions]).await?;
        ensure!(said.contains("condition met"), "{said}");
        let fixture = Fixture { cluster, kubeconfig: cluster.kubeconfig(), replicas: Vec::new() };
        fixture.apply(&settings()).await;
        anyhow::Ok(fixture)
    };
    WORLD.get_or_try_init(start).await.expect("a cluster with the definitions starts")
}

/// The settings in force, and the right to read them.
fn settings() -> [Value; 4] {
    let (name, namespace, group) = (SETTINGS_CONFIG_MAP, DEFAULT_NAMESPACE, "rbac.authorization.k8s.io");
    let api = format!("{group}/v1");
    let metadata = json!({ "name": name, "namespace": namespace });
    let document = "{version: v1, hierarchicalQuotas: {enabled: true}}";
    [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { DOCUMENT: document } }),
        json!({
            "apiVersion": api, "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"] }],
        }),
        json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": "Role", "name": name },
            "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:authenticated" }],
        }),
    ]
}

/// A namespace, marked as a subnamespace of `of` unless that is empty.
pub(crate) fn namespace(name: &str, of: &str) -> Value {
    let mut metadata = json!({ "name": name });
    if !of.is_empty() {
        metadata["annotations"] = json!({ "hnc.x-k8s.io/subnamespace-of": of });
    }
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

/// A `HierarchyConfiguration` with children and conditions (type, reason, message).
pub(crate) fn hierarchy(
    namespace: &str,
    parent: &str,
    children: &[&str],
    conditions: &[(&str, &str, &str)],
) -> Value {
    let conditions = conditions.iter().map(|(type_, reason, message)| {
        json!({
            "type": type_, "reason": reason, "message": message, "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    });
    let spec = if parent.is_empty() { json!({}) } else { json!({ "parent": parent }) };
    json!({
        "apiVersion": hns_api::API_VERSION,
        "kind": "HierarchyConfiguration",
        "metadata": { "name": "hierarchy", "namespace": namespace },
        "spec": spec,
        "status": { "children": children, "conditions": conditions.collect::<Vec<_>>() },
    })
}

/// An anchor in that state.
pub(crate) fn anchor(parent: &str, child: &str, state: &str) -> Value {
    json!({
        "apiVersion": hns_api::API_VERSION,
        "kind": "SubnamespaceAnchor",
        "metadata": { "name": child, "namespace": parent },
        "status": { "status": state },
    })
}
