//! What the chart renders, and what it refuses to.

use hns_cluster::settings::{FailurePolicy, SharedSettings};
use serde_json::{Value, json};

use super::helm::Helm;

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

/// What a `ClusterRole` allows with a resource.
fn verbs_on(objects: &[Value], role: &str, resource: &str) -> Vec<String> {
    let Some(role) = find(objects, "ClusterRole", role) else { return Vec::new() };
    let rules = role["rules"].as_array().unwrap().iter();
    let named = rules.filter(|rule| rule["resources"].as_array().unwrap().contains(&json!(resource)));
    let verbs = named.flat_map(|rule| rule["verbs"].as_array().unwrap().clone());
    verbs.map(|verb| verb.as_str().unwrap().to_owned()).collect()
}

fn args(objects: &[Value], deployment: &str) -> Vec<String> {
    let deployment = find(objects, "Deployment", deployment).unwrap();
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    serde_json::from_value(args.clone()).unwrap()
}

fn set<'a>(values: &[&'a str]) -> Vec<&'a str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

/// `-----BEGIN CERTIFICATE-----` in base64.
const CA_BUNDLE: &str = "certificates.caBundle=LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";

#[tokio::test]
async fn the_chart_has_no_faults_that_lint_finds() {
    let helm = Helm::alone().await;
    let sets: [&[&str]; 5] = [
        &[],
        &["certificates.mode=cert-manager", "rbac.escalate=false", "rbac.bindableClusterRoles={view}"],
        &["certificates.mode=provided", CA_BUNDLE, "admissionPolicies=false"],
        &["propagation.resources={*}", "networkPolicy.enabled=true", "crds.enabled=false"],
        &["metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true"],
    ];
    for values in sets {
        let mut words = vec!["lint", "--strict", "charts/hns"];
        words.extend(set(values));
        let said = helm.ok(&words).await.unwrap();
        assert!(said.contains("0 chart(s) failed"), "{said}");
        println!("  lint {values:?}: {}", said.lines().last().unwrap_or_default());
    }
}

