//! Row 11: what a new parent would overwrite.

use super::*;
use crate::ObjectFact;
use crate::core::kind::OnConflict;

const JOINS: &str = "top, p:top, child, low:child";

/// What stands where, as `namespace/role`; `^` marks a copy, `!` an excluded source.
fn populated(objects: &str) -> Cluster {
    let mut cluster = Cluster::draw(JOINS);
    for place in objects.split_whitespace() {
        let (namespace, name) = place.split_once('/').unwrap();
        let key = role_key(name.trim_matches(['^', '!']));
        let from = name.starts_with('^').then_some("somewhere");
        cluster.put(namespace, &key, from, crate::cluster::rules("x"));
        cluster.change_object(namespace, &key, |object| object.excluded = name.starts_with('!'));
    }
    cluster
}

#[test]
fn row_11_a_new_parent_overwrites_nothing() {
    let cases: [(&str, Expected); 12] = [
        ("", Allowed),
        ("p/r", Allowed),
        ("child/r low/r", Allowed),
        ("p/r child/other", Allowed),
        (
            "p/r child/r",
            Denied(Conflict, &["Namespace \"child\": r (rbac.authorization.k8s.io/v1, Kind=Role)"]),
        ),
        ("top/r child/r", Denied(Conflict, &["Namespace \"child\": r ("])),
        (
            "top/r p/r2 child/r2 low/r",
            Denied(Conflict, &["Namespace \"child\": r2 (", "Namespace \"low\": r ("]),
        ),
        ("p/!r child/r", Allowed),
        ("p/!r top/r child/r", Denied(Conflict, &["Namespace \"child\": r ("])),
        ("p/r child/!r", Denied(Conflict, &["Namespace \"child\": r ("])),
        ("p/^r child/r", Allowed),
        ("p/r child/^r low/^r", Allowed),
    ];
    for (objects, expected) in cases {
        let mut forest = populated(objects).forest();
        let verdict = judge(&mut forest, &create("child", "p"), &[("admin p", Yes)], |_| ());
        check(objects, &verdict, &expected);
    }
    let mut cluster = Cluster::draw(JOINS);
    cluster.role("p", "same", "x");
    cluster.binding("child", "same", "same", "u");
    let verdict = judge(&mut cluster.forest(), &create("child", "p"), &[("admin p", Yes)], |_| ());
    check("another kind", &verdict, &Allowed);
    // Nothing overwrites what leaves a tree.
    let mut cluster = Cluster::draw("p, child:p");
    cluster.role("p", "r", "x");
    cluster.role("child", "r", "x");
    let verdict = judge(&mut cluster.forest(), &update("child", "p >"), &[("admin p", Yes)], |_| ());
    check("to nothing", &verdict, &Allowed);
}

/// What an object is can change: a label makes a copy of a source, and the loss of it a source of a copy.
#[test]
fn row_11_goes_by_what_an_object_is_now() {
    let mut cluster = populated("p/r child/r");
    let mut forest = cluster.forest();
    let mut judged = |fact: Fact| {
        forest.apply(fact);
        judge(&mut forest, &create("child", "p"), &[("admin p", Yes)], |_| ())
    };
    let conflict = Denied(Conflict, &["Namespace \"child\": r ("]);
    let rules = || crate::cluster::rules("x");
    let source = cluster.put("child", &role_key("r"), None, rules());
    check("a source", &judged(source), &conflict);
    let copy = cluster.put("child", &role_key("r"), Some("elsewhere"), rules());
    check("now a copy", &judged(copy), &Allowed);
    let again = cluster.put("child", &role_key("r"), None, rules());
    check("again a source", &judged(again), &conflict);
    check("gone", &judged(cluster.remove_object("child", &role_key("r")).unwrap()), &Allowed);
}

