//! What entries mean, what is wrong with them, and which rights a kind needs.

use super::rights::{Account, Right, lacks, needed};
use super::*;

const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn served_kind(group: &str, kind: &str, resource: &str, short_names: &[&str]) -> ServedKind {
    ServedKind {
        kind: Kind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            resource: resource.into(),
        },
        singular: kind.to_lowercase(),
        short_names: short_names.iter().map(ToString::to_string).collect(),
        namespaced: true,
        verbs: ALL_VERBS.map(str::to_owned).into(),
    }
}

fn served() -> Served {
    let rbac = "rbac.authorization.k8s.io";
    let mut kinds = vec![
        served_kind("example.com", "Gadget", "gadgets", &["g"]),
        served_kind("", "Secret", "secrets", &[]),
        served_kind("", "ConfigMap", "configmaps", &["cm"]),
        served_kind("", "Event", "events", &["ev"]),
        served_kind("events.k8s.io", "Event", "events", &["ev"]),
        served_kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", &["netpol"]),
        served_kind("other.io", "Gadget", "gadgets", &["g"]),
        served_kind("solo.io", "Thing", "things", &["g", "secrets"]),
        served_kind(rbac, "Role", "roles", &[]),
        served_kind(rbac, "RoleBinding", "rolebindings", &[]),
        served_kind("hnc.x-k8s.io", "SubnamespaceAnchor", "subnamespaceanchors", &["subns"]),
        served_kind("accurate.cybozu.com", "SubNamespace", "subnamespaces", &[]),
    ];
    let mut cluster_scoped = served_kind(rbac, "ClusterRole", "clusterroles", &[]);
    cluster_scoped.namespaced = false;
    let mut fixed = served_kind("", "Binding", "bindings", &[]);
    fixed.verbs = vec!["create".into()];
    kinds.extend([cluster_scoped, fixed]);
    Served { kinds, ..Served::default() }
}

/// `resource`, `resource.group`, and after a blank the mode.
fn entry(text: &str) -> Entry {
    let (name, mode) = text.split_once(' ').unwrap_or((text, "Propagate"));
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    let modes = [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore];
    let mode = modes.into_iter().find(|it| it.to_string() == mode).unwrap();
    Entry { group: group.into(), resource: resource.into(), mode, ..Entry::default() }
}

fn resolved(texts: &[&str], served: &Served) -> Resolution {
    let entries: Vec<_> = texts.iter().map(|text| Ok(entry(text))).collect();
    resolve(&entries, served)
}

/// Beyond what is always there: the kinds with their modes.
fn configured(resolution: &Resolution) -> Vec<String> {
    let line = |it: &Resolved| format!("{} {}", it.settings.kind.group_resource(), it.settings.mode);
    resolution.kinds[2..].iter().map(line).collect()
}

fn faults(resolution: &Resolution) -> Vec<(usize, Fault)> {
    resolution.findings.iter().map(|finding| (finding.entry, finding.fault)).collect()
}

#[test]
fn a_resource_is_found_by_every_name_it_has() {
    let cases = [
        ("secrets", "secrets"),
        ("secret", "secrets"),
        ("Secrets", "secrets"),
        ("cm", "configmaps"),
        ("things", "things.solo.io"),
        ("things.solo.io", "things.solo.io"),
        ("thing", "things.solo.io"),
        ("netpol", "networkpolicies.networking.k8s.io"),
        ("networkpolicy.networking.k8s.io", "networkpolicies.networking.k8s.io"),
        // The core group counts first.
        ("events", "events"),
        ("ev", "events"),
        ("event", "events"),
        ("events.events.k8s.io", "events.events.k8s.io"),
        ("gadgets.other.io", "gadgets.other.io"),
        ("g.example.com", "gadgets.example.com"),
        ("secrets.solo.io", "things.solo.io"),
    ];
    for (text, expected) in cases {
        // Events cannot be propagated.
        let mode = if expected.starts_with("events") { "Ignore" } else { "Propagate" };
        let resolution = resolved(&[&format!("{text} {mode}")], &served());
        assert_eq!(configured(&resolution), [format!("{expected} {mode}")], "{text}: {resolution:?}");
        assert_eq!(resolution.findings, [], "{text}");
        let shown = &resolution.kinds[2];
        assert_eq!(shown.resource, entry(text).resource, "as typed");
    }
}

