//! What is published, read back, compared, and when it is written.

use clap::Parser;

use super::publish::Place;
use super::*;
use crate::args::{CommonArgs, LeaderElectionArgs, WebhookServerArgs, parse_from};

#[derive(Debug, Parser)]
#[command(name = "hns-webhook")]
struct Webhook {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    server: WebhookServerArgs,
    #[arg(long, default_value = "someone")]
    whose: String,
}

#[derive(Debug, Parser)]
#[command(name = "hns-controller")]
struct Controller {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    election: LeaderElectionArgs,
}

fn of<T: Parser>(line: &str) -> Document {
    let words = std::iter::once("program").chain(line.split_whitespace());
    let parsed = parse_from::<T>(words).unwrap();
    Document { version: "1".into(), common: parsed.common, own: parsed.own }
}

fn webhook(line: &str) -> Document {
    of::<Webhook>(line)
}

#[test]
fn what_both_must_have_in_common_is_all_that_the_digest_is_of() {
    let plain = webhook("").common.digest();
    assert!(plain.starts_with("sha256:") && plain.len() == 71, "{plain}");
    for same in [
        "--debug-logs --metrics-addr=:1 --kubeconfig=x --apiserver-qps-throttle=9 --log-format=text",
        "--webhook-server-port=9443 --cert-dir=/x --whose=else",
        "--refuse-label-conflicts=F --ancestry-annotation=0",
        "--excluded-namespace=hnc-system",
        "--enable-leader-election --max-reconciles=10",
    ] {
        assert_eq!(webhook(same).common.digest(), plain, "{same}");
        assert_eq!(of::<Controller>(same.split(" --whose").next().unwrap()).common.digest(), plain, "{same}");
    }
    let mut seen = vec![plain];
    for other in [
        "--namespace=other",
        "--excluded-namespace=a",
        "--included-namespace-regex=a.*",
        "--managed-namespace-label=a",
        "--managed-namespace-annotation=a",
        "--refuse-label-conflicts",
        "--external-manager=a=b",
        "--restore-identity=a",
        "--ancestry-annotation",
        "--initial-admin",
        "--initial-admin-cluster-role=edit",
        "--nopropagation-label=a=b",
        "--unpropagated-label=a",
        "--unpropagated-annotation=a",
        "--propagate-tracking-metadata",
        "--rbac-on-conflict=Overwrite",
        "--enable-internal-cert-management",
        "--cert-secret-name=other",
    ] {
        let digest = webhook(other).common.digest();
        assert!(!seen.contains(&digest), "{other} changes nothing");
        seen.push(digest);
    }
    assert_eq!(
        seen.len(),
        args::common_flags().len() + 1,
        "every common flag was tried: {:?}",
        args::common_flags()
    );
}

#[test]
fn order_and_spelling_mean_nothing() {
    let one = webhook("--excluded-namespace=a --excluded-namespace b -initial-admin=T --restore-identity=x");
    let other = webhook("--restore-identity x --initial-admin --excluded-namespace=b --excluded-namespace=a");
    assert_eq!(one, other);
    assert_eq!(webhook("--whose=me").own.0["whose"], Setting::One("me".into()));
}

#[test]
fn settings_are_read_back_as_they_were() {
    let line = "--namespace=home --excluded-namespace=a --included-namespace-regex=(x|y).* \
                --managed-namespace-label=team/.* --nopropagation-label=k= --unpropagated-annotation=z/* \
                --external-manager=v=system:x --restore-identity=velero --initial-admin --ancestry-annotation=true";
    let document = webhook(line);
    let read = Document::read(&document.data(Component::Webhook), Component::Webhook).unwrap();
    assert_eq!(read, document);
    let (settings, unknown) = read.common.settings().unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    for (name, managed) in [("home", false), ("a", false), ("x1", true), ("z", false)] {
        assert_eq!(settings.is_managed(name), managed, "{name}");
    }
    assert!(settings.is_managed_label("team/a") && !settings.is_managed_label("a"));
    assert!(settings.unpropagated_annotations.matches("z/y"));
    assert_eq!(settings.nopropagation_labels, [("k".to_owned(), String::new())]);
    assert_eq!(settings.initial_admin.as_deref(), Some("admin"));
    assert!(settings.ancestry_annotation && !settings.propagate_tracking_metadata);
    assert_eq!(settings.external_managers.len(), 1);
    assert_eq!(settings.restore_identities.len(), 1);
}