/// A refusal names the value, and what to write instead.
#[tokio::test]
async fn what_cannot_be_is_refused_in_words() {
    let helm = Helm::alone().await;
    let refusals = [
        ("hrq.failurePolicy=fail", "/hrq/failurePolicy"),
        ("image.tag=v1", "controller.image and webhook.image"),
        ("manager.resources.limits.cpu=1", "controller.resources"),
        ("ha.manager.nodeSelector.a=b", "webhook.nodeSelector"),
        (
            "image.repository=x",
            "the value image belongs to the charts of HNC and of Accurate: there are two images here",
        ),
        ("installCRDs=true", "set crds.enabled"),
        ("controller.config.watches={}", "set accurate.config"),
        ("controller.additionalRBAC.clusterRoles={view}", "set accurate.additionalRBAC"),
        ("webhook.allowCascadingDeletion=true", "set accurate.allowCascadingDeletion"),
        ("accurate.featureGates.Other=true", "/accurate/featureGates"),
        ("healthPort=8080", "metrics.port and healthPort are both 8080"),
        ("metrics.port=10443,webhook.port=10443", "webhook.port and metrics.port are both 10443"),
        ("webhook.replicas=0", "/webhook/replicas"),
        ("managedNamespaceLabels={(}", "'(' is not valid regex"),
        ("webhook.replica=3", "'replica' not allowed"),
        ("propagateAnyKind=true", "'propagateAnyKind' not allowed"),
        ("propagation.resources={Secrets}", "/propagation/resources/0"),
        ("propagation.nopropagationLabels={a}", "/propagation/nopropagationLabels/0"),
        ("excludedNamespaces={Upper}", "/excludedNamespaces/0"),
        ("certificates.mode=self-signed", "/certificates/mode"),
        ("certificates.mode=provided", "certificates.caBundle is required"),
        (CA_BUNDLE, "only for certificates.mode=provided"),
        ("certificates.caBundle=abc", "/certificates/caBundle"),
        ("certificates.mode=provided,certificates.caBundle=Zm9v", "certificates.caBundle has no certificate"),
        ("certificates.secretName=other", "leave certificates.secretName as it is"),
        ("rbac.bindableClusterRoles={view}", "rbac.escalate=false"),
        (
            "initialAdmin.enabled=true,rbac.escalate=false,rbac.bindableClusterRoles={view}",
            "the ClusterRole admin: without rbac.escalate, add it to rbac.bindableClusterRoles",
        ),
        ("webhook.podLabels.control-plane=other", "/webhook/podLabels/control-plane"),
        ("webhook.clientCertificates.configMap=x", "needs webhook.clientCertificates.allowedNames"),
        ("webhook.clientCertificates.allowedNames={x}", "needs webhook.clientCertificates.configMap"),
        ("networkPolicy.apiServerCIDRs={10.0.0.1}", "/networkPolicy/apiServerCIDRs/0"),
        ("webhook.podLabels.app\\.kubernetes\\.io/name=x", "/webhook/podLabels"),
        ("commonLabels.app\\.kubernetes\\.io/instance=x", "/commonLabels"),
        ("imagePullSecrets={a}", "/imagePullSecrets/0"),
        ("webhook.image.repository=", "webhook.image.repository is not set"),
        ("controller.image.repository=", "set controller.image.repository and webhook.image.repository"),
        ("controller.leaderElection.leaseDuration=1500ms", "/controller/leaderElection/leaseDuration"),
        ("controller.leaderElection.leaseDuration=61m", "leaseDuration (61m) must be at most 60m"),
        ("controller.leaderElection.leaseDuration=10s", "longer than renewDeadline (10s)"),
        ("controller.leaderElection.renewDeadline=2000ms", "renewDeadline longer than retryPeriod (2s)"),
        ("controller.leaderElection.retryPeriod=0s", "/controller/leaderElection/retryPeriod"),
        ("webhook.shutdownDelay=8", "/webhook/shutdownDelay"),
        ("webhook.shutdownDelay=8s", "must be longer than webhook.shutdownDelay (8s)"),
        ("webhook.shutdownTimeout=10000ms", "must be longer than webhook.shutdownTimeout (10000ms)"),
        ("webhook.terminationGracePeriodSeconds=3601", "/webhook/terminationGracePeriodSeconds"),
    ];
    for (value, words) in refusals {
        let said = helm.run(&["template", "x", "charts/hns", "--set", value]).await.unwrap();
        assert!(!said.success, "{value} was accepted");
        assert!(said.stderr.contains(words), "{value}: {}", said.stderr);
    }
    let old = helm.run(&["template", "x", "charts/hns", "--kube-version", "1.29.9"]).await.unwrap();
    assert!(!old.success && old.stderr.contains("1.30"), "{}", old.stderr);
    println!("  {} values and an old Kubernetes were refused in words", refusals.len());
}

#[tokio::test]
async fn values_of_hncs_chart_that_mean_something_are_taken() {
    let helm = Helm::alone().await;
    let values = ["hncExcludeNamespaces={kube-system,kept-out}", "ha.enabled=true", "hrq.enabled=true"];
    let excluded = async |values: &[&str]| {
        let objects = helm.template(&set(values)).await.unwrap();
        let text =
            find(&objects, "ConfigMap", "hns-config").unwrap()["data"]["settings.yaml"].as_str().unwrap();
        Vec::from_iter(SharedSettings::parse(text).unwrap().excluded_namespaces)
    };
    assert_eq!(excluded(&values).await, ["kept-out", "kube-node-lease", "kube-public", "kube-system"]);
    let values = ["excludeSystemNamespaces=false", "excludedNamespaces={kept-out}"];
    assert_eq!(excluded(&values).await, ["kept-out"]);
}

/// Values of every kind of setting.
const SETTINGS: [&str; 11] = [
    "includedNamespaceRegex=it's \\\\w+",
    "managedNamespaceLabels={team/.*}",
    "managedNamespaceAnnotations={note/.*}",
    "refuseLabelConflicts=true,refuseWith403=true",
    "externalManagers.fleet={agent,system:agents}",
    "restoreIdentities={velero}",
    "ancestryAnnotation=true",
    "initialAdmin.enabled=true,initialAdmin.clusterRole=edit",
    "propagation.nopropagationLabels={a.b/c=d},propagation.unpropagatedLabels={x/*},propagation.unpropagatedAnnotations={y/*}",
    "propagation.trackingMetadata=true,propagation.rbacOnConflict=Report",
    "hrq.enabled=true,hrq.failurePolicy=Fail",
];