#[test]
fn what_makes_no_sense_is_found_and_the_rest_is_in_force() {
    let cases: [(&str, Fault, &str, &[&str]); 15] = [
        ("crontabs", Fault::NotFound, "ResourceNotFound", &["no such resource", "delete-type"]),
        ("secrets.example.com", Fault::NotFound, "ResourceNotFound", &[]),
        ("secretss", Fault::NotFound, "ResourceNotFound", &[]),
        ("", Fault::NotFound, "ResourceNotFound", &[]),
        ("gadgets", Fault::Unusable, "Unknown", &["gadgets.example.com, gadgets.other.io"]),
        ("g", Fault::Unusable, "Unknown", &["gadgets.example.com, gadgets.other.io, things.solo.io"]),
        (
            "clusterroles",
            Fault::NotNamespaced,
            "ResourceNotNamespaced",
            &["clusterroles.rbac.authorization.k8s.io are cluster-scoped"],
        ),
        ("bindings", Fault::Unusable, "Unknown", &["list, watch, update, delete"]),
        ("subns", Fault::Unusable, "Unknown", &["never propagated"]),
        (
            "subnamespaces",
            Fault::Unusable,
            "Unknown",
            &["subnamespaces.accurate.cybozu.com", "never propagated"],
        ),
        ("events", Fault::Unusable, "Unknown", &["events are never propagated, because an Event"]),
        ("events.events.k8s.io AllowPropagate", Fault::Unusable, "Unknown", &["never propagated"]),
        ("roles", Fault::Enforced, "MultipleConfigurationsForType", &["always in mode Propagate"]),
        ("role.rbac.authorization.k8s.io Ignore", Fault::Enforced, "MultipleConfigurationsForType", &[]),
        ("cm Remove", Fault::Duplicate, "MultipleConfigurationsForType", &["spec.resources[0]"]),
    ];
    for (text, fault, reason, says) in cases {
        let resolution = resolved(&["configmaps", text, "secrets Ignore"], &served());
        assert_eq!(configured(&resolution), ["configmaps Propagate", "secrets Ignore"], "{text}");
        assert_eq!(faults(&resolution), [(1, fault)], "{text}");
        let finding = &resolution.findings[0];
        assert_eq!(finding.fault.reason(), reason);
        assert_eq!(finding.field(), "spec.resources[1]");
        for said in says {
            assert!(finding.to_string().contains(said), "{text}: {finding}");
        }
    }
}

#[test]
fn enforced_kinds_are_there_always_and_may_be_made_to_wait_for_consent() {
    let modes = |resolution: &Resolution| -> Vec<Mode> {
        resolution.settings().map(|settings| settings.mode).collect()
    };
    let nothing_served = resolved(&["secrets"], &Served::default());
    assert_eq!(modes(&nothing_served), [Mode::Propagate; 2]);
    assert_eq!(nothing_served.kinds, Resolution::enforced().kinds);

    let resolution = resolved(&["roles AllowPropagate", "secrets"], &served());
    assert_eq!(modes(&resolution), [Mode::AllowPropagate, Mode::Propagate, Mode::Propagate]);
    assert_eq!(resolution.findings, []);
    assert_eq!(resolution.kinds[0].settings.kind, Kind::role());

    let twice = resolved(&["rolebindings AllowPropagate", "rolebinding AllowPropagate"], &served());
    assert_eq!(modes(&twice), [Mode::Propagate, Mode::AllowPropagate]);
    assert_eq!(faults(&twice), [(1, Fault::Duplicate)]);

    // A role is not taken for another version of itself.
    let mut newer = served();
    let role = newer.kinds.iter_mut().find(|it| it.kind.kind == "Role").unwrap();
    role.kind.version = "v2".into();
    assert_eq!(resolved(&["roles AllowPropagate"], &newer).kinds[0].settings.kind, Kind::role());
}