#[test]
fn row_11_comes_after_row_12() {
    let mut forest = populated("p/secret-plan child/secret-plan").forest();
    let verdict = judge(&mut forest, &create("child", "p"), &[("admin p", No)], |_| ());
    check("without consent", &verdict, &Denied(Unauthorized, &["\"p\""]));
    let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
    assert!(!denial.message.contains("secret-plan"), "{}", denial.message);
    let verdict = judge(&mut forest, &create("child", "p"), &[("admin p", Yes)], |_| ());
    check("with consent", &verdict, &Denied(Conflict, &["secret-plan"]));
}

#[test]
fn row_11_names_some_conflicts_and_counts_the_rest() {
    for (conflicts, more) in [(20, None), (21, Some("and 1 more")), (50, Some("and 30 more"))] {
        let mut cluster = Cluster::draw(JOINS);
        for at in 0..conflicts {
            cluster.role("top", &format!("r{at:02}"), "x");
            cluster.role("low", &format!("r{at:02}"), "x");
        }
        let verdict = judge(&mut cluster.forest(), &create("child", "p"), &[("admin p", Yes)], |_| ());
        let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
        assert_eq!(denial.message.matches("Namespace \"low\": r").count(), 20, "{}", denial.message);
        match more {
            None => assert!(!denial.message.contains("more"), "{}", denial.message),
            Some(more) => assert!(denial.message.ends_with(more), "{}", denial.message),
        }
    }
}

#[test]
fn row_11_what_cannot_be_listed_is_not_assumed() {
    let resources = [
        (roles(), "roles.rbac.authorization.k8s.io"),
        (bindings(), "rolebindings.rbac.authorization.k8s.io"),
    ];
    for (kind, resource) in resources {
        let cluster = Cluster::draw("p, q, child:q, lone");
        let lost = || {
            let mut forest = cluster.forest();
            forest.apply(Fact::StreamLost(Stream::Kind(kind), "the webhook may not list it".into()));
            forest
        };
        let late = || {
            let mut forest = crate::cluster::empty_forest();
            for fact in cluster.lists() {
                if !matches!(&fact, Fact::Objects(it, _) if *it == kind) {
                    forest.apply(fact);
                }
            }
            forest
        };
        let admins = [("admin q", Yes), ("admin p", Yes)];
        let awaited = format!("await {resource}");
        // What has not arrived yet is waited for; what cannot be had is not.
        let in_vain = [("admin q", Yes), ("admin p", Yes), (awaited.as_str(), No)];
        for (mut forest, dialogue, why) in
            [(lost(), &admins[..], "may not list it"), (late(), &in_vain[..], "not arrived yet")]
        {
            let verdict = judge(&mut forest, &update("child", "q > p"), dialogue, |_| ());
            check(resource, &verdict, &Denied(Unavailable, &["hns-webhook", "try again"]));
            let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
            for named in [resource, why] {
                assert!(denial.message.contains(named), "{named:?} is not in {:?}", denial.message);
            }
            // Other kinds are not affected.
            let verdict = judge(&mut forest, &update("child", "q >"), &admins[..1], |_| ());
            check("leaving", &verdict, &Allowed);
            check("no move", &judge(&mut forest, &update("child", "q > q"), &[], |_| ()), &Allowed);
            let dialogue = [("admin q", Yes)];
            let verdict = judge(&mut forest, &delete("child", "q"), &dialogue, |_| ());
            check("deletion", &verdict, &Allowed);
            // Who may not do it does not get to hear of it either.
            let verdict = judge(&mut forest, &create("lone", "p"), &[("admin p", No)], |_| ());
            check("without consent", &verdict, &Denied(Unauthorized, &["\"p\""]));
        }
        let in_time = [("admin q", Yes), ("admin p", Yes), (awaited.as_str(), Yes)];
        let arrive = |forest: &mut Forest| {
            let lists = cluster.lists().into_iter();
            lists
                .filter(|it| matches!(it, Fact::Objects(it, _) if *it == kind))
                .for_each(|it| drop(forest.apply(it)));
        };
        let verdict = judge(&mut late(), &update("child", "q > p"), &in_time, arrive);
        check("in time", &verdict, &Allowed);
        let verdict = judge(&mut cluster.forest(), &update("child", "q > p"), &admins, |_| ());
        check("with both", &verdict, &Allowed);
    }
}