#[tokio::test]
async fn values_become_the_settings_document() {
    let helm = Helm::alone().await;
    let parse = |objects: &[Value]| {
        let text = find(objects, "ConfigMap", "hns-config").unwrap()["data"]["settings.yaml"]
            .as_str()
            .unwrap()
            .to_owned();
        SharedSettings::parse(&text).unwrap_or_else(|invalid| panic!("{invalid}: {text}"))
    };
    let settings = parse(&helm.template(&set(&SETTINGS)).await.unwrap());
    let set_of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(settings.included_namespace_regex, r"it's \w+");
    assert_eq!(settings.managed_namespace_labels, set_of(&["team/.*"]));
    assert_eq!(settings.managed_namespace_annotations, set_of(&["note/.*"]));
    assert!(settings.refuse_label_conflicts && settings.refuse_with403);
    assert!(settings.ancestry_annotation && settings.initial_admin.enabled);
    assert_eq!(settings.external_managers["fleet"], set_of(&["agent", "system:agents"]));
    assert_eq!(settings.restore_identities, set_of(&["velero"]));
    assert_eq!(settings.initial_admin.cluster_role, "edit");
    assert_eq!(settings.propagation.nopropagation_labels, set_of(&["a.b/c=d"]));
    assert_eq!(settings.propagation.unpropagated_labels, set_of(&["x/*"]));
    assert_eq!(settings.propagation.unpropagated_annotations, set_of(&["y/*"]));
    assert!(settings.propagation.tracking_metadata && settings.propagation.rbac_on_conflict == "Report");
    let quotas = &settings.hierarchical_quotas;
    assert!(quotas.enabled && quotas.failure_policy == FailurePolicy::Fail);
}

/// Nobody has a right that the values do not ask for.
#[tokio::test]
async fn rights_are_those_that_are_asked_for() {
    let helm = Helm::alone().await;
    let has = |verbs: &[String], verb: &str| verbs.iter().any(|it| it == verb);
    let by_default = helm.template(&[]).await.unwrap();
    for object in by_default.iter().filter(|it| it["kind"] == "ClusterRole" || it["kind"] == "Role") {
        let name = object["metadata"]["name"].as_str().unwrap();
        let rules = object["rules"].to_string();
        let for_users = name.starts_with("hnc-");
        assert!(for_users || !rules.contains("\"*\""), "{name} has a wildcard: {rules}");
    }
    assert!(has(&verbs_on(&by_default, "hns-controller", "roles"), "escalate"));
    assert!(has(&verbs_on(&by_default, "hns-controller-propagation", "secrets"), "update"));
    assert!(!has(&verbs_on(&by_default, "hns-webhook-propagation", "secrets"), "update"));

    assert_eq!(verbs_on(&by_default, "hns-uninstall", "subnamespaceanchors"), ["list", "patch"]);
    let hooked = |object: &&Value| object["metadata"]["annotations"]["helm.sh/hook"] == "post-delete";
    let of_the_end: Vec<_> =
        by_default.iter().filter(|it| it["metadata"]["name"] == "hns-uninstall").collect();
    assert!(
        of_the_end.len() == 6 && of_the_end.iter().all(hooked),
        "only an uninstallation has that account"
    );
    let without = helm.template(&set(&["uninstall.releaseFinalizers=false"])).await.unwrap();
    assert!(!without.iter().any(|it| it["metadata"]["name"] == "hns-uninstall"));

    assert_eq!(verbs_on(&by_default, "hnc-edit", "subnamespaceanchors"), ["*"], "as with HNC");
    let keeping = helm.template(&set(&["rbac.editDeletesAnchors=false"])).await.unwrap();
    let without_deletion = ["get", "list", "watch", "create", "update", "patch"];
    assert_eq!(verbs_on(&keeping, "hnc-edit", "subnamespaceanchors"), without_deletion);

    let any = helm.template(&set(&["propagation.resources={*}"])).await.unwrap();
    assert!(has(&verbs_on(&any, "hns-controller-propagation", "*"), "create"));

    assert_eq!(verbs_on(&by_default, "hns-controller", "resourcequotas"), ["list", "delete"]);
    assert_eq!(verbs_on(&by_default, "hns-webhook", "resourcequotas"), [""; 0]);
    let quotas = helm.template(&set(&["hrq.enabled=true"])).await.unwrap();
    assert!(has(&verbs_on(&quotas, "hns-controller", "resourcequotas"), "create"));
    assert_eq!(verbs_on(&quotas, "hns-webhook", "resourcequotas"), ["list", "watch"]);
    assert!(find(&quotas, "ConfigMap", "hnc-quota-ledger").is_some());

    let narrow = [
        "rbac.escalate=false",
        "rbac.bindableClusterRoles={view,edit}",
        "initialAdmin.enabled=true",
        "initialAdmin.clusterRole=edit",
        "propagation.resources=null",
    ];
    let narrow = helm.template(&set(&narrow)).await.unwrap();
    assert!(find(&narrow, "ClusterRole", "hns-controller-propagation").is_none());
    assert_eq!(verbs_on(&narrow, "hns-controller", "roles"), ["get", "list", "watch", "delete"]);
    assert_eq!(verbs_on(&narrow, "hns-controller", "clusterroles"), ["bind", "get"]);
    let rules = find(&narrow, "ClusterRole", "hns-controller").unwrap()["rules"].as_array().unwrap();
    let bind = rules.iter().find(|rule| rule["verbs"] == json!(["bind"])).unwrap();
    assert_eq!(bind["resourceNames"], json!(["view", "edit"]));
    assert!(!narrow.iter().any(|it| it["rules"].to_string().contains("escalate")));
}