#[test]
fn names_are_excluded_by_globs_and_a_broken_one_puts_its_entry_out_of_force() {
    let exclude = |globs: &[&str]| {
        let excluded_names = globs.iter().map(ToString::to_string).collect();
        Ok(Entry { excluded_names, on_conflict: Some(OnConflict::Report), ..entry("secrets") })
    };
    let good = resolve(&[exclude(&["team-*", "x"])], &served());
    let settings = &good.kinds[2].settings;
    assert!(settings.excluded_names.matches("team-a") && !settings.excluded_names.matches("a-team-a"));
    assert_eq!(settings.on_conflict, Some(OnConflict::Report));

    let broken = resolve(&[exclude(&["["]), Ok(entry("cm")), Err("it has no resource".into())], &served());
    assert_eq!(configured(&broken), ["configmaps Propagate"]);
    assert_eq!(faults(&broken), [(0, Fault::Unusable), (2, Fault::Unusable)]);
    assert!(broken.findings[1].to_string().contains("it has no resource"));
}

#[test]
fn the_same_entries_give_the_same_kinds_in_any_order_of_served_resources() {
    let texts = ["things", "secrets", "cm", "ev", "g", "gadgets.other.io"];
    let expected = resolved(&texts, &served());
    for turn in 0..served().kinds.len() {
        let mut turned = served();
        turned.kinds.rotate_left(turn);
        assert_eq!(resolved(&texts, &turned), expected);
    }
}

#[test]
fn what_is_unavailable_is_not_gone() {
    let mut now = served();
    now.kinds.retain(|it| !["solo.io", "example.com", "other.io"].contains(&&*it.kind.group));
    now.unavailable = ["solo.io".to_owned()].into();
    let things = |served: &Served| -> Vec<String> {
        let kinds = served.kinds.iter().map(|it| it.kind.group_resource());
        kinds.filter(|it| it.contains("gadgets") || it.contains("things")).collect()
    };
    assert_eq!(things(&now), [""; 0]);
    let kept = now.clone().keeping(&served(), &|definition| definition == "gadgets.other.io");
    assert_eq!(things(&kept), ["gadgets.other.io", "things.solo.io"]);

    // Nothing was known before.
    let resolution = resolved(&["things", "things.solo.io", "gadgets.other.io"], &now);
    let expected = [(0, Fault::Unavailable), (1, Fault::Unavailable), (2, Fault::NotFound)];
    assert_eq!(faults(&resolution), expected);
    assert!(resolution.findings[0].why.contains("solo.io"));

    // The version that is preferred is not known of an unavailable group, so the one before stands.
    let mut stale = served();
    stale.unavailable = ["solo.io".to_owned()].into();
    let old = |served: &mut Served| {
        served.kinds.iter_mut().for_each(|it| it.kind.version = "v1alpha1".into());
    };
    old(&mut stale);
    let kept = stale.keeping(&served(), &|_| true);
    let version = |group: &str| {
        let mut found = kept.kinds.iter().filter(|it| it.kind.group == group);
        let version = found.next().unwrap().kind.version.clone();
        assert_eq!(found.next(), None, "{group}");
        version
    };
    assert_eq!((version("solo.io"), version("other.io")), ("v1".into(), "v1alpha1".into()));
}

#[test]
fn missing_rights_are_named_by_account_and_kind() {
    let resolution = resolved(&["secrets", "cm Ignore"], &served());
    let kinds = || resolution.settings().filter(|it| it.kind.group.is_empty());
    assert_eq!(kinds().flat_map(needed).count(), 8 + 2);

    let has = |right: &Right| match (right.account, right.verb, &*right.resource) {
        (Account::Webhook, "watch", "secrets") | (Account::Controller, "create" | "delete", _) => Some(false),
        (Account::Webhook, _, "configmaps") => None,
        _ => Some(true),
    };
    let texts: Vec<String> = lacks(kinds(), has).iter().map(ToString::to_string).collect();
    let [webhook, controller] = &texts[..] else { panic!("{texts:?}") };
    for said in
        ["hns-webhook may not watch secrets", "propagation.resources", "ClusterRole hns-webhook-propagation"]
    {
        assert!(webhook.contains(said), "{webhook}");
    }
    for said in ["hns-controller may not create, delete secrets", "ClusterRole hns-controller-propagation"] {
        assert!(controller.contains(said), "{controller}");
    }
    let lacks = lacks(Resolution::enforced().settings(), |right| Some(right.account == Account::Webhook));
    let roles = lacks[0].to_string();
    assert!(roles.ends_with("grant it in the ClusterRole hns-controller"), "{roles}");
}
