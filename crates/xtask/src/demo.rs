//! `cargo xtask demo`: shows the product on a real API server.
//!
//! All printed results are read from the cluster or checked; an unexpected result fails the demo.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Cluster, Command, Options, Output, Product, Steps, eventually};

use crate::cargo::{build_binaries, step};

/// The hierarchy of the demo: each namespace and its parent.
const ORGANISATION: [(&str, &str); 6] = [
    ("acme", ""),
    ("acme-dev", "acme"),
    ("acme-ops", "acme"),
    ("acme-dev-db", "acme-dev"),
    ("acme-dev-web", "acme-dev"),
    ("rival", ""),
];

/// Commands to try, and what each prints.
const COMMANDS: [(&str, &str); 5] = [
    ("kubectl get hc -A", "CHILDREN"),
    ("kubectl hns tree acme", "acme-ops"),
    ("kubectl hns set acme --parent acme-dev", "cycle"),
    ("kubectl hns plan set acme-ops --parent rival", "acme-ops"),
    ("kubectl hns tree acme -o svg > acme.svg", ""),
];

const BINDING: &str = "viewers";

pub(crate) fn run(once: bool) -> anyhow::Result<ExitCode> {
    step("building hns-webhook, hns-controller and kubectl-hns", build_binaries)?;
    tokio::runtime::Runtime::new()?.block_on(show(once))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(once: bool) -> anyhow::Result<()> {
    say(
        "Starting etcd, kube-apiserver and kube-controller-manager on loopback (those that are missing are built once)",
    );
    let cluster = Cluster::start_installed().await?;
    say(
        "Installing definitions, rights and registrations; starting both binaries under their own service accounts",
    );
    let product = Product::install(&cluster, Options::default()).await?;
    let (webhook, controller) = tokio::join!(product.start_webhook(), product.start_controller());
    let _running = (webhook?, controller?);

    let steps = Steps::of(cluster.admin());
    organisation(&steps).await?;
    binding(&steps).await?;
    refused_cycle(&cluster, &steps).await?;
    refused_theft(&cluster, &steps).await?;

    say("To look around yourself, in another shell (`set` is refused, because it asks for a cycle):");
    let programs = std::env::current_exe()?;
    let directories = [programs.parent(), cluster.kubectl_program().parent()];
    let [plugin, kubectl] = directories.map(|it| it.unwrap_or(Path::new(".")).display().to_string());
    let environment = format!(
        "export KUBECONFIG={}\nexport PATH={plugin}:{kubectl}:$PATH\n",
        cluster.kubeconfig().display()
    );
    let commands = COMMANDS.map(|(command, _)| command).join("\n");
    print(&format!("{environment}{commands}\n"));
    if once {
        return work_as_printed(&cluster, &environment).await;
    }
    say("Press Ctrl-C to stop.");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

/// Runs the commands that were printed in a directory of the cluster.
async fn work_as_printed(cluster: &Cluster, environment: &str) -> anyhow::Result<()> {
    for (command, expected) in COMMANDS {
        let script = format!("cd {}\n{environment}{command}", cluster.dir().display());
        let output = Command::new("sh", Path::new("sh"), ["-c", &script]).run().await?;
        let said = format!("{}{}", output.stdout, output.stderr);
        ensure!(said.contains(expected), "`{command}` did not print {expected:?}: {said}");
    }
    let picture = std::fs::read_to_string(cluster.dir().join("acme.svg"))?;
    ensure!(picture.contains("acme-ops"), "the picture does not show acme-ops");
    say(&format!("All {} commands work as printed.", COMMANDS.len()));
    Ok(())
}

async fn organisation(steps: &Steps) -> anyhow::Result<()> {
    say("A company, its departments, their teams: six namespaces, four of them given a parent");
    steps.plant(&ORGANISATION).await?;
    steps.labelled(&["acme-dev-web", "acme-dev", "acme"]).await?;
    // The controller creates that of a root with a short delay.
    eventually("acme has a HierarchyConfiguration", PATIENCE, async || {
        match steps.hierarchies("acme").get_opt(HIERARCHY).await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    print(&tree(steps, "acme", &BTreeMap::new()).await?);
    Ok(())
}

async fn binding(steps: &Steps) -> anyhow::Result<()> {
    say("A RoleBinding is created at the top: alice may view what is in acme. Where it arrives:");
    steps.create_binding("acme", BINDING, ("ClusterRole", "view"), "alice").await?;
    let below = ["acme-dev", "acme-ops", "acme-dev-db", "acme-dev-web"];
    steps.binding_arrives(&below, BINDING, "acme", "alice").await?;
    let mut marks = BTreeMap::from([("acme", "rolebinding/viewers".to_owned())]);
    for namespace in below {
        let copy = steps.bindings(namespace).get(BINDING).await?;
        let from = copy.metadata.labels.unwrap_or_default().remove("hnc.x-k8s.io/inherited-from");
        let from = from.context("a copy names its source")?;
        marks.insert(namespace, format!("rolebinding/viewers (inherited from {from})"));
    }
    print(&tree(steps, "acme", &marks).await?);
    ensure!(steps.bindings("rival").get_opt(BINDING).await?.is_none(), "it must not arrive outside the tree");
    Ok(())
}

async fn refused_cycle(cluster: &Cluster, steps: &Steps) -> anyhow::Result<()> {
    say("A cycle is refused, even to the cluster's administrator:");
    let output = attempt(cluster, None, "acme", "acme-dev-web").await?;
    ensure!(!output.success() && output.stderr.contains("cycle"), "the cycle was not refused");
    ensure!(parent(steps, "acme").await?.is_empty(), "acme must still be a root");
    Ok(())
}

async fn refused_theft(cluster: &Cluster, steps: &Steps) -> anyhow::Result<()> {
    say("mallory administers acme-dev-web and rival, but not acme. She tries to take acme-dev-web along:");
    for namespace in ["acme-dev-web", "rival"] {
        steps.make_admin(namespace, "mallory").await?;
    }
    let output = attempt(cluster, Some("mallory"), "acme-dev-web", "rival").await?;
    ensure!(!output.success() && output.stderr.contains("not authorized"), "the theft was not refused");
    ensure!(parent(steps, "acme-dev-web").await? == "acme-dev", "acme-dev-web must still be where it was");

    say(
        "With the consent of both sides (mallory is made admin of acme as well) the same request is allowed:",
    );
    steps.make_admin("acme", "mallory").await?;
    let output = attempt(cluster, Some("mallory"), "acme-dev-web", "rival").await?;
    ensure!(output.success(), "the move was refused");
    steps.labelled(&["acme-dev-web", "rival"]).await?;
    steps.binding_leaves(&["acme-dev-web"], BINDING).await?;
    print(&tree(steps, "acme", &BTreeMap::new()).await?);
    print(&tree(steps, "rival", &BTreeMap::new()).await?);
    Ok(())
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
    print(&format!(
        "  $ kubectl{who} patch hierarchyconfiguration {HIERARCHY} -n {child} --type=merge --patch '{patch}'\n"
    ));
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        print(&format!("  {line}\n"));
    }
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