/// Nothing of Accurate's API is there without its value.
#[tokio::test]
async fn the_api_of_accurate_asks_for_rights_only_when_it_is_enabled() {
    let helm = Helm::alone().await;
    let by_default = helm.template(&[]).await.unwrap();
    assert!(!serde_json::to_string(&by_default).unwrap().contains("accurate"));

    let values =
        ["accurate.enabled=true", "accurate.additionalRBAC.clusterRoles={admin}", "webhook.servicePort=8443"];
    let enabled = helm.template(&set(&values)).await.unwrap();
    let controller = "hns-controller-accurate";
    assert_eq!(verbs_on(&enabled, controller, "subnamespaces"), ["get", "list", "watch", "patch"]);
    assert_eq!(verbs_on(&enabled, controller, "subnamespaces/status"), ["patch"]);
    let of_copies = ["get", "list", "watch", "create", "patch", "delete"];
    for resource in ["roles", "rolebindings", "secrets", "resourcequotas"] {
        assert_eq!(verbs_on(&enabled, controller, resource), of_copies, "{resource}");
        assert_eq!(verbs_on(&enabled, "hns-webhook-accurate", resource), ["list", "watch"], "{resource}");
    }
    assert_eq!(verbs_on(&enabled, "hns-webhook-accurate", "subnamespaces"), ["list", "watch"]);
    assert!(find(&enabled, "ClusterRoleBinding", "hns-controller-accurate-admin").is_some());
    let editor = find(&enabled, "ClusterRole", "accurate-subnamespace-editor-role").unwrap();
    for role in ["admin", "edit"] {
        let aggregates = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
        assert_eq!(editor["metadata"]["labels"][aggregates.as_str()], "true");
    }
    let definition = find(&enabled, "CustomResourceDefinition", "subnamespaces.accurate.cybozu.com").unwrap();
    let service = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!((&service["namespace"], &service["port"]), (&json!("some-namespace"), &json!(8443)));

    let by_cert_manager = ["accurate.enabled=true", "certificates.mode=cert-manager"];
    let objects = helm.template(&set(&by_cert_manager)).await.unwrap();
    let definition = find(&objects, "CustomResourceDefinition", "subnamespaces.accurate.cybozu.com").unwrap();
    let certificate = &definition["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(certificate, "some-namespace/hnc-webhook-server-cert");
}

/// Every object is where the release is, and every pod is held to the strictest of the standard's levels.
#[tokio::test]
async fn any_namespace_will_do_and_pods_are_restricted() {
    let helm = Helm::alone().await;
    let values = ["networkPolicy.enabled=true", "metrics.podMonitor.enabled=true", "controller.replicas=3"];
    let objects = helm.template(&set(&values)).await.unwrap();
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains("hnc-system"), "the namespace of HNC is written into a template");
    for object in &objects {
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || namespace == "some-namespace", "{object}");
    }
    for (deployment, replicas) in [("hnc-controller-manager", 3), ("hnc-webhook", 2)] {
        let object = find(&objects, "Deployment", deployment).unwrap();
        assert_eq!(object["spec"]["replicas"], replicas);
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        }
    }
}

