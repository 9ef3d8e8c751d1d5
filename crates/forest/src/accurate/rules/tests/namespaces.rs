//! The rule for namespaces.

use super::decide;
use crate::Forest;
use crate::accurate::rules::namespace::{Request, review};
use crate::accurate::rules::{is_admin, may_create_below, sub_namespace};
use crate::accurate::settings::Settings;
use crate::accurate::world::{draw, draw_with, empty, form, namespace, place, settings};
use crate::accurate::{Fact as AccurateFact, SubNamespaceFact};
use crate::core::fields::Pairs;
use crate::core::name::Name;
use crate::core::verdict::{Answer, Answers, Operation, Question, User, Verdict};
use crate::rules::hierarchy;

/// Everything that a test user may do.
const ALL: [&str; 17] = [
    "create subnamespaces r",
    "create subnamespaces s",
    "create subnamespaces t",
    "create subnamespaces i",
    "create subnamespaces x",
    "create subnamespaces y",
    "delete subnamespaces r",
    "delete subnamespaces s",
    "delete subnamespaces t",
    "delete subnamespaces i",
    "update hierarchyconfigurations n",
    "update hierarchyconfigurations s",
    "update hierarchyconfigurations r",
    "update hierarchyconfigurations t",
    "update hierarchyconfigurations i",
    "update hierarchyconfigurations x",
    "update hierarchyconfigurations y",
];

fn request<'a>(operation: Operation, old: Option<&'a str>, new: Option<&'a str>) -> Request<'a> {
    let text = old.or(new).unwrap();
    let labels = |text: Option<&str>| text.map(place).unwrap_or_default().into_iter().collect::<Pairs<'_>>();
    Request {
        operation,
        name: text.split_whitespace().next().unwrap().into(),
        user: User::default(),
        old: labels(old),
        new: labels(new),
        terminating: old.is_some_and(|old| old.contains('!')),
        is_subnamespace: false,
    }
}

fn create_as(yes: &[&str], forest: &Forest, new: &str) -> String {
    decide(yes, |answers| review(forest, &request(Operation::Create, None, Some(new)), answers))
}

fn create(forest: &Forest, new: &str) -> String {
    create_as(&ALL, forest, new)
}

fn update_as(yes: &[&str], forest: &Forest, old: &str, new: &str) -> String {
    decide(yes, |answers| review(forest, &request(Operation::Update, Some(old), Some(new)), answers))
}

fn update(forest: &Forest, old: &str, new: &str) -> String {
    update_as(&ALL, forest, old, new)
}

fn delete(forest: &Forest, old: &str) -> String {
    decide(&[], |answers| review(forest, &request(Operation::Delete, Some(old), None), answers))
}

/// A root with a sub-namespace that has one; a template, whose instance is a template and has an instance; a normal namespace.
const WORLD: &str = "r root, s ^r, x ^s, t template, i template ~t, y ~i, n";

#[test]
fn a_new_namespace_fits_its_upstream_namespace() {
    let forest = draw(&format!("{WORLD}, o ^missing, p ^o, q ~p"));
    for (new, wanted) in [
        ("a", "ok"),
        ("a root", "ok"),
        ("a template", "ok"),
        ("missing ^p", "circular reference is not permitted"),
        ("missing ~q", "circular reference is not permitted"),
        ("a root ~t", "ok"),
        ("a template ~t", "ok"),
        ("a ^r", "ok"),
        ("a ^s", "ok"),
        ("a ~t", "ok"),
        // As in Accurate, a sub-namespace can be a template.
        ("a ~s", "ok"),
        ("a ^a", "circular reference is not permitted"),
        ("a ~a", "circular reference is not permitted"),
        ("a ^r ~t", "a sub-namespace cannot have a template"),
        ("a ^r accurate.cybozu.com/template=", "a sub-namespace cannot have a template"),
        ("a ^r root", "a sub-namespace cannot be a root or a template"),
        ("a ^r template", "a sub-namespace cannot be a root or a template"),
        ("a ^gone", "namespace does not exist: gone"),
        ("a ~gone", "namespace does not exist: gone"),
        ("a ^n", "n is not a valid root namespace"),
        ("a ^t", "t is not a valid root namespace"),
        ("a ~n", "n is not a valid template namespace"),
        ("a ~r", "r is not a valid template namespace"),
        ("kube-system ^gone", "ok"),
    ] {
        assert_eq!(create(&forest, new), wanted, "{new}");
    }
}

