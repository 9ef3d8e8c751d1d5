//! `cargo xtask demo`: shows the product on a real API server.
//!
//! All printed results are read from the cluster or checked; an unexpected result fails the demo.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hns_cluster::settings::FailurePolicy;
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Cluster, Command, NAMESPACE, Options, Output, Product, Replica, Steps, eventually};

use crate::cargo::{build_binaries, step};

/// The settings, as in the manifests.
const SETTINGS: &str = "version: v1\nexcludedNamespaces: [kube-system, kube-public, kube-node-lease]\n";

/// The hierarchy of the demo: each namespace and its parent.
const ORGANISATION: [(&str, &str); 6] = [
    ("globex", ""),
    ("globex-dev", "globex"),
    ("globex-ops", "globex"),
    ("globex-dev-db", "globex-dev"),
    ("globex-dev-web", "globex-dev"),
    ("rival", ""),
];

/// Commands to try, and what each prints.
const COMMANDS: [(&str, &str); 6] = [
    ("kubectl get hc -A", "CHILDREN"),
    ("kubectl hns tree globex", "globex-ops"),
    ("kubectl hns set globex --parent globex-dev", "cycle"),
    ("kubectl hns plan set globex-ops --parent rival", "globex-ops"),
    ("kubectl hns tree globex -o svg > /tmp/globex.svg", ""),
    ("kubectl hns doctor", "ok     webhook: answers"),
];

const BINDING: &str = "viewers";

/// The lines of a program's log that are shown when it has ended.
const LOG: usize = 5;
/// How often the demo looks whether a program has ended.
const LOOK: Duration = Duration::from_secs(1);

/// The limit of the demo, and a command that shows how much of it is used.
const QUOTA: &str = "apiVersion: hnc.x-k8s.io/v1alpha2
kind: HierarchicalResourceQuota
metadata: {name: together, namespace: globex}
spec: {hard: {services: 2}}
";
const SHOW_QUOTA: (&str, &str) = ("kubectl hns hrq --tree -n globex", "services");

pub(crate) fn run(once: bool, quotas: bool) -> anyhow::Result<ExitCode> {
    step("building hns-webhook, hns-controller and kubectl-hns", build_binaries)?;
    tokio::runtime::Runtime::new()?.block_on(show(once, quotas))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(once: bool, quotas: bool) -> anyhow::Result<()> {
    say(
        "Starting etcd, kube-apiserver and kube-controller-manager on loopback (those that are missing are built once)",
    );
    let cluster = Cluster::start_installed().await?;
    say(
        "Installing definitions, rights and registrations; starting both binaries under their own service accounts",
    );
    let options = if quotas { Options::with_quotas(FailurePolicy::Ignore) } else { Options::default() };
    let product = Product::install(&cluster, options).await?;
    let settings = format!("--from-literal=settings.yaml={SETTINGS}");
    let create = ["create", "configmap", "hns-config", "--namespace", NAMESPACE, &settings];
    cluster.kubectl().args(create).ok().await?;
    let (webhook, controller) = tokio::join!(product.start_webhook(), product.start_controller());
    let running = [webhook?, controller?];

    let steps = Steps::of(cluster.admin());
    organisation(&steps).await?;
    binding(&steps).await?;
    refused_cycle(&cluster, &steps).await?;
    refused_theft(&cluster, &steps).await?;
    let mut to_try = COMMANDS.to_vec();
    if quotas {
        quota(&cluster).await?;
        to_try.push(SHOW_QUOTA);
    }

    say("To look around yourself, in another shell (`set` is refused, because it asks for a cycle):");
    let programs = std::env::current_exe()?;
    let directories = [programs.parent(), cluster.kubectl_program().parent()];
    let [plugin, kubectl] = directories.map(|it| it.unwrap_or(Path::new(".")).display().to_string());
    let environment = format!(
        "export KUBECONFIG={}\nexport PATH={plugin}:{kubectl}:$PATH\n",
        cluster.kubeconfig().display()
    );
    let commands = to_try.iter().map(|(command, _)| *command).collect::<Vec<_>>().join("\n");
    print(&format!("{environment}{commands}\n"));
    say("The commands of README.md under \"Use\" work here as well, with this plugin.");
    if once {
        return work_as_printed(&cluster, &environment, &to_try).await;
    }
    say("Press Ctrl-C to stop.");
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        ended = ended(&running) => bail!(ended),
    }
}

