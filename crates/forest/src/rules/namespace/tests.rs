//! Rules of section 7.6, by tables.

use std::sync::Arc;

use super::*;
use crate::rules::DenialKind;
use crate::{Identity, Settings};

type Pairs = &'static [(&'static str, &'static str)];

const A: &str = "a.tree.hnc.x-k8s.io/depth";

fn forest() -> Forest {
    let mut settings = Settings::new("hnc-system", ["kube-system"], ".*").unwrap();
    settings.external_managers = vec![("config-sync".into(), Identity("syncer".into()))];
    settings.restore_identities = vec![Identity("backup".into())];
    Forest::new(Arc::new(settings), vec![])
}

fn marks(labels: Pairs, annotations: Pairs) -> Marks {
    Marks { labels: labels.iter().copied().collect(), annotations: annotations.iter().copied().collect() }
}

fn request(name: &str, user: &str, old: Option<Marks>, new: Marks) -> Request {
    Request {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        name: name.into(),
        user: User { name: user.into(), groups: vec![] },
        old: old.unwrap_or_default(),
        new,
    }
}

fn judge(request: &Request) -> Result<(), DenialKind> {
    match review(&forest(), request, &Answers::new()) {
        Verdict::Allow { .. } => Ok(()),
        Verdict::Deny(denial) => Err(denial.kind),
        Verdict::Ask(questions) => panic!("{questions:?}"),
    }
}

#[test]
fn own_labels_are_nobodys_to_write() {
    const FORBIDDEN: Result<(), DenialKind> = Err(DenialKind::Forbidden);
    let cases: [(&str, &str, Option<Pairs>, Pairs, Result<(), DenialKind>); 19] = [
        ("created without", "x", None, &[("team", "red")], Ok(())),
        ("created with a tree label", "x", None, &[(A, "0")], FORBIDDEN),
        ("kept", "x", Some(&[(A, "1")]), &[(A, "1"), ("team", "red")], Ok(())),
        ("changed", "x", Some(&[(A, "1")]), &[(A, "2")], FORBIDDEN),
        ("removed", "x", Some(&[(A, "1")]), &[], FORBIDDEN),
        ("added to others", "x", Some(&[("team", "red")]), &[(A, "1"), ("team", "red")], FORBIDDEN),
        ("contained in a longer key", "x", None, &[("a.tree.hnc.x-k8s.io/depths", "0")], FORBIDDEN),
        ("a foreign key changes", "x", Some(&[("team", "red")]), &[("team", "blue")], Ok(())),
        ("marker set", "x", Some(&[]), &[(words::HAS_CHILDREN, "true")], FORBIDDEN),
        ("marker removed", "x", Some(&[(words::HAS_CHILDREN, "true")]), &[], FORBIDDEN),
        ("created included", "x", None, &[(words::INCLUDED, "true")], Ok(())),
        ("created wrongly included", "x", None, &[(words::INCLUDED, "false")], FORBIDDEN),
        ("included removed", "x", Some(&[(words::INCLUDED, "true")]), &[], FORBIDDEN),
        ("a wrong value kept", "x", Some(&[(words::INCLUDED, "no")]), &[(words::INCLUDED, "no")], Ok(())),
        ("excluded one included", "kube-system", None, &[(words::INCLUDED, "true")], FORBIDDEN),
        ("freed of it", "kube-system", Some(&[(words::INCLUDED, "true")]), &[], Ok(())),
        ("excluded label elsewhere", "x", Some(&[]), &[(words::EXCLUDED, "true")], FORBIDDEN),
        ("excluded label where listed", "kube-system", Some(&[]), &[(words::EXCLUDED, "true")], Ok(())),
        (
            "excluded label with another value",
            "kube-system",
            Some(&[]),
            &[(words::EXCLUDED, "no")],
            FORBIDDEN,
        ),
    ];
    for (case, name, old, new, expected) in cases {
        let old = old.map(|labels| marks(labels, &[]));
        assert_eq!(judge(&request(name, "carol", old, marks(new, &[]))), expected, "{case}");
    }
}

#[test]
fn external_places_are_for_those_who_are_named() {
    const MANAGED: Pairs = &[("hnc.x-k8s.io/managed-by", "config-sync")];
    const OTHER: Pairs = &[("hnc.x-k8s.io/managed-by", "another")];
    let cases: [(&str, &str, Marks, Marks, bool); 7] = [
        ("set by anybody", "carol", marks(&[], &[]), marks(&[], MANAGED), false),
        ("set by the named", "syncer", marks(&[], &[]), marks(&[], MANAGED), true),
        ("another tool's", "syncer", marks(&[], &[]), marks(&[], OTHER), false),
        ("tree labels by the named", "syncer", marks(&[], MANAGED), marks(&[(A, "1")], MANAGED), true),
        ("tree labels by anybody", "carol", marks(&[], MANAGED), marks(&[(A, "1")], MANAGED), false),
        ("both at once by anybody", "carol", marks(&[], &[]), marks(&[(A, "1")], MANAGED), false),
        ("something else by anybody", "carol", marks(&[], MANAGED), marks(&[("team", "red")], MANAGED), true),
    ];
    for (case, user, old, new, allowed) in cases {
        assert_eq!(judge(&request("x", user, Some(old), new)).is_ok(), allowed, "{case}");
    }
}

#[test]
fn a_restorer_creates_what_was_and_changes_nothing() {
    let exported = || marks(&[(A, "1"), (words::HAS_CHILDREN, "true")], &[(words::SUBNAMESPACE_OF, "a")]);
    assert_eq!(judge(&request("x", "backup", None, exported())), Ok(()));
    assert_eq!(judge(&request("x", "carol", None, exported())), Err(DenialKind::Forbidden));
    let update = request("x", "backup", Some(marks(&[], &[])), marks(&[(A, "1")], &[]));
    assert_eq!(judge(&update), Err(DenialKind::Forbidden));
}

#[test]
fn the_initial_admin_is_the_creator_for_ever() {
    const ALICE: Pairs = &[(words::INITIAL_ADMIN, "alice")];
    assert_eq!(judge(&request("x", "alice", None, marks(&[], ALICE))), Ok(()));
    assert_eq!(judge(&request("x", "bob", None, marks(&[], ALICE))), Err(DenialKind::Forbidden));
    for (old, new) in [(ALICE, &[] as Pairs), (&[], ALICE)] {
        let update = request("x", "alice", Some(marks(&[], old)), marks(&[], new));
        assert_eq!(judge(&update), Err(DenialKind::Forbidden));
    }
}