#[test]
fn labels_change_only_where_nothing_below_needs_them() {
    let forest = draw(WORLD);
    let lone = draw("r root, s ^r, x root, t template, n");
    for (forest, old, new, wanted) in [
        (&forest, "n", "n ^r", "ok"),
        (&forest, "n", "n ~t", "ok"),
        (&forest, "n", "n ^n", "circular reference is not permitted"),
        (&forest, "n", "n ~n", "circular reference is not permitted"),
        (&forest, "s ^r", "s ^x", "circular reference is not permitted"),
        (&forest, "t template", "t template ~y", "circular reference is not permitted"),
        (&forest, "n", "n ^gone", "parent namespace does not exist: gone"),
        (&forest, "n", "n ~gone", "parent namespace does not exist: gone"),
        (&forest, "n", "n ^t", "t is not a valid root namespace"),
        (&forest, "s ^r", "s ^r ~t", "a sub-namespace cannot have a template"),
        (&forest, "s ^r", "s ^r root", "a sub-namespace cannot be a root or a template"),
        (&forest, "r root", "r", "there are sub-namespaces under r"),
        (&forest, "r root", "r template", "there are sub-namespaces under r"),
        (&forest, "t template", "t", "there are namespaces referencing t"),
        (&forest, "i template ~t", "i ~t", "there are namespaces referencing i"),
        (&forest, "s ^r", "s", "there are sub-namespaces under s"),
        // Accurate lets this leave the children without a valid parent.
        (&forest, "s ^r", "s ~t", "there are sub-namespaces under s"),
        (&forest, "s ^r", "s root", "ok"),
        (&forest, "x ^s", "x", "ok"),
        (&lone, "x root", "x", "ok"),
        (&lone, "s ^r", "s", "ok"),
        (&lone, "t template", "t", "ok"),
        (&lone, "x root", "x ^r", "ok"),
    ] {
        assert_eq!(update(forest, old, new), wanted, "{old} -> {new}");
    }
    let used = draw("r root, s ^r, x ~s");
    assert_eq!(update(&used, "s ^r", "s root"), "there are namespaces referencing s");
    assert_eq!(update(&used, "s ^r", "s template"), "ok");
}

#[test]
fn namespaces_with_dependants_are_not_deleted() {
    let cascades = Settings { allow_cascading_deletion: true, ..settings() };
    let both = [draw(WORLD), draw_with(cascades.clone(), WORLD)];
    let used = "r root, s ^r, x ~s";
    let used = [draw(used), draw_with(cascades.clone(), used)];
    let frozen = "t template, i ~t, x ~i";
    let frozen = [draw(frozen), draw_with(cascades.clone(), frozen)];
    for (forests, old, without, with) in [
        (&both, "r root", "child namespaces exist", "ok"),
        (&both, "s ^r", "child namespaces exist", "ok"),
        (&both, "x ^s", "ok", "ok"),
        (&both, "t template", "child namespaces exist", "child namespaces exist"),
        (&both, "i template ~t", "child namespaces exist", "child namespaces exist"),
        (&both, "y ~i", "ok", "ok"),
        (&both, "n", "ok", "ok"),
        // Others name it, but it passes nothing on.
        (&frozen, "i ~t", "ok", "ok"),
        (&used, "s ^r", "child namespaces exist", "child namespaces exist"),
    ] {
        assert_eq!([delete(&forests[0], old), delete(&forests[1], old)], [without, with], "{old}");
    }
    // `t` stays while `i` and `j` name it, and so would all above it.
    let mut used = draw_with(cascades.clone(), "r root, s ^r, t ^s, u ^t, i ~t, j ~t");
    assert_eq!(delete(&used, "r root"), "ok", "no SubNamespace deletes it");
    for (parent, child) in [("r", "s"), ("s", "t"), ("t", "u")] {
        used.apply(AccurateFact::SubNamespace(parent.into(), form(child)));
    }
    for old in ["r root", "s ^r"] {
        let refused = delete(&used, old);
        assert!(
            refused.starts_with(
                "namespace \"t\" would have to be deleted, too, but it is the template of \"i\", \"j\";"
            ),
            "{refused}"
        );
    }
    assert_eq!(delete(&used, "u ^t"), "ok");
    // With the root, `default` would have to be deleted, which Kubernetes never does.
    let mut kept = draw_with(cascades, "r root, s ^r, default ^s");
    assert_eq!(delete(&kept, "r root"), "ok", "no SubNamespace deletes it");
    for (parent, child) in [("r", "s"), ("s", "default")] {
        kept.apply(AccurateFact::SubNamespace(parent.into(), form(child)));
    }
    assert!(delete(&kept, "r root").starts_with("namespace \"default\" would have to be deleted, too"));
}

