//! What cannot be known is not assumed, and does not stop what it has no bearing on.

use super::*;
use crate::hnc;

/// All that is told of `cluster`, but for what `left_out` names.
fn told(cluster: &Cluster, left_out: impl Fn(&Fact) -> bool) -> Forest {
    let mut forest = crate::cluster::empty_forest();
    for fact in cluster.lists().into_iter().filter(|fact| !left_out(fact)) {
        forest.apply(fact);
    }
    forest
}

fn without_structure() -> [Forest; 4] {
    let cluster = cluster("kid/r");
    let mut lost = cluster.forest();
    lost.apply(Fact::StreamLost(Stream::HIERARCHIES, "gone".into()));
    [
        told(&cluster, |fact| matches!(fact, Fact::Namespaces(_))),
        told(&cluster, |fact| matches!(fact, Fact::Hnc(hnc::Fact::Hierarchies(_)))),
        told(&cluster, |fact| matches!(fact, Fact::Hnc(hnc::Fact::Anchors(_)))),
        lost,
    ]
}

fn without_roles(sources: &str) -> [Forest; 2] {
    let cluster = cluster(sources);
    let mut lost = cluster.forest();
    lost.apply(Fact::StreamLost(Stream::Kind(roles()), "the webhook may not list it".into()));
    [told(&cluster, |fact| matches!(fact, Fact::Objects(kind, _) if *kind == roles())), lost]
}

/// Requests that do not affect the namespaces below, in any namespace.
fn harmless() -> Vec<(&'static str, Try)> {
    let opted_out = || Object::role().asks("none", "true");
    vec![
        ("it is deleted", Try::delete(Object::role())),
        ("it goes nowhere", Try::create(opted_out())),
        ("it goes nowhere any more", Try::update(Object::role(), opted_out())),
        ("it is excluded", Try::create(Object::role().annotate("openshift.io/description", "x"))),
        (
            "it has a selector and is excluded",
            Try::create(Object::role().asks("select", "a").finalizer("x/y")),
        ),
        (
            "it goes where it went",
            Try::update(Object::role(), Object::role().label("x", "y").field("rules", json!([]))),
        ),
        (
            "it cannot be understood",
            Try::update(opted_out().asks("select", "(("), Object::role().asks("select", "((")),
        ),
        (
            "it cannot be understood for another reason",
            Try::update(
                Object::role().asks("select", "((").asks("all", "x"),
                Object::role().asks("all", "x"),
            ),
        ),
        (
            "it is going",
            Try::update(Object::role().finalizer("x/y").terminating(), Object::role().terminating()),
        ),
        (
            "a copy stays as it is",
            Try::update(Object::copy("top"), Object::copy("top").field("status", json!(1))),
        ),
        ("a name that is to be made up", Try::create(Object::role()).named("")),
    ]
}

fn in_doubt() -> Vec<(&'static str, Try)> {
    vec![
        ("it is new", Try::create(Object::role())),
        ("it is new, with a selector", Try::create(Object::role().asks("select", "team=red"))),
        ("it is let go", Try::update(Object::role().asks("none", "true"), Object::role())),
        (
            "it goes elsewhere",
            Try::update(Object::role().asks("select", "a"), Object::role().asks("select", "b")),
        ),
    ]
}

/// Requests that are denied in every hierarchy.
fn wrong() -> Vec<(&'static str, Try, Expected)> {
    vec![
        (
            "row 1",
            Try::create(Object::role().annotate("foo.hnc.x-k8s.io/x", "")),
            Denied(BadRequest, &["foo.hnc"]),
        ),
        ("row 2", Try::create(Object::role().asks("select", "a,")), Denied(BadRequest, &["select"])),
        ("a copy", Try::create(Object::copy("top")), Denied(Forbidden, &["copy"])),
        ("a copy's label", Try::update(Object::copy("top"), Object::role()), Denied(Forbidden, &["removed"])),
    ]
}

#[test]
fn the_structure() {
    for mut forest in without_structure() {
        for (what, attempt) in harmless() {
            attempt.expect(what, &mut forest, &Allowed);
        }
        for (what, attempt) in in_doubt() {
            let later = Denied(Unavailable, &["hierarchy", "try again"]);
            attempt.expect(what, &mut forest, &later);
            attempt.within("lone").expect(what, &mut forest, &later);
        }
        for (what, attempt, expected) in wrong() {
            attempt.expect(what, &mut forest, &expected);
        }
        let verdict = Try::delete(Object::copy("top")).within("kid").judge(&mut forest, &[("live kid", Yes)]);
        check("a copy's deletion", &verdict, &Denied(Forbidden, &["\"top\""]));
        let verdict =
            Try::delete(Object::copy("top")).within("kid").judge(&mut forest, &[("live kid", Terminating)]);
        check("a copy's deletion with its namespace", &verdict, &Allowed);
    }
}

