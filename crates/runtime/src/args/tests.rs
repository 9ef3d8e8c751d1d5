use clap::CommandFactory as _;

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
    assert_eq!(args.common.included_namespace_regex.as_str(), "^(?:.*)$");
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
    assert!(controller.common.excluded_namespaces().contains("hnc-system"));
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
    let args = webhook("--excluded-namespace=a -excluded-namespace b --excluded-namespace c").args;
    let names: Vec<_> = args.common.excluded_namespaces().into_iter().collect();
    assert_eq!(names, ["a", "b", "c", "hnc-system"]);
    let args = webhook("--webhook-server-port=1 --webhook-server-port 9443").args;
    assert_eq!(args.server.webhook_server_port, 9443);
}

#[test]
fn a_value_may_begin_with_a_dash() {
    assert_eq!(webhook("--apiserver-qps-throttle -1").args.common.apiserver_qps_throttle, 0);
    assert_eq!(webhook("--apiserver-qps-throttle 50").args.common.apiserver_qps_throttle, 50);
}

#[test]
fn the_regex_must_match_whole_names() {
    let regex = webhook("--included-namespace-regex foo|bar").args.common.included_namespace_regex;
    for (name, expected) in [("foo", true), ("bar", true), ("foobaz", false), ("xbar", false)] {
        assert_eq!(regex.is_match(name), expected, "{name}");
    }
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
        "--max-reconciles",
    ];
    for line in table {
        let Err(Stop::Usage(message)) = parse::<Webhook>(line) else {
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
        assert!(text.contains("--excluded-namespace <NAMESPACE>"), "{text}");
    }
    assert_eq!(parse::<Webhook>("--version").unwrap_err(), Stop::Text("hns-webhook 9.9.9\n".to_owned()));
    for arg in Webhook::command().get_arguments().chain(Controller::command().get_arguments()) {
        assert!(arg.get_help().is_some(), "no help: {arg}");
    }
}

/// The settings of a line, which both binaries understand alike.
fn settings(line: &str) -> forest::Settings {
    let controller = parse::<Controller>(line).unwrap_or_else(|stop| panic!("{line}: {stop}"));
    let (webhook, controller) = (webhook(line).args.common, controller.args.common);
    let (settings, other) = (webhook.settings().unwrap(), controller.settings().unwrap());
    assert_eq!(format!("{:?}", webhook.propagation), format!("{:?}", controller.propagation), "{line}");
    assert_eq!(settings.nopropagation_labels, other.nopropagation_labels, "{line}");
    settings
}

#[test]
fn what_is_propagated_of_objects() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let none = settings("");
    assert!(none.nopropagation_labels.is_empty() && !none.propagate_tracking_metadata);
    assert!(none.unpropagated_labels.is_empty() && none.unpropagated_annotations.is_empty());
    assert!(none.is_ignored_key("helm.sh/chart"));

    let labels = settings(
        "--nopropagation-label cattle.io/creator=norman -nopropagation-label=mark= --nopropagation-label=mark=x",
    );
    let expected = [pair("cattle.io/creator", "norman"), pair("mark", ""), pair("mark", "x")];
    assert_eq!(labels.nopropagation_labels, expected);

    let keys =
        settings("--unpropagated-label a.io/* --unpropagated-label=b --unpropagated-annotation ?.io/note");
    let table =
        [("a.io/x", true, false), ("b", true, false), ("c.io/note", false, true), ("bb", false, false)];
    for (key, is_label, is_annotation) in table {
        let found = (keys.unpropagated_labels.matches(key), keys.unpropagated_annotations.matches(key));
        assert_eq!(found, (is_label, is_annotation), "{key}");
    }

    for (line, on) in [("", true), ("=true", true), ("=1", true), ("=false", false)] {
        let line = format!("--propagate-tracking-metadata{line}");
        assert_eq!(settings(&line).propagate_tracking_metadata, on, "{line}");
        assert_eq!(settings(&line).is_ignored_key("helm.sh/chart"), !on, "{line}");
    }
    assert_eq!(none.rbac_on_conflict, forest::OnConflict::Keep);
    for word in forest::OnConflict::ALL {
        assert_eq!(settings(&format!("--rbac-on-conflict={word}")).rbac_on_conflict, word);
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn hncs_other_flags_are_set_aside() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("--enable-stackdriver", &["enable-stackdriver"], &[]),
        ("-enable-stackdriver=false", &["enable-stackdriver"], &[]),
        ("--max-reconciles=10", &["max-reconciles"], &[]),
        ("--max-reconciles 10", &["max-reconciles"], &[]),
        ("--hrq-sync-interval 1m", &["hrq-sync-interval"], &[]),
        ("--leader-election-id other", &["leader-election-id"], &[]),
        ("--enable-hrq", &[], &["enable-hrq"]),
        ("--enable-hrq=false", &["enable-hrq"], &[]),
        ("--nopropagation-label a=b --unpropagated-annotation a --unpropagated-label=b", &[], &[]),
        ("--managed-namespace-label c --managed-namespace-annotation d", &[], &[]),
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
            &[],
        ),
    ];
    for (line, meaningless, without_effect) in table {
        // The flag behind shows that nothing too much was swallowed.
        let parsed = webhook(&format!("{line} --namespace=behind"));
        assert_eq!(parsed.ignored.meaningless, set(meaningless), "{line}");
        assert_eq!(parsed.ignored.without_effect, set(without_effect), "{line}");
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
}

#[test]
fn settings_show_values_and_defaults() {
    let settings = webhook("--excluded-namespace a --excluded-namespace b --debug-logs").settings;
    for expected in [
        "--excluded-namespace=a --excluded-namespace=b",
        "--debug-logs=true",
        "--namespace=hnc-system",
        "--webhook-server-port=443",
        "--shutdown-timeout=8s",
    ] {
        assert!(settings.contains(expected), "{settings}");
    }
}