#[test]
fn what_needs_no_tree_never_waits_and_the_rest_waits_for_it() {
    let mut forest = Forest::unconfigured(crate::cluster::settings().into()).with_accurate(settings().into());
    let unknown = "503: the hierarchy cannot be relied on (namespaces: its first complete list has not arrived yet); try again in a \
                   moment";
    assert_eq!(create(&forest, "a ^r"), unknown);
    assert_eq!(delete(&forest, "r root"), unknown);
    for outcome in [
        create(&forest, "a team=red"),
        delete(&forest, "a team=red"),
        create(&forest, "kube-system ^r"),
        // A namespace that is being deleted may lose its parent first.
        update(&forest, "s ^gone !", "s"),
        delete(&forest, "r root !"),
        update(&forest, "s ^gone team=red", "s ^gone"),
    ] {
        assert_eq!(outcome, "ok");
    }
    forest = Forest::unconfigured(crate::cluster::settings().into());
    assert_eq!(create(&forest, "a ^gone"), "ok", "the API is off");
}

#[test]
fn nobody_takes_a_namespace_over_who_may_only_write_it() {
    let forest = draw(WORLD);
    let lacking = |label: &str, right: &str, place: &str| {
        format!(
            "you may not set the label accurate.cybozu.com/{label} on namespace \"n\": the right to {right} in namespace {place:?} is \
             needed"
        )
    };
    let below = "create subnamespaces.accurate.cybozu.com";
    let bind = "update hierarchyconfigurations.hnc.x-k8s.io";
    for (rights, new, wanted) in [
        (&[][..], "n ^r", lacking("parent=r", below, "r")),
        (&["create subnamespaces r"], "n ^r", lacking("parent=r", bind, "n")),
        (&["update hierarchyconfigurations n"], "n ^r", lacking("parent=r", below, "r")),
        (&["update hierarchyconfigurations n"], "n ~t", lacking("template=t", below, "t")),
        (&["update hierarchyconfigurations n", "create subnamespaces r"], "n ^r", "ok".into()),
        (&[], "n team=red", "ok".into()),
    ] {
        assert_eq!(update_as(rights, &forest, "n", new), wanted, "{rights:?} {new}");
    }
    // A template counts as soon as it is in force.
    let leaves = ["delete subnamespaces s", "delete subnamespaces r"];
    let hidden = update_as(&leaves, &forest, "x ^s ~t", "x ~t");
    assert!(hidden.starts_with("you may not set the label"), "{hidden}");
    let trusting = draw_with(Settings { trust_namespace_editors: true, ..settings() }, WORLD);
    assert_eq!(update_as(&[], &trusting, "n", "n ^r"), "ok");
    assert_eq!(create_as(&[], &trusting, "a ^r"), "ok");
}

const EVERYWHERE: &str = "the right to delete subnamespaces.accurate.cybozu.com in all namespaces is needed";