#[test]
fn row_11_before_it_is_known_what_is_propagated_nothing_joins() {
    let cluster = Cluster::draw("p, q, child:q");
    let mut forest = Forest::unconfigured(std::sync::Arc::new(crate::cluster::settings()));
    for fact in cluster.lists() {
        forest.apply(fact);
    }
    let verdict =
        judge(&mut forest, &update("child", "q > p"), &[("admin q", Yes), ("admin p", Yes)], |_| ());
    check("unconfigured", &verdict, &Denied(Unavailable, &["which kinds", "try again"]));
    check("leaving", &judge(&mut forest, &update("child", "q >"), &[("admin q", Yes)], |_| ()), &Allowed);
}

#[test]
fn row_11_what_does_not_go_there_or_does_not_overwrite_is_no_conflict() {
    // Selectors look at the labels that the holder would have below the new parent.
    let cases = [
        ("asks for nothing", 0, None, false),
        ("blue namespaces only", 1, None, true),
        ("what is one or two below a", 4, Some(OnConflict::Overwrite), false),
        ("what is below b", 5, Some(OnConflict::Overwrite), true),
        ("nowhere", 7, None, true),
        ("asks for nothing, and nothing is refused", 0, Some(OnConflict::Report), true),
    ];
    for (what, asks, on_conflict, joins) in cases {
        let mut cluster = Cluster::draw("a, child, low:child");
        cluster.role("a", "r", "x");
        cluster.role("low", "r", "y");
        cluster.change_object("a", &role_key("r"), |it| it.asks = asks);
        let mut forest = cluster.forest();
        let kinds = [crate::core::kind::Kind::role(), crate::core::kind::Kind::role_binding()].into_iter();
        let kinds = kinds.map(|kind| crate::core::kind::KindSettings {
            on_conflict,
            ..crate::core::kind::KindSettings::new(kind, crate::core::kind::Mode::Propagate)
        });
        forest.apply(Fact::Kinds(kinds.collect()));
        let verdict = judge(&mut forest, &update("child", "> a"), &[("admin a", Yes)], |_| ());
        let warned = matches!(&verdict, Verdict::Allow { warnings, .. } if warnings.iter().any(|it| it.contains("\"low\": r (")));
        assert_eq!(warned, on_conflict == Some(OnConflict::Report), "{what}: {verdict:?}");
        let expected = if joins { Allowed } else { Denied(Conflict, &["\"low\"", "r "]) };
        if !warned {
            check(what, &verdict, &expected);
        }
    }
}

/// The webhook does not know to which Role a binding refers; a forest with whole objects does. Both give the same verdict.
#[test]
fn row_11_does_not_depend_on_the_role_of_a_binding() {
    let mut cluster = Cluster::draw("a, b:a, d:a, i:b");
    for namespace in ["a", "i"] {
        cluster.role(namespace, "r", namespace);
        cluster.binding(namespace, "x", "r", "u");
    }
    let (whole, mut metadata) = (cluster.forest(), cluster.forest());
    for namespace in ["a", "i"] {
        let fact = cluster.object_fact(&namespace.into(), &crate::cluster::binding_key("x"));
        let Fact::Object(id, seen) = fact else { panic!("{fact:?}") };
        metadata.apply(Fact::Object(id, ObjectFact { role: None, content: None, ..seen }));
    }
    for (what, mut forest) in [("whole", whole), ("metadata", metadata)] {
        let verdict = judge(&mut forest, &update("i", "b > d"), &[("admin a", Yes)], |_| ());
        check(what, &verdict, &Allowed);
    }
}
