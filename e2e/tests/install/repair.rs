//! `docs/repair.md`, command by command as it is written, and what it promises.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use hns_e2e::product::Component;
use hns_e2e::{Cluster, Deployed, Programs, Steps, eventually};
use tokio::process::Command;

use super::helm::checkout;
use super::takeover::{clear, manifest};
use super::works::{PATIENCE, turn, works};

const DOCUMENT: &str = include_str!("../../../docs/repair.md");

/// The commands of every block, by the heading that they are below.
fn blocks(heading: &str) -> Vec<&'static str> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap()).collect()
}

/// Somebody at a shell, in a directory with the files of a release.
struct Administrator {
    directory: tempfile::TempDir,
    kubeconfig: std::path::PathBuf,
}

impl Administrator {
    async fn new(cluster: &Cluster, manifest: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubectl = tokio::task::spawn_blocking(Programs::find_or_build).await.unwrap().unwrap().kubectl;
        for folder in ["bin", "config"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        symlink(kubectl, directory.path().join("bin/kubectl")).unwrap();
        fs::copy(checkout().join("config/crds.yaml"), directory.path().join("config/crds.yaml")).unwrap();
        fs::write(directory.path().join("config/default.yaml"), manifest).unwrap();
        Self { directory, kubeconfig: cluster.kubeconfig() }
    }

    fn directory(&self) -> &Path {
        self.directory.path()
    }

    async fn tries(&self, commands: &str) -> Result<(), String> {
        let path = format!("{}:/usr/bin:/bin", self.directory().join("bin").display());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", commands]).current_dir(self.directory()).stdin(Stdio::null());
        shell.env("PATH", path).env("KUBECONFIG", &self.kubeconfig).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, shell.output()).await;
        let output = output.map_err(|_| format!("{commands}: no end"))?.map_err(|error| error.to_string())?;
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = said(&output.stdout) + &said(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{commands}: {said}")) }
    }

    async fn types(&self, commands: &str) {
        self.tries(commands).await.unwrap();
    }
}

#[tokio::test]
async fn every_command_of_the_guide_does_what_it_says() {
    let (_turn, cluster) = turn().await;
    let port = Deployed::free_port().unwrap();
    let manifest = manifest(port);
    let admin = Administrator::new(cluster, &manifest).await;
    let mut deployed = Deployed::new(cluster, "hnc-system", port).unwrap();
    admin.types("kubectl apply -f config/default.yaml").await;
    works(cluster, &mut deployed, "acme", Instant::now()).await.unwrap();
    let steps = Steps::of(cluster.admin());
    steps.plant(&[("full", "acme")]).await.unwrap();
    steps.labelled(&["full", "acme"]).await.unwrap();

    the_webhook_is_down(cluster, &mut deployed, &admin).await;
    works(cluster, &mut deployed, "again", Instant::now()).await.unwrap();
    println!("  registrations, policies and controller are back");

    uninstalled_and_installed_again(cluster, &mut deployed, &admin).await;
    works(cluster, &mut deployed, "anew", Instant::now()).await.unwrap();
    println!("  the hierarchy is as it was exported");

    the_definitions_are_deleted(cluster, &mut deployed, &admin).await;
    println!("  the hierarchy is as the labels said");

    an_object_is_not_deleted(cluster, &mut deployed, &admin).await;
    clear(cluster, &mut deployed, &manifest).await;
}

async fn the_webhook_is_down(cluster: &Cluster, deployed: &mut Deployed<'_>, admin: &Administrator) {
    let [stop, save, unguard, restore] = blocks("The webhook is down")[..] else { panic!("other blocks") };
    deployed.stop(Component::Webhook).await.unwrap();
    let change = "kubectl annotate namespace full hnc.x-k8s.io/subnamespace-of=acme";
    let refused = admin.tries(change).await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    admin.types(stop).await;
    // In the place of a kubelet.
    deployed.stop(Component::Controller).await.unwrap();
    admin.types(save).await;
    admin.types(unguard).await;
    admin.types("kubectl create -f registrations.yaml").await;
    admin.types(unguard).await;
    eventually("nobody is asked", PATIENCE, async || admin.tries(change).await).await.unwrap();
    admin.types(&format!("{}-", change.trim_end_matches("=acme"))).await;
    let left = "kubectl get validatingwebhookconfigurations,validatingadmissionpolicybindings -o name";
    let left = cluster.kubectl().args(left.split(' ').skip(1)).ok().await.unwrap();
    assert!(!left.contains("/hn"), "the controller is stopped, and restores nothing: {left}");
    admin.types(restore).await;
    deployed.follow().await.unwrap();
}

async fn uninstalled_and_installed_again(
    cluster: &Cluster,
    deployed: &mut Deployed<'_>,
    admin: &Administrator,
) {
    let [export, delete] = blocks("Uninstall")[..] else { panic!("other blocks") };
    let [define, create, over] = blocks("Install again")[..] else { panic!("other blocks") };
    let configure = r#"kubectl patch hncconfiguration config --type=merge --patch '{"spec":{"resources":[{"resource":"secrets"}]}}'"#;
    admin.types(configure).await;
    let before = objects(cluster, "hncconfigurations,hierarchyconfigurations,subnamespaceanchors").await;
    let copy = uid_of_the_copy(cluster).await;
    admin.types(export).await;
    admin.types(delete).await;
    deployed.follow().await.unwrap();
    for namespace in ["acme", "acme-child", "full"] {
        let found = super::works::namespace(cluster, namespace).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_none(), "{namespace} is being deleted");
    }
    eventually("the definitions are established", PATIENCE, async || admin.tries(define).await)
        .await
        .unwrap();
    eventually("the namespace of the installation is gone", PATIENCE, async || {
        super::works::namespace(cluster, "hnc-system").await.map_or(Ok(()), |_| Err("not yet".to_owned()))
    })
    .await
    .unwrap();
    admin.types(create).await;
    deployed.follow().await.unwrap();
    deployed.wait_ready().await.unwrap();
    Steps::of(cluster.admin()).labelled(&["full", "acme"]).await.unwrap();
    let read =
        async || objects(cluster, "hncconfigurations,hierarchyconfigurations,subnamespaceanchors").await;
    assert_eq!(read().await, before);
    assert_eq!(uid_of_the_copy(cluster).await, copy, "a copy was deleted on the way");