/// Restrictions come from the upstream namespace.
#[test]
fn nobody_takes_a_namespace_out_of_its_tree_who_may_only_write_it() {
    let forest = draw(WORLD);
    let own =
        ["update hierarchyconfigurations x", "create subnamespaces r", "update hierarchyconfigurations y"];
    for (old, new, label, upstream) in [
        ("x ^s", "x", "parent=s", "s"),
        ("x ^s", "x root", "parent=s", "s"),
        ("x ^s", "x ^r", "parent=s", "s"),
        ("y ~i", "y", "template=i", "i"),
        ("y ~i", "y ~t", "template=i", "i"),
    ] {
        let name = &old[..1];
        let wanted = format!(
            "you may not remove the label accurate.cybozu.com/{label} from namespace {name:?}: the right to delete \
             subnamespaces.accurate.cybozu.com in namespace {upstream:?} is needed"
        );
        assert_eq!(update_as(&own, &forest, old, new), wanted, "{old} -> {new}");
        assert_eq!(update(&forest, old, new), "ok", "{old} -> {new}");
    }
    // Restrictions have stayed from a namespace that is gone.
    // Somebody else may have created one of that name since, with rights in it.
    let orphans = draw("r root, o ^gone, u ~gone, b ^back, back, d ^drawn, drawn ~t, t template");
    for (old, new) in [
        ("o ^gone", "o"),
        ("o ^gone", "o root"),
        ("o ^gone", "o ^r"),
        ("u ~gone", "u"),
        ("b ^back", "b"),
        ("d ^drawn", "d"),
    ] {
        let bind = format!("update hierarchyconfigurations {}", &old[..1]);
        let others = ["create subnamespaces r", "delete subnamespaces back", "delete subnamespaces drawn"];
        let refused = update_as(&others, &orphans, old, new);
        assert!(refused.contains("the right to update hierarchyconfigurations.hnc.x-k8s.io"), "{refused}");
        let refused = update_as(&["create subnamespaces r", &bind], &orphans, old, new);
        assert!(refused.ends_with(EVERYWHERE), "{refused}");
        let all = ["create subnamespaces r", &bind, "delete subnamespaces "];
        assert_eq!(update_as(&all, &orphans, old, new), "ok", "{old} -> {new}");
    }
    let trusting = draw_with(Settings { trust_namespace_editors: true, ..settings() }, WORLD);
    assert_eq!(update_as(&[], &trusting, "x ^s", "x"), "ok");
}

/// Restrictions come from all namespaces above. Those that stay above are not asked.
#[test]
fn the_topmost_namespace_that_one_leaves_consents() {
    let forest = draw("r root ~t, a ^r, b ^a, x ^b, c ^r, o root, t template ~u, u template, i ~t");
    for (old, new, top) in [
        ("x ^b", "x", Some("u")),
        ("x ^b", "x root", Some("u")),
        ("x ^b", "x ^o", Some("u")),
        ("x ^b", "x ~t", Some("r")),
        // What is above stays, whatever the edge is called.
        ("x ^b", "x ~b", None),
        ("x ~b", "x", Some("u")),
        ("x ^b", "x ^c", Some("a")),
        ("x ^b", "x ^a", None),
        ("b ^a", "b ^c", None),
        ("i ~t", "i", Some("u")),
        ("i ~t", "i ~u", None),
    ] {
        let direct = format!("delete subnamespaces {}", &old[3..]);
        let name = &old[..1];
        let joins = ["a", "b", "c", "o", "t", "u"].map(|it| format!("create subnamespaces {it}"));
        let mut rights = vec![direct, format!("update hierarchyconfigurations {name}")];
        rights.extend(joins);
        let answer = |rights: &[String]| {
            let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
            update_as(&rights, &forest, old, new)
        };
        if let Some(top) = top {
            let wanted = format!(
                "the right to delete subnamespaces.accurate.cybozu.com in namespace {top:?} is needed"
            );
            assert!(answer(&rights).ends_with(&wanted), "{old} -> {new}: {}", answer(&rights));
            rights.push(format!("delete subnamespaces {top}"));
        }
        assert_eq!(answer(&rights), "ok", "{old} -> {new}");
    }
}