#[test]
fn the_objects_of_the_kind() {
    let awaited = ("await roles.rbac.authorization.k8s.io", No);
    let cases: [(&str, &[_]); 2] = [("not arrived yet", &[awaited]), ("may not list it", &[])];
    for (mut forest, (why, dialogue)) in without_roles("").into_iter().zip(cases) {
        for (what, attempt) in harmless() {
            attempt.expect(what, &mut forest, &Allowed);
        }
        for (what, attempt) in in_doubt() {
            let verdict = attempt.judge(&mut forest, dialogue);
            let later = Denied(Unavailable, &["roles.rbac.authorization.k8s.io", "hns-webhook", "try again"]);
            check(what, &verdict, &later);
            let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
            assert!(denial.message.contains(why), "{why:?} is not in {:?}", denial.message);
            // No namespace is below: nothing to overwrite.
            for childless in ["lone", "low", "unheard-of"] {
                attempt.clone().within(childless).expect(what, &mut forest, &Allowed);
            }
            let other = attempt.of("rbac.authorization.k8s.io", "RoleBinding");
            other.expect("another kind", &mut forest, &Allowed);
        }
        for (what, attempt, expected) in wrong() {
            attempt.expect(what, &mut forest, &expected);
        }
    }
}

#[test]
fn a_name_that_never_propagates_does_not_wait() {
    let awaited = [("await roles.rbac.authorization.k8s.io", No)];
    let cases: [&[_]; 2] = [&awaited, &[]];
    for (mut forest, dialogue) in without_roles("kid/r").into_iter().zip(cases) {
        let mut role = KindSettings::new(Kind::role(), Mode::Propagate);
        role.excluded_names = Patterns::new(["tmp-*"]).unwrap();
        forest.apply(Fact::Kinds(vec![role]));
        Try::create(Object::role()).named("tmp-1").expect("excluded", &mut forest, &Allowed);
        let verdict = Try::create(Object::role()).named("tmp").judge(&mut forest, dialogue);
        check("not excluded", &verdict, &Denied(Unavailable, &["roles"]));
    }
}

/// Nothing would be overwritten in any state.
#[test]
fn where_conflicts_are_only_reported_no_request_waits() {
    for forest in without_roles("kid/r").into_iter().chain(without_structure()) {
        let mut forest = forest;
        let mut role = KindSettings::new(Kind::role(), Mode::Propagate);
        role.on_conflict = Some(OnConflict::Report);
        forest.apply(Fact::Kinds(vec![role]));
        for (what, attempt) in in_doubt() {
            attempt.expect(what, &mut forest, &Allowed);
        }
    }
}

/// Whether a kind is propagated decides about everything; no denial is final, and a denied request must wait.
#[test]
fn the_configuration() {
    let mut forest = Forest::unconfigured(std::sync::Arc::new(crate::cluster::settings()));
    for fact in cluster("kid/r").lists() {
        if !matches!(fact, Fact::Kinds(_) | Fact::Objects(..)) {
            forest.apply(fact);
        }
    }
    assert!(!forest.is_configured());
    let later = || Denied(Unavailable, &["HNCConfiguration", "try again"]);
    for (what, attempt) in in_doubt() {
        attempt.expect(what, &mut forest, &later());
        for childless in ["lone", "low", "unheard-of", EXCLUDED] {
            attempt.clone().within(childless).expect(what, &mut forest, &Allowed);
        }
    }
    for (what, attempt, _) in wrong() {
        attempt.expect(what, &mut forest, &later());
        attempt.within(EXCLUDED).expect(what, &mut forest, &Allowed);
    }
    Try::delete(Object::role()).expect("a source is deleted", &mut forest, &Allowed);
    let same = Try::update(Object::copy("top"), Object::copy("top").field("status", json!(1)));
    same.expect("a copy's status", &mut forest, &Allowed);
    let verdict = Try::delete(Object::copy("top")).within("kid").judge(&mut forest, &[("live kid", Yes)]);
    check("a copy is deleted", &verdict, &later());
    let verdict = Try::delete(Object::copy("top")).within("kid").judge(&mut forest, &[("live kid", No)]);
    check("a copy is deleted with its namespace", &verdict, &Allowed);
}
