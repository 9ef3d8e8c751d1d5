use clap::CommandFactory as _;

use std::collections::BTreeSet;

use hns_cluster::settings::{FailurePolicy, SharedSettings};

use super::*;

#[derive(Debug, Parser)]
#[command(name = "hns-webhook", version = "9.9.9")]
struct Webhook {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    server: WebhookServerArgs,
}

#[derive(Debug, Parser)]
#[command(name = "hns-controller")]
struct Controller {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    election: LeaderElectionArgs,
    #[command(flatten)]
    issuer: IssuerArgs,
    #[command(flatten)]
    shared: SharedArgs,
}

fn parse<T: Parser>(line: &str) -> Result<Parsed<T>, Stop> {
    parse_from::<T>(std::iter::once("program").chain(line.split(' ').filter(|w| !w.is_empty())))
}

fn webhook(line: &str) -> Parsed<Webhook> {
    parse(line).unwrap_or_else(|stop| panic!("{line}: {stop}"))
}

#[test]
fn definitions_are_sound() {
    Webhook::command().debug_assert();
    Controller::command().debug_assert();
}

#[test]
fn defaults_are_hncs() {
    let args = webhook("").args;
    assert_eq!(args.common.namespace, "hnc-system");
    assert_eq!(args.common.kubeconfig(), None);
    assert_eq!(args.common.metrics_addr, ListenAddress::AllInterfaces(8080));
    assert_eq!(args.common.health_probe_bind_address, ListenAddress::AllInterfaces(8081));
    assert!(!args.common.debug_logs);
    assert_eq!(args.common.apiserver_qps_throttle, 0);
    assert_eq!(args.common.log_format, LogFormat::Json);
    assert_eq!(args.server.listen_address(), ListenAddress::AllInterfaces(443));
    assert_eq!(args.server.cert_dir, Path::new("/tmp/k8s-webhook-server/serving-certs"));
    assert_eq!(args.server.shutdown_delay, Duration::from_secs(3));
    assert_eq!(args.server.shutdown_timeout, Duration::from_secs(8));
    let controller = parse::<Controller>("").unwrap().args;
    assert_eq!(controller.election.leader_election_id, "hns-controller");
    assert_eq!(controller.shared.over(SharedSettings::default()), SharedSettings::default());
    assert!(!controller.common.certificates.enable_internal_cert_management);
    assert_eq!(controller.common.certificates.cert_secret_name, "hnc-webhook-server-cert");
    assert_eq!(controller.issuer.webhook_service_name, "hnc-webhook-service");
    assert_eq!(controller.election.timing().unwrap(), Timing::default());
}

#[test]
fn a_value_in_every_spelling() {
    for line in [
        "--namespace other",
        "--namespace=other",
        "-namespace other",
        "-namespace=other",
        "--namespace=first --namespace=other",
        "--namespace other --",
    ] {
        assert_eq!(webhook(line).args.common.namespace, "other", "{line}");
    }
}

#[test]
fn booleans_as_go_writes_them() {
    let table = [
        ("--debug-logs", true),
        ("-debug-logs", true),
        ("--debug-logs=true", true),
        ("--debug-logs=1", true),
        ("-debug-logs=t", true),
        ("--debug-logs=TRUE", true),
        ("--debug-logs=false", false),
        ("-debug-logs=F", false),
        ("--debug-logs=0", false),
        ("--debug-logs --debug-logs=false", false),
        ("--debug-logs=false --debug-logs", true),
    ];
    for (line, expected) in table {
        assert_eq!(webhook(line).args.common.debug_logs, expected, "{line}");
    }
    let args = webhook("--debug-logs --namespace=other").args;
    assert!(args.common.debug_logs && args.common.namespace == "other");
}

#[test]
fn a_boolean_does_not_swallow_the_next_word() {
    let Err(Stop::Usage(line)) = parse::<Webhook>("--debug-logs false") else {
        panic!("accepted");
    };
    assert!(line.contains("'false'"), "{line}");
}

#[test]
fn repeated_and_single_values() {
    let names =
        shared("--excluded-namespace=a -excluded-namespace b --excluded-namespace c").excluded_namespaces;
    assert_eq!(names, set(&["a", "b", "c"]));
    let args = webhook("--webhook-server-port=1 --webhook-server-port 9443").args;
    assert_eq!(args.server.webhook_server_port, 9443);
}

#[test]
fn a_value_may_begin_with_a_dash() {
    assert_eq!(webhook("--apiserver-qps-throttle -1").args.common.apiserver_qps_throttle, 0);
    assert_eq!(webhook("--apiserver-qps-throttle 50").args.common.apiserver_qps_throttle, 50);
}

#[test]
fn empty_and_off() {
    let common = webhook("--kubeconfig= --metrics-addr=0 --health-probe-bind-address=").args.common;
    assert_eq!(common.kubeconfig(), None);
    assert_eq!(common.metrics_addr, ListenAddress::Off);
    assert_eq!(common.health_probe_bind_address, ListenAddress::Off);
    let common = webhook("--kubeconfig a/b").args.common;
    assert_eq!(common.kubeconfig(), Some(Path::new("a/b")));
}