/// The namespaces above one that is missing are not known. One that is being deleted may have lost its labels.
#[test]
fn below_a_broken_chain_an_admin_of_the_cluster_consents() {
    let forest = draw("b ^gone, x ^b, p, c ^p, z ^c, r root, g root !, v ^g");
    for (old, new) in [("x ^b", "x"), ("x ^b", "x ^r"), ("z ^c", "z"), ("v ^g", "v")] {
        let name = &old[..1];
        let mut rights = vec![
            "delete subnamespaces b".to_owned(),
            "delete subnamespaces c".to_owned(),
            "delete subnamespaces p".to_owned(),
            "delete subnamespaces g".to_owned(),
            "create subnamespaces r".to_owned(),
            format!("update hierarchyconfigurations {name}"),
        ];
        let answer = |rights: &[String]| {
            let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
            update_as(&rights, &forest, old, new)
        };
        assert!(answer(&rights).ends_with(EVERYWHERE), "{old} -> {new}: {}", answer(&rights));
        rights.push("delete subnamespaces ".to_owned());
        assert_eq!(answer(&rights), "ok", "{old} -> {new}");
    }
}

/// Its children could leave the tree when it is gone.
#[test]
fn nothing_joins_a_namespace_that_is_being_deleted() {
    let forest = draw("r root, q ^r !, x ^r, t template !, n, y ^q");
    for (old, new) in [("x ^r", "x ^q"), ("n", "n ~t"), ("n", "n ^q")] {
        assert!(update(&forest, old, new).contains("is being deleted"), "{old} -> {new}");
    }
    assert!(create(&forest, "a ^q").contains("is being deleted"));
    assert_eq!(update(&forest, "y ^q", "y ^q team=red"), "ok");
    let rights = ["delete subnamespaces q", "create subnamespaces r", "update hierarchyconfigurations y"];
    assert_eq!(update_as(&rights, &forest, "y ^q", "y ^r"), "ok");
}

#[test]
fn a_namespace_that_is_being_deleted_stays_where_it_is() {
    let forest = draw("r root, q root, x ^r !, n !");
    for (old, new) in [("x ^r !", "x ^q"), ("n !", "n ^r"), ("n !", "n root"), ("n !", "n template")] {
        assert!(update(&forest, old, new).contains("can only be removed"), "{old} -> {new}");
    }
    assert_eq!(update(&forest, "x ^r !", "x"), "ok");
}

/// Nor one that goes with its `SubNamespace`, or is below such a one.
#[test]
fn nothing_joins_a_namespace_that_goes_with_its_sub_namespace() {
    let mut forest = draw("r root, b ^r, z ^b, y ^z, c ^b, i template ~z, n");
    forest.apply(AccurateFact::SubNamespace("b".into(), SubNamespaceFact { terminating: true, ..form("z") }));
    for (old, new) in [("c ^b", "c ^z"), ("c ^b", "c ^y"), ("n", "n ~z"), ("n", "n ~y"), ("n", "n ~i")] {
        let said = update(&forest, old, new);
        assert!(
            said.contains("the SubNamespace of namespace \"z\" is being deleted"),
            "{old} -> {new}: {said}"
        );
    }
    assert!(create(&forest, "a ^z").contains("is being deleted"));
    let rights = ["create subnamespaces b", "delete subnamespaces z", "update hierarchyconfigurations y"];
    assert_eq!(update_as(&rights, &forest, "y ^z", "y ^b"), "ok", "it is saved");
}

/// Who may create namespaces may be admin of each of them.
#[test]
fn nobody_gets_the_objects_of_a_namespace_by_creating_one_below_it() {
    let forest = draw(WORLD);
    for (new, label, upstream) in [("a ^r", "parent=r", "r"), ("a ~t", "template=t", "t")] {
        let lacking = format!(
            "you may not set the label accurate.cybozu.com/{label} on namespace \"a\": the right to create \
             subnamespaces.accurate.cybozu.com in namespace {upstream:?} is needed"
        );
        assert_eq!(create_as(&[], &forest, new), lacking);
        assert_eq!(create_as(&[&format!("create subnamespaces {upstream}")], &forest, new), "ok");
    }
    assert_eq!(create_as(&[], &forest, "a root"), "ok");
}