/// Waits until one of the programs has ended.
async fn ended(running: &[Replica]) -> String {
    loop {
        for process in running.iter().map(Replica::process) {
            if let Some(exit) = process.exit() {
                return format!("{} has ended with {exit}:\n{}", process.spec().name, process.log_tail(LOG));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Runs the commands that were printed in a directory of the cluster.
async fn work_as_printed(
    cluster: &Cluster,
    environment: &str,
    commands: &[(&str, &str)],
) -> anyhow::Result<()> {
    for (command, expected) in commands {
        let script = format!("cd {}\n{environment}{command}", cluster.dir().display());
        let output = Command::new("sh", Path::new("sh"), ["-c", &script]).run().await?;
        let said = format!("{}{}", output.stdout, output.stderr);
        let is_well = said.contains(*expected) && !said.contains("WRONG");
        ensure!(is_well, "`{command}` did not print {expected:?}: {said}");
    }
    let picture = std::fs::read_to_string("/tmp/globex.svg")?;
    ensure!(picture.contains("globex-ops"), "the picture does not show globex-ops");
    say(&format!("All {} commands work as printed.", commands.len()));
    Ok(())
}

async fn organisation(steps: &Steps) -> anyhow::Result<()> {
    say("A company, its departments, their teams: six namespaces, four of them given a parent");
    steps.plant(&ORGANISATION).await?;
    steps.labelled(&["globex-dev-web", "globex-dev", "globex"]).await?;
    // The controller creates that of a root with a short delay.
    eventually("globex has a HierarchyConfiguration", PATIENCE, async || {
        match steps.hierarchies("globex").get_opt(HIERARCHY).await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    print(&tree(steps, "globex", &BTreeMap::new()).await?);
    Ok(())
}

async fn binding(steps: &Steps) -> anyhow::Result<()> {
    say("A RoleBinding is created at the top: alice may view what is in globex. Where it arrives:");
    steps.create_binding("globex", BINDING, ("ClusterRole", "view"), "alice").await?;
    let below = ["globex-dev", "globex-ops", "globex-dev-db", "globex-dev-web"];
    steps.binding_arrives(&below, BINDING, "globex", "alice").await?;
    let mut marks = BTreeMap::from([("globex", "rolebinding/viewers".to_owned())]);
    for namespace in below {
        let copy = steps.bindings(namespace).get(BINDING).await?;
        let from = copy.metadata.labels.unwrap_or_default().remove("hnc.x-k8s.io/inherited-from");
        let from = from.context("a copy names its source")?;
        marks.insert(namespace, format!("rolebinding/viewers (inherited from {from})"));
    }
    print(&tree(steps, "globex", &marks).await?);
    ensure!(steps.bindings("rival").get_opt(BINDING).await?.is_none(), "it must not arrive outside the tree");
    Ok(())
}

async fn refused_cycle(cluster: &Cluster, steps: &Steps) -> anyhow::Result<()> {
    say("A cycle is refused, even to the cluster's administrator:");
    let output = attempt(cluster, None, "globex", "globex-dev-web").await?;
    ensure!(!output.success() && output.stderr.contains("cycle"), "the cycle was not refused");
    ensure!(parent(steps, "globex").await?.is_empty(), "globex must still be a root");
    Ok(())
}

async fn refused_theft(cluster: &Cluster, steps: &Steps) -> anyhow::Result<()> {
    say(
        "mallory administers globex-dev-web and rival, but not globex. She tries to take globex-dev-web along:",
    );
    for namespace in ["globex-dev-web", "rival"] {
        steps.make_admin(namespace, "mallory").await?;
    }
    let output = attempt(cluster, Some("mallory"), "globex-dev-web", "rival").await?;
    ensure!(!output.success() && output.stderr.contains("not authorized"), "the theft was not refused");
    ensure!(
        parent(steps, "globex-dev-web").await? == "globex-dev",
        "globex-dev-web must still be where it was"
    );

    say(
        "With the consent of both sides (mallory is made admin of globex as well) the same request is allowed:",
    );
    steps.make_admin("globex", "mallory").await?;
    let output = attempt(cluster, Some("mallory"), "globex-dev-web", "rival").await?;
    ensure!(output.success(), "the move was refused");
    steps.labelled(&["globex-dev-web", "rival"]).await?;
    steps.binding_leaves(&["globex-dev-web"], BINDING).await?;
    print(&tree(steps, "globex", &BTreeMap::new()).await?);
    print(&tree(steps, "rival", &BTreeMap::new()).await?);
    Ok(())
}

async fn quota(cluster: &Cluster) -> anyhow::Result<()> {
    say("A hierarchical quota: globex and all namespaces below it may have two Services together.");
    cluster.kubectl().args(["apply", "-f", "-"]).stdin(QUOTA).ok().await?;
    let wait = ["wait", "hrq/together", "-n", "globex", "--for=condition=Enforced"];
    cluster.kubectl().args(wait).ok().await?;
    for (namespace, is_allowed) in [("globex", true), ("globex-ops", true), ("globex-dev", false)] {
        let create =
            ["create", "service", "externalname", "demo", "--external-name=example.com", "-n", namespace];
        let output = cluster.kubectl().args(create).run().await?;
        print_run(&format!("kubectl {}", create.join(" ")), &output);
        let is_right = output.success() == is_allowed
            && (is_allowed || output.stderr.contains("exceeded hierarchical quota"));
        ensure!(is_right, "a Service in {namespace}: {output}");
    }
    Ok(())
}

fn print_run(command: &str, output: &Output) {
    print(&format!("  $ {command}\n"));
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        print(&format!("  {line}\n"));
    }
}

/// Sets a parent with kubectl, and prints the command and the API server's answer.
async fn attempt(cluster: &Cluster, user: Option<&str>, child: &str, parent: &str) -> anyhow::Result<Output> {
    let patch = format!(r#"{{"spec":{{"parent":"{parent}"}}}}"#);
    let kubectl = match user {
        Some(user) => cluster.kubectl().as_user(user, &[]),
        None => cluster.kubectl(),
    };
    let arguments = [
        "patch",
        "hierarchyconfiguration",
        HIERARCHY,
        "-n",
        child,
        "--type=merge",
        "--patch",
        patch.as_str(),
    ];
    let output = kubectl.args(arguments).run().await?;
    let who = user.map(|user| format!(" --as {user}")).unwrap_or_default();
    let command = format!(
        "kubectl{who} patch hierarchyconfiguration {HIERARCHY} -n {child} --type=merge --patch '{patch}'"
    );
    print_run(&command, &output);
    Ok(output)
}

async fn parent(steps: &Steps, namespace: &str) -> anyhow::Result<String> {
    let hierarchy = steps.hierarchies(namespace).get_opt(HIERARCHY).await?;
    Ok(hierarchy.and_then(|it| it.spec.parent).unwrap_or_default())
}

/// The tree below `root`, from the parents that are configured, with remarks on some names.
async fn tree(steps: &Steps, root: &str, marks: &BTreeMap<&str, String>) -> anyhow::Result<String> {
    let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (namespace, _) in ORGANISATION {
        children.entry(parent(steps, namespace).await?).or_default().push(namespace.to_owned());
    }
    let mut text = String::new();
    // The lines that are not printed yet, the next one last: indentation, branch and name.
    let mut open = vec![("  ".to_owned(), "", root.to_owned())];
    while let Some((indent, branch, name)) = open.pop() {
        let mark = marks.get(name.as_str()).map(|mark| format!("    {mark}")).unwrap_or_default();
        text.extend([&indent, branch, &name, &mark, "\n"]);
        let below = match branch {
            "" => indent,
            "└── " => indent + "    ",
            _ => indent + "│   ",
        };
        let children = children.remove(&name).unwrap_or_default();
        let last = children.len();
        for (index, child) in children.into_iter().enumerate().rev() {
            open.push((below.clone(), if index + 1 == last { "└── " } else { "├── " }, child));
        }
    }
    Ok(text)
}

fn say(what: &str) {
    print(&format!("\n{what}\n"));
}

#[expect(clippy::print_stdout, reason = "a demo prints")]
fn print(text: &str) {
    print!("{text}");
}
