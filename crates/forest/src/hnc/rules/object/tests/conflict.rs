//! Row 7: what a source would overwrite below.

use super::*;
use crate::accurate::keys::FROM;

fn in_the_way(names: &'static [&'static str]) -> Expected {
    Denied(Conflict, names)
}

#[test]
fn row_7_nothing_below_is_overwritten() {
    let cases: [(&str, &'static str, Expected); 11] = [
        ("", "top", Allowed),
        ("top/r", "top", Allowed),
        ("kid/other", "top", Allowed),
        ("lone/r", "top", Allowed),
        ("top/r side/r", "kid", Allowed),
        ("top/r side/r", "low", Allowed),
        ("kid/r", "lone", Allowed),
        ("kid/r", "unheard-of", Allowed),
        (
            "kid/r",
            "top",
            in_the_way(&["Role \"r\"", "\"kid\"", "or keep both with propagation.rbacOnConflict"]),
        ),
        ("low/r", "top", in_the_way(&["\"low\""])),
        ("kid/r low/r side/r lone/r", "top", in_the_way(&["\"kid\", \"low\", \"side\";"])),
    ];
    for (sources, namespace, expected) in cases {
        let mut forest = forest(sources);
        Try::create(Object::role()).within(namespace).expect(sources, &mut forest, &expected);
        let newly = Try::update(Object::role().asks("none", "true"), Object::role());
        newly.within(namespace).expect(sources, &mut forest, &expected);
        let again = Try::update(Object::role(), Object::role().label("x", "y"));
        again.within(namespace).expect("it went there before", &mut forest, &Allowed);
    }
}

/// It is no source of HNC's hierarchy before, if Accurate's API copies its kind.
#[test]
fn row_7_a_copy_of_accurates_that_becomes_an_own_object_overwrites_nothing() {
    let change = || Try::update(Object::role().annotate(FROM, "elsewhere"), Object::role());
    change().expect("the API is disabled", &mut forest("kid/r"), &Allowed);
    for (watches, expected) in [(vec![], Allowed), (vec![Kind::role()], in_the_way(&["\"kid\""]))] {
        let settings = crate::accurate::Settings { watches, ..crate::accurate::Settings::default() };
        let mut forest = forest("kid/r").with_accurate(settings.into());
        change().expect("the API is enabled", &mut forest, &expected);
    }
}

#[test]
fn row_7_copies_below_are_not_in_the_way() {
    let mut cluster = cluster("");
    cluster.put("kid", &role_key("r"), Some("top"), rules("x"));
    Try::create(Object::role()).expect("a copy below", &mut cluster.forest(), &Allowed);
}

#[test]
fn row_7_the_kind_is_found_by_group_and_name_in_any_version() {
    let mut forest = forest("kid/r");
    let binding = Try::create(Object::role()).of("rbac.authorization.k8s.io", "RoleBinding");
    binding.expect("another kind", &mut forest, &Allowed);
    let mut old = KindSettings::new(Kind::role(), Mode::Propagate);
    old.kind.version = "v1beta1".into();
    forest.apply(Fact::Kinds(vec![old]));
    let id = forest.kind_named("rbac.authorization.k8s.io", "Role").unwrap();
    let fact =
        ObjectFact::new("kid".into(), "r".into(), Version { uid: "u".into(), resource_version: "1".into() });
    forest.apply(Fact::Objects(id, vec![fact]));
    Try::create(Object::role()).expect("another version", &mut forest, &in_the_way(&["\"kid\""]));
}

/// Selectors look at each descendant, not at the object's own namespace.
#[test]
fn row_7_goes_by_the_labels_of_the_descendants() {
    let cases: [(&str, &str, Expected); 15] = [
        ("select", "team=red", in_the_way(&["in the way: \"kid\";"])),
        ("select", "team=blue", in_the_way(&["in the way: \"side\";"])),
        ("select", "team", in_the_way(&["in the way: \"kid\", \"side\";"])),
        ("select", "own=top", Allowed),
        ("select", "!own", in_the_way(&["\"kid\", \"low\", \"side\";"])),
        ("select", "kid.tree.hnc.x-k8s.io/depth", in_the_way(&["\"kid\", \"low\";"])),
        ("select", "top.tree.hnc.x-k8s.io/depth=2", in_the_way(&["in the way: \"low\";"])),
        ("select", "tier=gold", in_the_way(&["in the way: \"kid\", \"low\";"])),
        ("treeSelect", "kid", in_the_way(&["in the way: \"kid\", \"low\";"])),
        ("treeSelect", "!kid", in_the_way(&["in the way: \"side\";"])),
        ("treeSelect", "kid, !low", in_the_way(&["in the way: \"kid\";"])),
        ("treeSelect", "lone", Allowed),
        ("none", "true", Allowed),
        ("none", "false", in_the_way(&["\"kid\", \"low\", \"side\";"])),
        ("all", "false", in_the_way(&["\"kid\", \"low\", \"side\";"])),
    ];
    let mut cluster = cluster("kid/r low/r side/r lone/r");
    cluster.label("top", &[("own", "top"), ("team", "green")]);
    cluster.label("low", &[]);
    // What stands on a namespace counts only until the hierarchy has put it right.
    cluster.label("side", &[("team", "blue"), ("kid.tree.hnc.x-k8s.io/depth", "1"), ("tier", "gold")]);
    cluster.change_hierarchy("kid", |seen| seen.labels = [("tier", "gold")].into_iter().collect());
    for (key, value, expected) in cases {
        let what = format!("{key}={value}");
        Try::create(Object::role().asks(key, value)).expect(&what, &mut cluster.forest(), &expected);
    }
}

#[test]
fn row_7_goes_by_the_mode() {
    let mut forest = forest_where("kid/r", in_mode(Mode::AllowPropagate));
    let cases: [(&str, Object, Expected); 6] = [
        ("nothing asked", Object::role(), Allowed),
        ("none=false", Object::role().asks("none", "false"), Allowed),
        ("all=false", Object::role().asks("all", "false"), Allowed),
        ("all=true", Object::role().asks("all", "true"), in_the_way(&["\"kid\""])),
        ("treeSelect", Object::role().asks("treeSelect", "kid"), in_the_way(&["\"kid\""])),
        ("select", Object::role().asks("select", "!x"), in_the_way(&["\"kid\""])),
    ];
    for (what, object, expected) in cases {
        Try::create(object).expect(what, &mut forest, &expected);
    }
}

/// An exception that an update takes away is an attack like any other.
#[test]
fn row_7_an_update_that_lifts_an_exception_is_judged_by_what_comes() {
    let cases = [
        ("none lifted", Object::role().asks("none", "true"), Object::role()),
        ("selector widened", Object::role().asks("select", "x=y"), Object::role().asks("select", "!x")),
        ("subtree left", Object::role().asks("treeSelect", "side"), Object::role().asks("treeSelect", "kid")),
        ("finalizer taken off", Object::role().finalizer("x/y"), Object::role()),
        ("a mistake corrected", Object::role().asks("select", "(("), Object::role().asks("select", "!x")),
        ("an annotation less", Object::role().annotate("openshift.io/description", ""), Object::role()),
    ];
    for (what, old, new) in cases {
        let mut forest = forest("kid/r");
        Try::update(old.clone(), new).expect(what, &mut forest, &in_the_way(&["\"kid\""]));
        let as_before = old.clone().label("x", "y");
        Try::update(old, as_before).expect(what, &mut forest, &Allowed);
    }
}

#[test]
fn row_7_only_namespaces_count_where_it_did_not_go_before() {
    let cluster = cluster("kid/r low/r side/r");
    let tree = |value: &str| Object::role().asks("treeSelect", value);
    let cases: [(&str, Object, Object, Expected); 4] = [
        ("another part", tree("side"), tree("kid"), in_the_way(&["in the way: \"kid\", \"low\";"])),
        ("one more", tree("kid, !low"), tree("kid"), in_the_way(&["in the way: \"low\";"])),
        ("all the rest", tree("kid"), Object::role(), in_the_way(&["in the way: \"side\";"])),
        ("less", Object::role(), tree("kid"), Allowed),
    ];
    for (what, old, new, expected) in cases {
        Try::update(old, new).expect(what, &mut cluster.forest(), &expected);
    }
}

#[test]
fn row_7_what_is_excluded_overwrites_nothing() {
    let core = |kind: &str, resource: &str| Kind {
        group: String::new(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
    };
    let mut settings = crate::cluster::settings();
    settings.nopropagation_labels = vec![("creator".into(), "norman".into())];
    let mut forest = Cluster::draw(TREE).forest_with(settings);
    let kinds = [
        core("Secret", "secrets"),
        core("ConfigMap", "configmaps"),
        core("ServiceAccount", "serviceaccounts"),
    ];
    let mut configured: Vec<KindSettings> =
        kinds.into_iter().map(|kind| KindSettings::new(kind, Mode::Propagate)).collect();
    configured[1].excluded_names = Patterns::new(["tmp-*"]).unwrap();
    forest.apply(Fact::Kinds(configured));
    let names = ["plain", "default", "kube-root-ca.crt", "istio-ca-root-cert", "tmp-1"];
    for (id, _) in forest.kinds().map(|(id, it)| (id, it.clone())).collect::<Vec<_>>() {
        let fact = |name: &&str| {
            ObjectFact::new(
                "kid".into(),
                (*name).into(),
                Version { uid: format!("{id:?}{name}").into(), resource_version: "1".into() },
            )
        };
        forest.apply(Fact::Objects(id, names.iter().map(fact).collect()));
    }
    let plain = Object::default;
    let typed = |secret_type: &str| plain().field("type", json!(secret_type));
    let refused = || in_the_way(&["\"kid\""]);
    let cases: [(&str, &'static str, &'static str, Object, Expected); 16] = [
        ("opaque", "Secret", "plain", typed("Opaque"), refused()),
        ("TLS", "Secret", "plain", typed("kubernetes.io/tls"), refused()),
        ("token", "Secret", "plain", typed("kubernetes.io/service-account-token"), Allowed),
        ("release", "Secret", "plain", typed("helm.sh/release.v1"), Allowed),
        ("type of something else", "ConfigMap", "plain", typed("helm.sh/release.v1"), refused()),
        ("root CA", "ConfigMap", "kube-root-ca.crt", plain(), Allowed),
        ("Istio's CA", "ConfigMap", "istio-ca-root-cert", plain(), Allowed),
        ("root CA as a Secret", "Secret", "kube-root-ca.crt", typed("Opaque"), refused()),
        ("default account", "ServiceAccount", "default", plain(), Allowed),
        ("default map", "ConfigMap", "default", plain(), refused()),
        ("by name", "ConfigMap", "tmp-1", plain(), Allowed),
        ("by the name of another kind", "Secret", "tmp-1", typed("Opaque"), refused()),
        ("by label", "ConfigMap", "plain", plain().label("creator", "norman"), Allowed),
        ("by another value", "ConfigMap", "plain", plain().label("creator", "x"), refused()),
        ("by finalizer", "ConfigMap", "plain", plain().finalizer("x/y"), Allowed),
        (
            "although asked for",
            "ConfigMap",
            "plain",
            plain().asks("all", "true").annotate("openshift.io/description", "x"),
            Allowed,
        ),
    ];
    for (what, kind, name, object, expected) in cases {
        Try::create(object).of("", kind).named(name).expect(what, &mut forest, &expected);
    }
}

#[test]
fn row_7_what_is_being_deleted_overwrites_nothing() {
    let held = Object::role().finalizer("x/y").terminating();
    let last = Try::update(held, Object::role().terminating());
    last.expect("the last finalizer", &mut forest("kid/r"), &Allowed);
}

/// A name that is made up is known by the time of the judgement, or is one that no other object has.
#[test]
fn row_7_a_generated_name_is_a_name() {
    let mut forest = forest("kid/r kid/r-x7k2p");
    Try::create(Object::role()).named("r-x7k2p").expect("made up", &mut forest, &in_the_way(&["r-x7k2p"]));
    Try::create(Object::role()).named("").expect("yet to be made up", &mut forest, &Allowed);
}

#[test]
fn row_7_some_namespaces_are_named_and_the_rest_counted() {
    for (count, more) in [(20, None), (21, Some("and 1 more;")), (50, Some("and 30 more;"))] {
        let names: Vec<String> = (0..count).map(|at| format!("n{at:02}")).collect();
        let tree: Vec<String> = names.iter().map(|name| format!("{name}:top")).collect();
        let mut cluster = Cluster::draw(&format!("top, {}", tree.join(", ")));
        for name in &names {
            cluster.role(name, "r", "x");
        }
        let verdict = Try::create(Object::role()).judge(&mut cluster.forest(), &[]);
        let Verdict::Deny(denial) = verdict else { panic!("{verdict:?}") };
        assert_eq!(
            (denial.kind, denial.message.matches("\"n").count()),
            (Conflict, 20),
            "{}",
            denial.message
        );
        assert_eq!(denial.message.contains("more;"), more.is_some(), "{}", denial.message);
        assert!(more.is_none_or(|more| denial.message.contains(more)), "{}", denial.message);
    }
}

#[test]
fn row_7_where_conflicts_are_only_reported_there_is_a_warning() {
    let mut forest = forest_where("low/r side/r", |role| role.on_conflict = Some(OnConflict::Report));
    let warned = Warned(&["Role \"r\"", "stays as it is", "\"low\", \"side\""]);
    Try::create(Object::role()).expect("two below", &mut forest, &warned);
    Try::create(Object::role()).named("other").expect("none below", &mut forest, &Allowed);
    let silent = Object::role().asks("none", "true");
    Try::create(silent).expect("goes nowhere", &mut forest, &Allowed);
}

/// Both ways to look for what is below find the same.
#[test]
fn row_7_few_holders_among_many_and_many_holders_with_few_below() {
    let leaves: Vec<String> = (0..30).map(|at| format!("n{at}:side")).collect();
    let tree = format!("{TREE}, {}", leaves.join(", "));
    let mut cluster = Cluster::draw(&tree);
    cluster.role("n7", "r", "x");
    Try::create(Object::role()).expect(
        "one of many",
        &mut cluster.forest(),
        &in_the_way(&["in the way: \"n7\";"]),
    );
    for at in 0..30 {
        cluster.role(&format!("n{at}"), "r", "x");
    }
    let within_kid = Try::create(Object::role()).within("kid");
    within_kid.expect("none of many", &mut cluster.forest(), &Allowed);
    cluster.role("low", "r", "x");
    within_kid.expect("the one below", &mut cluster.forest(), &in_the_way(&["in the way: \"low\";"]));
}

#[test]
fn row_7_a_namespace_is_not_below_itself() {
    let mut cluster = Cluster::draw("a:b, b:a");
    cluster.role("a", "r", "x");
    Try::create(Object::role()).within("a").expect("a cycle", &mut cluster.forest(), &Allowed);
    cluster.role("b", "r", "x");
    let refused = in_the_way(&["in the way: \"b\";"]);
    Try::create(Object::role()).within("a").expect("a cycle", &mut cluster.forest(), &refused);
}

#[test]
fn row_7_a_parent_that_is_not_there_yet_is_above_all_the_same() {
    let mut cluster = Cluster::draw("kid:coming");
    cluster.role("kid", "r", "x");
    let attempt = Try::create(Object::role()).within("coming");
    attempt.expect("a missing parent", &mut cluster.forest(), &in_the_way(&["\"kid\""]));
}