#[test]
fn nobody_gets_power_over_namespaces_that_wait_for_another() {
    let mut forest = empty(settings());
    forest.apply(namespace("a ^gone", "1"));
    forest.apply(namespace("n", "1"));
    forest.apply(namespace("b ^n", "1"));
    let lacking = |name: &str, next: &str| {
        format!(
            "you may not make {name:?} a namespace that passes objects on: existing namespaces name it as their parent or template: \
             the right to update hierarchyconfigurations.hnc.x-k8s.io in namespace {next:?} is needed"
        )
    };
    assert_eq!(create(&forest, "gone root"), lacking("gone", "a"));
    assert_eq!(update_as(&[], &forest, "n", "n root"), lacking("n", "b"));
    let admin = "update hierarchyconfigurations b";
    assert!(update_as(&[admin], &forest, "n", "n root").ends_with(EVERYWHERE));
    assert_eq!(update_as(&[admin, "delete subnamespaces "], &forest, "n", "n root"), "ok");
    assert_eq!(create(&forest, "gone"), "ok", "a normal namespace passes nothing on");
}

#[test]
fn the_labels_of_a_namespace_are_set_in_one_hierarchy() {
    let pairs = || vec![("tier".to_owned(), "gold".to_owned())];
    let set = |forest: &Forest, namespace: &str, [old, new]: [(&[_], &[_]); 2]| {
        let spec = |(labels, annotations): (&[_], &[_])| hierarchy::Spec {
            labels: labels.to_vec(),
            annotations: annotations.to_vec(),
            ..Default::default()
        };
        let request = hierarchy::Request {
            operation: Operation::Update,
            namespace: namespace.into(),
            user: User::default(),
            old: spec(old),
            new: spec(new),
            terminating: false,
        };
        let admin = [(Question::IsAdmin(namespace.into()), Answer::Yes)].into();
        match hierarchy::review(forest, &request, &admin) {
            Verdict::Deny(denial) => denial.message,
            verdict => format!("{verdict:?}"),
        }
    };
    let mut forest = draw("r root, s ^r, t template, i ~t, n");
    let (pair, other) = (pairs(), vec![("owner".to_owned(), "jane".to_owned())]);
    let (nothing, labels, annotations) = ((&[][..], &[][..]), (&pair[..], &[][..]), (&[][..], &other[..]));
    for (name, change, is_refused) in [
        ("r", [nothing, labels], true),
        ("s", [nothing, labels], true),
        ("s", [nothing, annotations], true),
        ("t", [nothing, annotations], true),
        ("i", [nothing, labels], true),
        ("n", [nothing, labels], false),
        ("n", [nothing, annotations], false),
        // What slipped through may go, and changes nothing else.
        ("s", [labels, nothing], false),
        ("s", [labels, labels], false),
    ] {
        let said = set(&forest, name, change);
        let refused = format!("namespace {name:?} is in a hierarchy of accurate.cybozu.com, which sets its");
        assert_eq!(said.starts_with(&refused), is_refused, "{name}: {said}");
        assert!(is_refused || said.starts_with("Allow"), "{name}: {said}");
    }
    let asks = |labels: Vec<(String, String)>| {
        let version = crate::accurate::world::version("h");
        crate::HierarchyFact { version, labels: labels.into_iter().collect(), ..Default::default() }
    };
    forest.apply(crate::hnc::Fact::Hierarchy("n".into(), asks(pairs())));
    for new in ["n root", "n ^r", "n ~t"] {
        let said = update(&forest, "n", new);
        assert!(said.starts_with("the HierarchyConfiguration of namespace \"n\" sets labels"), "{said}");
    }
    assert_eq!(update(&forest, "n", "n team=red"), "ok");
}