#[test]
fn flags_of_another_version_are_named_and_nothing_but_settings_is_read() {
    let mut document = webhook("--excluded-namespace=a");
    for flag in ["to-come", "kubeconfig", "webhook-server-port"] {
        document.common.set(flag, Setting::One("x".into()));
    }
    let (settings, unknown) = document.common.settings().unwrap();
    assert_eq!(unknown, ["kubeconfig", "to-come", "webhook-server-port"]);
    assert!(!settings.is_managed("a"));
    document.common.set("included-namespace-regex", Setting::One("(".into()));
    let error = document.common.settings().unwrap_err().to_string();
    assert!(error.contains("included-namespace-regex"), "{error}");
}

#[test]
fn what_does_not_fit_its_digest_was_not_said() {
    let data = webhook("--excluded-namespace=a").data(Component::Webhook);
    assert!(Document::read(&data, Component::Webhook).is_some());
    assert!(Document::read(&data, Component::Controller).is_none());
    for (key, value) in [
        ("webhook", data["webhook"].replace("\"a\"", "\"b\"")),
        ("webhook", "{".into()),
        ("webhook.digest", "sha256:00".into()),
    ] {
        let mut forged = data.clone();
        forged.insert(key.into(), value);
        assert_eq!(Document::read(&forged, Component::Webhook), None, "{key}");
    }
}

#[test]
fn differences_name_the_flags_and_who_has_them() {
    let (one, other) =
        (webhook("--excluded-namespace=a --excluded-namespace=b"), webhook("--excluded-namespace=b"));
    assert_eq!(difference(Some(&one), Some(&one)), None);
    assert_eq!(difference(Some(&one), None), None, "who says nothing does not disagree");
    assert_eq!(
        difference(Some(&one), Some(&other)).unwrap(),
        "only hns-controller has --excluded-namespace=a"
    );
    assert_eq!(
        difference(Some(&other), Some(&webhook("--excluded-namespace=c --initial-admin"))).unwrap(),
        "only hns-controller has --excluded-namespace=b, only hns-webhook has --excluded-namespace=c; \
         only hns-controller has --initial-admin=false, only hns-webhook has --initial-admin=true"
    );
    let many: Vec<String> = (1..=7).map(|it| format!("--restore-identity=u{it}")).collect();
    let many = many.join(" ");
    let text = difference(Some(&webhook(&many)), Some(&other)).unwrap();
    assert!(text.ends_with("--restore-identity=u5 and 2 more"), "{text}");
}

#[test]
fn a_replica_speaks_once_and_then_only_where_nobody_has() {
    let (mine, theirs) = (webhook(""), webhook("--initial-admin"));
    let (said, otherwise) = (mine.data(Component::Webhook), theirs.data(Component::Webhook));
    let mut forged = said.clone();
    forged.insert("webhook".into(), "{}".into());
    let mut beside = said.clone();
    beside.extend(theirs.data(Component::Controller));
    let nothing = BTreeMap::new();

    let start = |claim| Place::new(Component::Webhook, mine.clone(), claim);
    for claim in [Claim::Shared, Claim::Sole] {
        for (data, written) in
            [(&nothing, true), (&otherwise, true), (&forged, true), (&said, false), (&beside, false)]
        {
            assert_eq!(start(claim).is_to_be_written(data), written, "{claim:?} at its start: {data:?}");
            let mut later = start(claim);
            assert!(!later.is_to_be_written(&said));
            let written = written && (claim == Claim::Sole || data != &otherwise);
            assert_eq!(later.is_to_be_written(data), written, "{claim:?} later: {data:?}");
        }
    }
    // Until a write has succeeded it is owed.
    let mut refused = start(Claim::Shared);
    assert!(refused.is_to_be_written(&otherwise) && refused.is_to_be_written(&otherwise));
    refused.is_said = true;
    assert!(!refused.is_to_be_written(&otherwise) && refused.is_contradicted);
    // Another version with the same settings is no contradiction.
    let newer = Document { version: "2".into(), ..mine.clone() };
    assert!(!refused.is_to_be_written(&newer.data(Component::Webhook)) && !refused.is_contradicted);
}
