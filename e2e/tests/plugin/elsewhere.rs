//! An installation in another namespace than the usual one: each command finds it, for administrators and for tenants.

use hns_e2e::process::Signal;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Options, Product, Steps, eventually};
use serde_json::json;
use tokio::sync::OnceCell;

use super::fixture::{Output, agreed, at_terminal, hierarchy, plugin};

const HOME: &str = "platform-hns";
const UNKNOWN: &str = "the settings of the installation are not known";

/// Every command that depends on what the installation runs with. The namespace `apart` is excluded by a flag.
const COMMANDS: [&str; 9] = [
    "plan set e-child --root",
    "plan create e-new -n e-org",
    "plan delete e-sub",
    "explain rolebinding/one -n e-org",
    "tree e-org --show-copies rolebinding/one",
    "delete e-sub -n e-org --dry-run=client",
    "convert e-child --to sub --yes --wait",
    "convert e-child --to full --yes --wait",
    "move e-child --to e-other --yes",
];

#[tokio::test]
async fn an_installation_in_another_namespace_is_found() {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_try_init(Cluster::start).await.unwrap();
    let flags =
        || ["--excluded-namespace=apart", "--managed-namespace-label=e.test/.*"].map(str::to_owned).into();
    let options = Options {
        namespace: HOME.to_owned(),
        webhook_args: flags(),
        controller_args: flags(),
        ..Options::default()
    };
    let kubeconfig = cluster.kubeconfig();
    let hns = async |words: &str, variables: &[(&str, &str)]| -> Output {
        plugin(&format!("--kubeconfig {} {words}", kubeconfig.display()), variables).await.unwrap()
    };
    let absent = hns("doctor", &[]).await;
    assert!(absent.stdout.starts_with("WRONG  hns: it is not installed in this cluster"), "{absent:?}");
    assert_eq!((absent.code, &*absent.stderr), (Some(1), "Error: 1 thing is wrong\n"), "{absent:?}");
    for words in ["convert default --to hnc --yes", "convert default --to sub --yes"] {
        let unknown = hns(words, &[]).await;
        let hint = "\nEither hns is not installed in this cluster (check --context), or a definition of hnc.x-k8s.io/v1alpha2";
        unknown.fails("Error reading namespace default: the API server does not serve this kind\n");
        assert!(unknown.stderr.contains(hint), "{unknown:?}");
    }
    let product = Product::install(cluster, options).await.unwrap();
    let replicas = tokio::try_join!(product.start_webhook(), product.start_controller()).unwrap();
    let steps = Steps::of(cluster.admin());
    for (name, user) in [("e-org", "erin"), ("e-other", "erin"), ("apart", "")] {
        eventually("hns admits namespaces", PATIENCE, async || {
            steps.create_namespace(name).await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
        if !user.is_empty() {
            steps.make_admin(name, user).await.unwrap();
        }
    }
    steps.plant(&[("e-child", "e-org")]).await.unwrap();
    steps.labelled(&["e-child", "e-org"]).await.unwrap();
    steps.create_anchor("e-org", "e-sub").await.unwrap();
    eventually("e-sub is there", PATIENCE, async || {
        let found = steps.namespaces().get_opt("e-sub").await.map_err(|error| error.to_string())?;
        found.map(drop).ok_or_else(|| "not yet".to_owned())
    })
    .await
    .unwrap();
    steps.create_binding("e-org", "one", ("ClusterRole", "view"), "vera").await.unwrap();
    for words in COMMANDS {
        let done = hns(words, &[]).await;
        assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{words}: {done:?}");
    }
    for words in &COMMANDS[..6] {
        let done = hns(&format!("{words} --as erin"), &[]).await;
        assert!(!done.stderr.contains(UNKNOWN), "{words}: {done:?}");
        // She may read the hierarchy, on which alone a deletion depends.
        let is_complete = words.starts_with("delete");
        let is_partial = done.stderr.contains("you may not list");
        assert_eq!((done.code, is_partial), (Some(0), !is_complete), "{words}: {done:?}");
    }
    let doctor = hns("doctor", &[]).await;
    assert!(doctor.stdout.contains("ok     lease: "), "{doctor:?}");
    assert!(!doctor.stdout.contains("hnc-system"), "{doctor:?}");
    let excluded = hns("plan create apart -n e-org --as erin", &[]).await;
    assert!(excluded.stdout.contains("\"apart\""), "what a flag excludes is known: {excluded:?}");
    // Who names it is believed, by a flag before the variable.
    let wrong = hns("explain rolebinding/one -n e-org --installation nowhere", &[]).await;
    assert!(wrong.stderr.contains("no ConfigMap hnc-settings in namespace nowhere"), "{wrong:?}");
    for (words, code) in [
        ("tree -A --installation nowhere", 0),
        ("describe e-org --installation nowhere", 0),
        ("plan create e-new -n e-org --label team=red --installation nowhere", 1),
    ] {
        let wrong = hns(words, &[]).await;
        assert!(wrong.code == Some(code) && wrong.stderr.contains(UNKNOWN), "{words}: {wrong:?}");
    }
    for words in ["", "--installation platform-hns"] {
        let variable = if words.is_empty() { HOME } else { "nowhere" };
        let words = format!("explain rolebinding/one -n e-org {words}");
        let named = hns(&words, &[("HNS_INSTALLATION", variable)]).await;
        assert_eq!((named.code, &*named.stderr), (Some(0), ""), "{words}: {named:?}");
    }
    let unset = hns("doctor", &[("HNS_INSTALLATION", "nowhere")]).await;
    let hint = "names namespace platform-hns: unset the variable HNS_INSTALLATION.\n";
    assert!(unset.code == Some(1) && unset.stdout.contains(hint), "{unset:?}");
    a_label_is_overridden(cluster).await;
    a_kind_is_configured(cluster).await;
    // A webhook that accepts connections and answers nothing.
    replicas.0.process().signal(Signal::STOP).unwrap();
    let hanging = hns("doctor", &[]).await;
    assert!(
        hanging.stdout.contains("WRONG  webhook: ") && hanging.stdout.contains("hns-webhook"),
        "{hanging:?}"
    );
    for words in ["create e-late -n e-org", "set e-child --root"] {
        let late = hns(words, &[]).await;
        assert!(
            late.code == Some(1) && late.stderr.contains("hns-webhook does not answer"),
            "{words}: {late:?}"
        );
    }
    let plan = hns("plan config set-resource pods --mode Propagate", &[]).await;
    assert!(plan.stdout.contains("\nIt is unknown whether this would be allowed: "), "{plan:?}");
    replicas.0.process().signal(Signal::CONT).unwrap();
    tokio::try_join!(replicas.0.terminate(), replicas.1.terminate()).unwrap();
}

/// By an ancestor that the user may read, and by one that they may not.
async fn a_label_is_overridden(cluster: &Cluster) {
    let hns = async |words: &str| {
        plugin(&format!("--kubeconfig {} {words}", cluster.kubeconfig().display()), &[]).await.unwrap()
    };
    let steps = Steps::of(cluster.admin());
    let mut above = hierarchy("e-org", "", &[], &[]);
    above.as_object_mut().unwrap().remove("status");
    above["spec"] = json!({ "labels": [{ "key": "e.test/level", "value": "low" }] });
    let apply = cluster.kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
    apply.stdin(above.to_string()).ok().await.unwrap();
    let created = hns("create e-over -n e-org --label e.test/level=high --wait").await;
    let note = "Note: label e.test/level=high has no effect: ancestor e-org sets low\n";
    assert_eq!((created.code, &*created.stderr), (Some(0), note), "{created:?}");
    steps.make_admin("e-over", "olga").await.unwrap();
    let line =
        "  e-new: label e.test/level=high would be added, unless a namespace above sets another value\n";
    eventually("olga is admin of e-over", PATIENCE, async || {
        let plan = hns("plan create e-new -n e-over --label e.test/level=high --as olga").await;
        if plan.stdout.contains(line) { Ok(()) } else { Err(format!("{plan:?}")) }
    })
    .await
    .unwrap();
}

/// What is in the way of copies, and what would go, is asked about; what is not in the way of anything goes through as with HNC.
async fn a_kind_is_configured(cluster: &Cluster) {
    for (namespace, value) in [("e-other", "above"), ("e-child", "own")] {
        let value = format!("--from-literal=value={value}");
        let create = ["create", "secret", "generic", "key", "--namespace", namespace, &value];
        cluster.kubectl().args(create).ok().await.unwrap();
    }
    let resources = async || {
        let get = ["get", "hncconfiguration", "config", "--output=jsonpath={.spec}"];
        cluster.kubectl().args(get).ok().await.unwrap()
    };
    let hns = |words: &str| format!("--kubeconfig {} {words}", cluster.kubeconfig().display());
    let before = resources().await;
    let set = hns("config set-resource secrets --mode Propagate");
    let unconfirmed = "Error: this needs confirmation, and stdin is not a terminal; nothing was changed\n";
    let refused = plugin(&set, &[]).await.unwrap();
    assert!(refused.stderr.contains(unconfirmed) && refused.stderr.contains("or use --yes"), "{refused:?}");
    let declined = at_terminal(&set, "n").await.unwrap();
    let line = "  secrets key in e-child would be kept; the one of e-other would not be copied\n";
    for answer in [&refused, &declined] {
        assert!(answer.code == Some(1) && answer.stdout.contains(line), "{answer:?}");
    }
    assert_eq!(resources().await, before);
    // Nothing is in the way, and it was checked, so there is no warning.
    let free = plugin(&hns("config set-resource configmaps --mode Propagate --wait"), &[]).await.unwrap();
    free.says("configmaps: mode Propagate\n");
    // The webhook judges the kind now.
    let wrong = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "wrong", "namespace": "e-other", "annotations": { "propagate.hnc.x-k8s.io/none": "maybe" },
        },
    });
    let judged = cluster.kubectl().args(["create", "-f", "-"]).stdin(wrong.to_string()).ok().await;
    assert!(judged.unwrap_err().to_string().contains("propagate.hnc.x-k8s.io/none"));
    let planned = plugin(&hns("plan config set-resource secrets --mode Propagate"), &[]).await.unwrap();
    assert!(planned.code == Some(0) && !planned.stdout.contains("Warning"), "{planned:?}");
    // A change of another part of the object, such as its status, does not stop the command.
    let touched = async {
        let label = ["label", "hncconfiguration", "config", "seen=yes"];
        cluster.kubectl().args(label).ok().await.unwrap();
    };
    let accepted = agreed(&set, touched).await.unwrap();
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(resources().await.contains("secrets"));
    Steps::of(cluster.admin()).reasons("e-child", &["CannotPropagateObject"]).await.unwrap();
    let get = ["get", "secret", "key", "--namespace=e-child", "--output=jsonpath={.data.value}"];
    assert_eq!(cluster.kubectl().args(get).ok().await.unwrap(), "b3du", "it is its own");
    let yes = hns("config set-resource secrets --mode Propagate --yes");
    plugin(&yes, &[]).await.unwrap().says("secrets: mode Propagate; unchanged\n");
    let enforced = hns("config set-resource roles --mode Propagate");
    let enforced = plugin(&enforced, &[]).await.unwrap();
    enforced.says("roles.rbac.authorization.k8s.io: mode Propagate; unchanged\n");
    // Another mode takes copies away.
    let create = ["create", "secret", "generic", "lone", "--namespace=e-other"];
    cluster.kubectl().args(create).ok().await.unwrap();
    eventually("the secret is copied", PATIENCE, async || {
        let get = ["get", "secret", "lone", "--namespace=e-child"];
        cluster.kubectl().args(get).ok().await.map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    for mode in ["AllowPropagate", "Remove"] {
        let set = hns(&format!("config set-resource secrets --mode {mode}"));
        let refused = plugin(&set, &[]).await.unwrap();
        assert_eq!(
            (refused.code, refused.stderr),
            (Some(1), format!("{unconfirmed}Use --yes to continue without confirmation.\n"))
        );
        assert!(refused.stdout.contains("secrets lone in e-child would be deleted"), "{}", refused.stdout);
    }
    let yes = hns("config set-resource secrets --mode Remove --yes");
    plugin(&yes, &[]).await.unwrap().says("secrets: mode Remove\n");
    let delete = hns("config delete-type --resource secrets --wait");
    plugin(&delete, &[]).await.unwrap().says("The configuration for secrets is deleted\n");
    let get = ["get", "hncconfiguration", "config", "--output=jsonpath={.status.resourcesSummary}"];
    let status = cluster.kubectl().args(get).ok().await.unwrap();
    assert!(!status.contains("secrets"), "{status}");
    outdated_copies_are_listed(cluster).await;
}

/// While nothing is done about a kind or a tree, copies and their sources can become different. Plans compare them.
async fn outdated_copies_are_listed(cluster: &Cluster) {
    let hns = async |words: &str| -> Output {
        plugin(&format!("--kubeconfig {} {words}", cluster.kubeconfig().display()), &[]).await.unwrap()
    };
    let write = async |namespace: &str, value: &str| {
        let patch = format!(r#"{{"data":{{"value":"{value}"}}}}"#);
        let words =
            ["patch", "configmap", "aged", "--namespace", namespace, "--type=merge", "--patch", &patch];
        // The API server protects copies for a moment longer.
        eventually("the configmap can be changed", PATIENCE, async || {
            cluster.kubectl().args(words).ok().await.map_err(|error| error.to_string())
        })
        .await
        .unwrap();
    };
    let create = ["create", "configmap", "aged", "--namespace=e-other", "--from-literal=value=0"];
    cluster.kubectl().args(create).ok().await.unwrap();
    hns("config set-resource configmaps --mode Propagate --wait")
        .await
        .says("configmaps: mode Propagate; unchanged\n");
    let line = "  configmaps aged in e-child would be updated, from e-other\n";
    for left_alone in [
        "config set-resource configmaps --mode Ignore --wait",
        "config delete-type --resource configmaps --wait",
    ] {
        assert_eq!(hns(left_alone).await.code, Some(0));
        write("e-child", "by hand").await;
        let set = "config set-resource configmaps --mode Propagate --force";
        for words in [set.to_owned(), format!("plan {set}")] {
            let listed = hns(&words).await;
            assert!(
                listed.stdout.contains(line) && listed.stdout.contains(" 1 updated,"),
                "{words}: {listed:?}"
            );
            assert_eq!(listed.code, Some(i32::from(words == set)), "{words}");
        }
        assert_eq!(hns(&format!("{set} --yes --wait")).await.code, Some(0));
        let planned = hns(&format!("plan {set}")).await;
        assert!(planned.stdout.contains("would not change"), "{planned:?}");
    }
    assert_eq!(hns("set e-child --parent e-gone").await.code, Some(0));
    write("e-other", "2").await;
    let planned = hns("plan set e-child --parent e-other").await;
    assert!(planned.stdout.contains(line), "{planned:?}");
    assert_eq!(hns("set e-child --parent e-other --wait").await.code, Some(0));
}