/// Of these, both would be allowed: neither sees the other yet.
#[test]
fn changes_at_the_same_moment_block_each_other() {
    let forest = draw("a root, b root, c root, t template, i template ~t, u template, n, free, z ^c, w ^c");
    let allowed = |verdict: Verdict| match verdict {
        Verdict::Allow { change, .. } => *change.unwrap(),
        other => panic!("{other:?}"),
    };
    let yes = |questions: &[&str]| -> Answers {
        let rights = questions.iter().flat_map(|name| [may_create_below(name), is_admin(name)]);
        let admins = questions.iter().map(|name| Question::IsAdmin((*name).into()));
        rights.map(Question::Has).chain(admins).map(|question| (question, Answer::Yes)).collect()
    };
    let place = |old, new| {
        allowed(review(
            &forest,
            &request(Operation::Update, Some(old), Some(new)),
            &yes(&["a", "b", "c", "t", "i", "u", "n", "z"]),
        ))
    };
    let adopt = |child: &str, parent: &str| {
        let spec =
            |parent: Option<&str>| hierarchy::Spec { parent: parent.map(Name::from), ..Default::default() };
        let request = hierarchy::Request {
            operation: Operation::Update,
            namespace: child.into(),
            user: User::default(),
            old: spec(None),
            new: spec(Some(parent)),
            terminating: false,
        };
        allowed(hierarchy::review(&forest, &request, &yes(&["n", "free"])))
    };
    let end = |child: &str| {
        let request = sub_namespace::Request {
            operation: Operation::Delete,
            namespace: "c".into(),
            name: child.into(),
            user: User::default(),
            labels: vec![],
            annotations: vec![],
            adds_owner: false,
            removes_finalizer: false,
        };
        allowed(sub_namespace::review(&forest, &request, &Answers::new()))
    };
    for (one, other, blocked) in [
        (end("z"), place("n", "n ^z"), true),
        (end("z"), place("u template", "u template ~z"), true),
        (end("z"), place("n", "n ^c"), false),
        (end("z"), end("w"), false),
        (place("a root", "a ^b"), place("b root", "b ^a"), true),
        (place("u template", "u template ~i"), place("t template", "t template ~u"), true),
        (place("n", "n ^a"), adopt("n", "free"), true),
        (place("n", "n root"), adopt("free", "n"), true),
        (place("a root", "a ^c"), place("b root", "b ^c"), false),
        (place("a root", "a ^c"), adopt("free", "n"), false),
    ] {
        let both = [one.is_blocked_by(&other), other.is_blocked_by(&one)];
        assert_eq!(both.contains(&true), blocked, "{one:?} {other:?}");
    }
}

/// Otherwise a user could have the webhook read hundreds of namespaces for each namespace that they create.
#[test]
fn a_new_namespace_that_nobody_names_depends_on_its_upstream_namespace_alone() {
    let forest = draw("a root, b ^a, c ^b, d ^c, x ^gone");
    let links = |request: &Request<'_>| {
        let rights =
            ["a", "b", "c", "d", "x"].into_iter().flat_map(|name| [may_create_below(name), is_admin(name)]);
        let rights = rights.chain(["gone", "c", ""].map(super::super::may_delete_below));
        let answers = rights.map(|right| (Question::Has(right), Answer::Yes)).collect();
        match review(&forest, request, &answers) {
            Verdict::Allow { change, .. } => change.unwrap().links.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(links(&request(Operation::Create, None, Some("new ^d"))), 1);
    assert_eq!(links(&request(Operation::Create, None, Some("gone ^d"))), 4, "others name it");
    assert_eq!(links(&request(Operation::Update, Some("x ^gone"), Some("x ^d"))), 4);
}

#[test]
fn a_namespace_gets_no_parent_where_its_sub_namespace_is_being_deleted() {
    let mut forest = draw("r root, q root, x ^q, s ^r, n");
    for name in ["x", "s"] {
        let form = SubNamespaceFact { terminating: true, ..form(name) };
        forest.apply(AccurateFact::SubNamespace("r".into(), form));
    }
    let said = update(&forest, "x ^q", "x ^r");
    assert!(said.contains("the SubNamespace \"x\" in namespace \"r\" is being deleted"), "{said}");
    assert_eq!(update(&forest, "s ^r", "s ^r team=red"), "ok");
}