/// A namespace may contain pods of others with the label of HNC's. Nothing but the Deployments, whose selectors cannot be changed,
/// selects by that label alone.
#[tokio::test]
async fn the_release_selects_its_own_pods_only() {
    let helm = Helm::alone().await;
    let values = [
        "networkPolicy.enabled=true",
        "metrics.podMonitor.enabled=true",
        "webhook.podLabels.team=a",
        "commonLabels.team=b",
    ];
    let objects = helm.template(&set(&values[..3])).await.unwrap();
    let contains = |labels: &Value, selector: &Value| {
        let mut selector = selector.as_object().unwrap().iter();
        selector.all(|(key, value)| &labels[key] == value)
    };
    for (deployment, plane) in [("hnc-controller-manager", "controller-manager"), ("hnc-webhook", "webhook")]
    {
        let object = find(&objects, "Deployment", deployment).unwrap();
        assert_eq!(object["spec"]["selector"], json!({ "matchLabels": { "control-plane": plane } }));
        let template = &object["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        let own = json!({
            "app.kubernetes.io/name": "hns", "app.kubernetes.io/instance": "some-release", "control-plane": plane,
        });
        for key in ["version", "managed-by", "component"] {
            assert!(labels[format!("app.kubernetes.io/{key}")].is_string(), "{key}: {labels}");
        }
        assert!(contains(labels, &own), "{labels}");
        let selects = |kind: &str, name: &str, path: &str| {
            find(&objects, kind, name).unwrap().pointer(path).unwrap().clone()
        };
        let metrics = format!("{deployment}-metrics-service");
        assert_eq!(selects("Service", &metrics, "/spec/selector"), own);
        assert_eq!(selects("PodDisruptionBudget", deployment, "/spec/selector/matchLabels"), own);
        assert_eq!(selects("NetworkPolicy", deployment, "/spec/podSelector/matchLabels"), own);
        let spread = &template["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
        assert_eq!(*spread, own);
        let monitored = &find(&objects, "PodMonitor", "hns").unwrap()["spec"]["selector"]["matchLabels"];
        assert!(contains(&own, monitored) && monitored["app.kubernetes.io/instance"].is_string());
    }
    let webhook = &find(&objects, "Service", "hnc-webhook-service").unwrap()["spec"]["selector"];
    assert_eq!(webhook["app.kubernetes.io/instance"], "some-release");
    // The Job of an uninstallation is none of them.
    let job = &find(&objects, "Job", "hns-uninstall").unwrap()["spec"]["template"]["metadata"]["labels"];
    assert!(job["control-plane"].is_null() && job["app.kubernetes.io/instance"] == "some-release");

    let labelled = helm.template(&set(&values[3..])).await.unwrap();
    assert!(labelled.iter().all(|object| object["metadata"]["labels"]["team"] == "b"));
    let pod = &find(&labelled, "Deployment", "hnc-webhook").unwrap()["spec"]["template"]["metadata"];
    assert_eq!(pod["labels"]["team"], "b");
}

/// What a cluster may need of pods: Secrets of a registry, another user, environment variables.
#[tokio::test]
async fn pods_are_as_the_values_say() {
    let helm = Helm::alone().await;
    let values = [
        "imagePullSecrets[0].name=registry",
        "podSecurityContext.runAsUser=null",
        "webhook.extraEnv[0].name=RUST_LOG,webhook.extraEnv[0].value=debug",
        "revisionHistoryLimit=1",
    ];
    let objects = helm.template(&set(&values)).await.unwrap();
    for deployment in ["hnc-controller-manager", "hnc-webhook"] {
        let spec = &find(&objects, "Deployment", deployment).unwrap()["spec"];
        assert_eq!(spec["revisionHistoryLimit"], 1);
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], json!([{ "name": "registry" }]));
        let security = pod["securityContext"].as_object().unwrap();
        assert!(!security.contains_key("runAsUser") && security["runAsNonRoot"] == true);
        let environment = pod["containers"][0]["env"].as_array().unwrap();
        let added = environment.contains(&json!({ "name": "RUST_LOG", "value": "debug" }));
        assert_eq!(added, deployment == "hnc-webhook", "{environment:?}");
    }
}