    // As if hns had been started first.
    admin.types("kubectl delete hierarchyconfiguration hierarchy -n full").await;
    admin.types(&configure.replace("secrets", "configmaps")).await;
    admin.types(over).await;
    Steps::of(cluster.admin()).labelled(&["full", "acme"]).await.unwrap();
    assert_eq!(read().await, before);
}

async fn the_definitions_are_deleted(cluster: &Cluster, deployed: &mut Deployed<'_>, admin: &Administrator) {
    let [is_deleted, stop, from_labels, define, write, start] = blocks("The definitions were deleted")[..]
    else {
        panic!("other blocks")
    };
    let read = async || objects(cluster, "hierarchyconfigurations,subnamespaceanchors").await;
    let (before, copy) = (read().await, uid_of_the_copy(cluster).await);
    admin.types("kubectl delete -f config/crds.yaml").await;
    admin.types(is_deleted).await;
    admin.types(stop).await;
    deployed.stop(Component::Controller).await.unwrap();
    admin.types(from_labels).await;
    admin.types(define).await;
    // The webhook refuses them until it has seen the definitions.
    eventually("the objects are created", PATIENCE, async || admin.tries(write).await).await.unwrap();
    admin.types(start).await;
    deployed.follow().await.unwrap();
    deployed.wait_ready().await.unwrap();
    Steps::of(cluster.admin()).labelled(&["full", "acme"]).await.unwrap();
    // The controller creates the objects of roots, which only list children, a second later.
    let is_as_before = async || {
        let now = read().await;
        if now == before { Ok(()) } else { Err(now) }
    };
    eventually("the hierarchy is as before", PATIENCE, is_as_before).await.unwrap();
    assert_eq!(uid_of_the_copy(cluster).await, copy, "a copy was deleted on the way");
}

/// All objects of these kinds, with what somebody has asked for in them.
async fn objects(cluster: &Cluster, kinds: &str) -> String {
    let fields =
        "jsonpath={range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} {.spec}{\"\\n\"}{end}";
    cluster.kubectl().args(["get", kinds, "-A", "-o", fields]).ok().await.unwrap()
}

/// Waits for the copy in the full namespace.
async fn uid_of_the_copy(cluster: &Cluster) -> String {
    let get = ["get", "role", "reader", "-n", "full", "-o", "jsonpath={.metadata.uid}"];
    let uid = async || cluster.kubectl().args(get).ok().await;
    eventually("full has a copy", PATIENCE, async || uid().await.map_err(|error| error.to_string()))
        .await
        .unwrap()
}

async fn an_object_is_not_deleted(cluster: &Cluster, deployed: &mut Deployed<'_>, admin: &Administrator) {
    let [patch] = blocks("An object is not deleted")[..] else { panic!("other blocks") };
    let commands = patch.replace("acme-dev", "acme-child");
    deployed.stop(Component::Controller).await.unwrap();
    for object in ["subns acme-child --namespace acme", "hierarchyconfiguration hierarchy --namespace acme"] {
        admin.types(&format!("kubectl delete {object} --wait=false")).await;
    }
    deployed.stop(Component::Webhook).await.unwrap();
    let anchors = Steps::of(cluster.admin()).anchors("acme");
    assert!(anchors.get_opt("acme-child").await.unwrap().is_some(), "nothing holds the anchor");
    let hierarchy = "kubectl get hierarchyconfiguration hierarchy --namespace acme";
    admin.types(hierarchy).await;
    admin.types(&commands).await;
    assert!(anchors.get_opt("acme-child").await.unwrap().is_none());
    assert!(admin.tries(hierarchy).await.unwrap_err().contains("NotFound"));
    let found = super::works::namespace(cluster, "acme-child").await.unwrap();
    assert!(found.metadata.deletion_timestamp.is_none(), "the namespace stays");
    deployed.follow().await.unwrap();
    deployed.wait_ready().await.unwrap();
}