#[test]
fn durations() {
    let table =
        [("8", 8_000), ("0", 0), ("500ms", 500), ("1m30s", 90_000), ("1.5s", 1_500), ("1h", 3_600_000)];
    for (given, millis) in table {
        let args = webhook(&format!("--shutdown-timeout={given}")).args;
        assert_eq!(args.server.shutdown_timeout, Duration::from_millis(millis), "{given}");
    }
}

#[test]
fn bind_addresses() {
    let table = [
        ("127.0.0.1", ListenAddress::Host("127.0.0.1".into(), 443)),
        ("[::1]", ListenAddress::Host("::1".into(), 443)),
        ("::1", ListenAddress::Host("::1".into(), 443)),
        ("localhost", ListenAddress::Host("localhost".into(), 443)),
    ];
    for (given, expected) in table {
        let args = webhook(&format!("--webhook-server-bind-address={given}")).args;
        assert_eq!(args.server.listen_address(), expected, "{given}");
    }
}

#[test]
fn mistakes_are_one_line_naming_the_flag() {
    let table = [
        "--webhook-server-port=0",
        "--webhook-server-port=65536",
        "--webhook-server-port=many",
        "--webhook-server-bind-address=127.0.0.1:443",
        "--included-namespace-regex=(",
        "--included-namespace-regex=a)|(b",
        "--debug-logs=maybe",
        "--apiserver-qps-throttle=fast",
        "--log-format=xml",
        "--metrics-addr=8080",
        "--health-probe-bind-address=:x",
        "--namespace=Upper",
        "--namespace=",
        "--namespace",
        "--excluded-namespace=a,b",
        "--shutdown-timeout=soon",
        "--shutdown-timeout=",
        "--shutdown-timeout=2h",
        "--shutdown-timeout=-1s",
        "--shutdown-delay=nan",
        "--no-such-flag",
        "-no-such-flag=1",
        "--enable-hrq=maybe",
        "--nopropagation-label=creator",
        "--nopropagation-label==norman",
        "--nopropagation-label=creator=norman=x",
        "--nopropagation-label=",
        "--nopropagation-label",
        "--unpropagated-label=",
        "--unpropagated-label=[",
        "--unpropagated-annotation=a{b",
        "--propagate-tracking-metadata=maybe",
        "--rbac-on-conflict=overwrite",
        "--hrq-failure-policy=fail",
        "--max-reconciles",
    ];
    for line in table {
        let refused = match parse::<Webhook>(line) {
            Ok(parsed) if !parsed.ignored.shared.is_empty() => parse::<Controller>(line).map(drop),
            other => other.map(drop),
        };
        let Err(Stop::Usage(message)) = refused else {
            panic!("accepted: {line}");
        };
        let name = line.trim_start_matches('-').split('=').next().unwrap();
        assert!(message.contains(&format!("--{name}")), "{line}: {message}");
        assert!(!message.contains('\n') && message.len() < 250, "{line}: {message}");
        println!("{message}");
    }
    for line in ["word", "---namespace=x", "--=x", "-- word", "--leader-election-id=Upper word"] {
        assert!(matches!(parse::<Webhook>(line), Err(Stop::Usage(_))), "accepted: {line}");
    }
    for (line, missing) in [
        ("--client-ca-file=/ca.crt", "--client-allowed-name"),
        ("--client-allowed-name=api", "--client-ca-file"),
    ] {
        let refused = parse::<Webhook>(line);
        assert!(matches!(&refused, Err(Stop::Usage(said)) if said.contains(missing)), "{line}: {refused:?}");
    }
    let args = webhook("--client-ca-file=/ca.crt --client-allowed-name=a --client-allowed-name=b").args;
    assert_eq!(args.server.client_allowed_names, ["a", "b"]);
    let lease = parse::<Controller>("--leader-election-id=Upper");
    assert!(matches!(lease, Err(Stop::Usage(line)) if line.contains("--leader-election-id")));
}

#[test]
fn help_and_version_are_text() {
    for line in ["--help", "-help", "-h"] {
        let Err(Stop::Text(text)) = parse::<Webhook>(line) else {
            panic!("no text: {line}");
        };
        assert!(text.contains("--namespace <NAMESPACE>"), "{text}");
    }
    for flag in ["--version", "-V"] {
        assert_eq!(parse::<Webhook>(flag).unwrap_err(), Stop::Text("hns-webhook 9.9.9\n".to_owned()));
    }
    for arg in Webhook::command().get_arguments().chain(Controller::command().get_arguments()) {
        assert!(arg.get_help().is_some(), "no help: {arg}");
    }
}

/// The settings of a line without a document.
fn shared(line: &str) -> SharedSettings {
    let args = parse::<Controller>(line).unwrap_or_else(|stop| panic!("{line}: {stop}")).args;
    args.shared.over(SharedSettings::default())
}