/// The controller learns from flags which certificates the webhook configurations should contain, or which program adds them.
#[tokio::test]
async fn certificates_are_issued_brought_or_left_to_cert_manager() {
    let helm = Helm::alone().await;
    let flags = |objects: &[Value]| -> Vec<String> {
        let prefixes = ["--enable-internal", "--webhook-ca-bundle", "--webhook-annotation"];
        let all = args(objects, "hnc-controller-manager").into_iter();
        all.filter(|arg| prefixes.iter().any(|prefix| arg.starts_with(prefix))).collect()
    };
    let mounts = |objects: &[Value]| {
        !find(objects, "Deployment", "hnc-webhook").unwrap()["spec"]["template"]["spec"]["volumes"].is_null()
    };
    let internal = helm.template(&[]).await.unwrap();
    assert_eq!(flags(&internal), ["--enable-internal-cert-management"]);
    assert!(!mounts(&internal));
    let secrets: Vec<_> = internal.iter().filter(|object| object["kind"] == "Secret").collect();
    assert!(secrets.len() == 1 && secrets[0]["data"].is_null(), "{secrets:?}");
    assert_eq!(secrets[0]["metadata"]["name"], "hnc-webhook-server-cert");
    assert!(args(&internal, "hnc-webhook").contains(&"--enable-internal-cert-management".to_owned()));

    let managed = helm.template(&set(&["certificates.mode=cert-manager"])).await.unwrap();
    let from = "some-namespace/hnc-webhook-server-cert";
    assert_eq!(flags(&managed), [format!("--webhook-annotation=cert-manager.io/inject-ca-from={from}")]);
    assert!(mounts(&managed) && find(&managed, "Issuer", "hnc-webhook-server-cert").is_some());
    let certificate = find(&managed, "Certificate", "hnc-webhook-server-cert").unwrap();
    assert_eq!(certificate["spec"]["dnsNames"][0], "hnc-webhook-service.some-namespace.svc");
    assert!(!managed.iter().any(|object| object["kind"] == "Secret"));

    let provided = ["certificates.mode=provided", CA_BUNDLE, "certificates.secretName=mine"];
    let provided = helm.template(&set(&provided)).await.unwrap();
    assert_eq!(flags(&provided), [CA_BUNDLE.replace("certificates.caBundle", "--webhook-ca-bundle")]);
    let volumes =
        &find(&provided, "Deployment", "hnc-webhook").unwrap()["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["secret"]["secretName"], "mine");
    assert!(!args(&provided, "hnc-webhook").contains(&"--enable-internal-cert-management".to_owned()));
}

/// Alerts and dashboard are those of `files/`, whole.
#[tokio::test]
async fn what_watches_an_installation_is_made_when_it_is_asked_for() {
    let helm = Helm::alone().await;
    let is_of_metrics = |object: &&Value| {
        let kind = object["kind"].as_str().unwrap();
        kind.contains("Monitor") || kind == "PrometheusRule" || object["metadata"]["name"] == "hns-dashboard"
    };
    let by_default = helm.template(&[]).await.unwrap();
    assert_eq!(by_default.iter().filter(is_of_metrics).count(), 0);
    let is_annotated = |object: &Value| object["annotations"]["prometheus.io/scrape"] == "true";
    for object in &by_default {
        let of_pods = &object["spec"]["template"]["metadata"];
        assert!(!is_annotated(&object["metadata"]), "twice: {object}");
        assert_eq!(is_annotated(of_pods), object["kind"] == "Deployment", "{object}");
    }
    let values = [
        "metrics.serviceMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "metrics.grafanaDashboard.enabled=true",
    ];
    let objects = helm.template(&set(&values)).await.unwrap();
    assert_eq!(objects.iter().filter(is_of_metrics).count(), 3);
    let files = super::helm::checkout().join("charts/hns/files");
    let alerts = std::fs::read_to_string(files.join("alerts.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    assert_eq!(find(&objects, "PrometheusRule", "hns").unwrap()["spec"], alerts);
    let dashboard = std::fs::read_to_string(files.join("dashboard.json")).unwrap();
    let rendered = &find(&objects, "ConfigMap", "hns-dashboard").unwrap()["data"]["hns.json"];
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parsed(rendered.as_str().unwrap()), parsed(&dashboard));
    let selected = &find(&objects, "ServiceMonitor", "hns").unwrap()["spec"]["selector"]["matchLabels"];
    let selects = |service: &&Value| {
        let labels = &service["metadata"]["labels"];
        selected.as_object().unwrap().iter().all(|(key, value)| &labels[key] == value)
    };
    let services: Vec<&Value> = objects.iter().filter(|it| it["kind"] == "Service").filter(selects).collect();
    assert_eq!(services.len(), 2, "both Services of metrics, and not the webhook's");
}

/// Without addresses nobody is kept from the webhook's port; with them, and with client certificates, all but API servers are.
#[tokio::test]
async fn the_port_of_the_webhook_is_closed_to_all_but_api_servers_where_these_are_known() {
    let helm = Helm::alone().await;
    let by_default = helm.template(&[]).await.unwrap();
    assert!(by_default.iter().all(|object| object["kind"] != "NetworkPolicy"));
    assert!(!args(&by_default, "hnc-webhook").iter().any(|it| it.starts_with("--client-")));

    let addresses = "networkPolicy.apiServerCIDRs={10.0.0.1/32,fd00::/64}";
    for enabled in [false, true] {
        let enabled = format!("networkPolicy.enabled={enabled}");
        let objects = helm.template(&set(&[addresses, &enabled])).await.unwrap();
        let policy = &find(&objects, "NetworkPolicy", "hnc-webhook").unwrap()["spec"];
        let rules = policy["ingress"].as_array().unwrap();
        let of_port = |port: u16| rules.iter().find(|rule| rule["ports"][0]["port"] == port).unwrap();
        let from = json!([{ "ipBlock": { "cidr": "10.0.0.1/32" } }, { "ipBlock": { "cidr": "fd00::/64" } }]);
        assert_eq!(of_port(9443)["from"], from);
        assert!(of_port(8081)["from"].is_null() && of_port(8080)["from"].is_null() && rules.len() == 3);
        let restricts_egress = policy["policyTypes"].as_array().unwrap().contains(&json!("Egress"));
        assert_eq!(restricts_egress, enabled.ends_with("true"), "{policy}");
        let other = find(&objects, "NetworkPolicy", "hnc-controller-manager");
        assert_eq!(other.is_some(), enabled.ends_with("true"));
    }
    // As docs/webhook-access.md removes them, over the values of the release.
    let values = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(values.path(), "networkPolicy: {apiServerCIDRs: [10.0.0.1/32]}").unwrap();
    let values = values.path().to_str().unwrap();
    for (without, is_left) in [(&[][..], true), (&["--set-json", "networkPolicy.apiServerCIDRs=[]"], false)] {
        let objects = helm.template(&[&["--values", values], without].concat()).await.unwrap();
        assert_eq!(objects.iter().any(|object| object["kind"] == "NetworkPolicy"), is_left);
    }
    let said = ["template", "x", "charts/hns", "--set", addresses, "--set", "webhook.hostNetwork=true"];
    let said = helm.run(&said).await.unwrap();
    assert!(!said.success && said.stderr.contains("use webhook.clientCertificates"), "{}", said.stderr);

    for mode in ["internal", "cert-manager"] {
        let mode = format!("certificates.mode={mode}");
        let clients = ["clientCertificates.configMap=clients", "clientCertificates.allowedNames={a,b c}"];
        let clients = clients.map(|value| format!("webhook.{value}"));
        let objects = helm.template(&set(&[&mode, &clients[0], &clients[1]])).await.unwrap();
        let args = args(&objects, "hnc-webhook");
        for arg in [
            "--client-ca-file=/etc/hns/clients/ca.crt",
            "--client-allowed-name=a",
            "--client-allowed-name=b c",
        ] {
            assert!(args.contains(&arg.to_owned()), "{arg}: {args:?}");
        }
        let pod = &find(&objects, "Deployment", "hnc-webhook").unwrap()["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|it| it["name"] == "clients").unwrap();
        let expected = json!({ "name": "clients", "items": [{ "key": "ca.crt", "path": "ca.crt" }] });
        assert_eq!(volume["configMap"], expected);
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|it| it["name"] == "clients" && it["mountPath"] == "/etc/hns/clients"));
        assert_eq!(mounts.len(), volumes.len());
    }
}
