//! `cargo xtask demo`: shows the product on a real API server.
//!
//! All printed results are read from the cluster or checked; an unexpected result fails the demo.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use hns_e2e::steps::{HIERARCHY, PATIENCE};
use hns_e2e::{Cluster, Options, Output, Product, Steps, eventually};

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

const BINDING: &str = "viewers";

pub(crate) fn run(once: bool) -> anyhow::Result<ExitCode> {
    step("building hns-webhook and hns-controller", build_binaries)?;
    tokio::runtime::Runtime::new()?.block_on(show(once))?;
    Ok(ExitCode::SUCCESS)
}

async fn show(once: bool) -> anyhow::Result<()> {
    say(
        "Starting etcd, kube-apiserver and kube-controller-manager on loopback (the first time, they are built)",
    );
    let cluster = Cluster::start().await?;
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

    say("To look around yourself:");
    print(&format!("  export KUBECONFIG={}\n", cluster.kubeconfig().display()));
    print("  kubectl get hierarchyconfigurations -A\n");
    if !once {
        say("Press Ctrl-C to stop.");
        tokio::signal::ctrl_c().await?;
    }
    Ok(())
}

async fn organisation(steps: &Steps) -> anyhow::Result<()> {
    say("A company, its departments, their teams: six namespaces, four of them given a parent");
    steps.plant(&ORGANISATION).await?;
    steps.labelled(&["acme-dev-web", "acme-dev", "acme"]).await?;
    for (namespace, parent) in ORGANISATION.into_iter().filter(|(_, parent)| !parent.is_empty()) {
        // The controller writes the list of children with a short delay.
        eventually(&format!("{parent} lists {namespace}"), PATIENCE, async || {
            let found =
                steps.hierarchies(parent).get_opt(HIERARCHY).await.map_err(|error| error.to_string())?;
            let children = found.and_then(|found| found.status).unwrap_or_default().children;
            if children.iter().any(|child| child == namespace) {
                Ok(())
            } else {
                Err(format!("{children:?}"))
            }
        })
        .await?;
    }
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

/// The tree below `root` from the controller's status, with remarks on some names.
async fn tree(steps: &Steps, root: &str, marks: &BTreeMap<&str, String>) -> anyhow::Result<String> {
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
        let hierarchy = steps.hierarchies(&name).get_opt(HIERARCHY).await?;
        let children = hierarchy.and_then(|it| it.status).unwrap_or_default().children;
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