#[test]
fn shared_flags_stand_for_keys_of_the_document() {
    let settings = shared(
        "--nopropagation-label cattle.io/creator=norman -nopropagation-label=mark= --unpropagated-label a.io/* \
         --initial-admin --propagate-tracking-metadata=1 --ancestry-annotation=false --rbac-on-conflict=Report \
         --enable-hrq --hrq-failure-policy=Fail",
    );
    let propagation = &settings.propagation;
    assert_eq!(propagation.nopropagation_labels, set(&["cattle.io/creator=norman", "mark="]));
    assert_eq!(propagation.unpropagated_labels, set(&["a.io/*"]));
    assert!(settings.initial_admin.enabled && propagation.tracking_metadata && !settings.ancestry_annotation);
    assert_eq!(propagation.rbac_on_conflict, "Report");
    let quotas = &settings.hierarchical_quotas;
    assert!(quotas.enabled && quotas.failure_policy == FailurePolicy::Fail);
}

#[test]
fn elsewhere_shared_flags_are_named_and_have_no_effect() {
    let ignored = webhook("--excluded-namespace a --initial-admin --refuse-label-conflicts=false").ignored;
    assert_eq!(ignored.shared, set(&["excluded-namespace", "initial-admin", "refuse-label-conflicts"]));
    assert_eq!(parse::<Controller>("--excluded-namespace a").unwrap().ignored, IgnoredFlags::default());
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn hncs_other_flags_are_set_aside() {
    let table: &[(&str, &[&str])] = &[
        ("--enable-stackdriver", &["enable-stackdriver"]),
        ("-enable-stackdriver=false", &["enable-stackdriver"]),
        ("--max-reconciles=10", &["max-reconciles"]),
        ("--max-reconciles 10", &["max-reconciles"]),
        ("--hrq-sync-interval 1m", &["hrq-sync-interval"]),
        ("--leader-election-id other", &["leader-election-id"]),
        (
            "--enable-leader-election --no-webhooks --webhooks-only --enable-test-log \
             --cert-restart-on-secret-refresh \
             --suppress-object-tags=false",
            &[
                "cert-restart-on-secret-refresh",
                "enable-leader-election",
                "enable-test-log",
                "no-webhooks",
                "suppress-object-tags",
                "webhooks-only",
            ],
        ),
    ];
    for (line, meaningless) in table {
        // The flag behind shows that nothing too much was swallowed.
        let parsed = webhook(&format!("{line} --namespace=behind"));
        assert_eq!(parsed.ignored.meaningless, set(meaningless), "{line}");
        assert_eq!(parsed.args.common.namespace, "behind", "{line}");
    }
    let controller = parse::<Controller>("--webhook-server-port 9443 --cert-dir=x").unwrap();
    assert_eq!(controller.ignored.meaningless, set(&["cert-dir", "webhook-server-port"]));
}

#[test]
fn certificates_are_made_as_hncs_flag_says() {
    let table =
        [("--enable-internal-cert-management", true), ("-enable-internal-cert-management=false", false)];
    for (line, expected) in table {
        let parsed = webhook(line);
        assert_eq!(parsed.args.common.certificates.enable_internal_cert_management, expected, "{line}");
        assert_eq!(parsed.ignored, IgnoredFlags::default(), "{line}");
    }
}

#[test]
fn times_that_contradict_each_other_are_refused() {
    let controller = |line: &str| parse::<Controller>(line).unwrap().args;
    for (line, valid) in [("", true), ("--cert-validity=0", false)] {
        assert_eq!(controller(line).issuer.check().is_ok(), valid, "{line}");
    }
    for (line, valid) in [
        ("--leader-elect-lease-duration=4s --leader-elect-renew-deadline=3s", true),
        ("--leader-elect-lease-duration=10s", false),
        ("--leader-elect-lease-duration=15500ms", false),
        ("--leader-elect-renew-deadline=2s", false),
        ("--leader-elect-retry-period=0", false),
    ] {
        assert_eq!(controller(line).election.timing().is_ok(), valid, "{line}");
    }
    let refused = controller("--leader-elect-lease-duration=0").election.timing().unwrap_err().to_string();
    assert!(refused.ends_with("shorter than --leader-elect-lease-duration=0s"), "{refused}");
}

#[test]
fn settings_show_values_and_defaults() {
    let settings =
        parse::<Controller>("--excluded-namespace a --excluded-namespace b --debug-logs").unwrap().settings;
    for expected in ["--excluded-namespace=a --excluded-namespace=b", "--leader-election-id=hns-controller"] {
        assert!(settings.contains(expected), "{settings}");
    }
    let settings = webhook("--debug-logs").settings;
    for expected in
        ["--debug-logs=true", "--namespace=hnc-system", "--webhook-server-port=443", "--shutdown-timeout=8s"]
    {
        assert!(settings.contains(expected), "{settings}");
    }
}
