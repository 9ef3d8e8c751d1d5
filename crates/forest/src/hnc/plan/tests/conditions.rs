//! Every condition of section 4.1 of docs/compatibility.md and ours: how it comes and how it goes.

use super::*;
use crate::hnc;
use crate::hnc::fact::CrdState;

const SUBNAMESPACE_OF: &str = "hnc.x-k8s.io/subnamespace-of";

fn shown_on<'a>(cluster: &'a Cluster, name: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let conditions = cluster.hierarchies.get(name).map(|seen| &seen.status.conditions);
    let shown = conditions.into_iter().flatten().map(|it| (&*it.type_, &*it.reason, &*it.message));
    shown.collect()
}

fn ask(cluster: &mut Cluster, name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) {
    cluster.change_hierarchy(name, |seen| {
        (seen.labels, seen.annotations) =
            (labels.iter().copied().collect(), annotations.iter().copied().collect());
    });
}

type Happens = fn(&mut Cluster);

/// A cluster, what brings the condition on "x", its type and reason, what its message names, and what takes it away.
type Case = (&'static str, Happens, &'static str, &'static str, &'static [&'static str], Happens);

const HALTED: &str = "ActivitiesHalted";
const BAD: &str = "BadConfiguration";

const CASES: [Case; 18] = [
    (
        "x",
        |it| drop(it.set_parent("x", Some("kube-system"))),
        HALTED,
        "IllegalParent",
        &["\"kube-system\""],
        |it| drop(it.set_parent("x", None)),
    ),
    (
        "p, x:p",
        |it| drop(it.remove_namespace("p")),
        HALTED,
        "ParentMissing",
        &["\"p\" does not exist"],
        |it| drop(it.namespace("p")),
    ),
    (
        "x",
        |it| drop(it.set_parent("x", Some("p"))),
        HALTED,
        "ParentMissing",
        &["\"p\""],
        |it| drop(it.set_parent("x", None)),
    ),
    (
        "p, x<p",
        |it| {
            it.remove_anchor("p", "x");
            it.remove_namespace("p");
        },
        HALTED,
        "ParentMissing",
        &["\"p\""],
        |it| {
            it.namespace("p");
            it.anchor("p", "x");
        },
    ),
    (
        "p, x:p",
        |it| drop(it.set_parent("p", Some("x"))),
        HALTED,
        "InCycle",
        &["p <- x <- p"],
        |it| drop(it.set_parent("p", None)),
    ),
    (
        "x",
        |it| drop(it.set_parent("x", Some("x"))),
        HALTED,
        "InCycle",
        &["x <- x"],
        |it| drop(it.set_parent("x", None)),
    ),
    (
        "p, q:p, x:q",
        |it| drop(it.remove_namespace("p")),
        HALTED,
        "AncestorHaltActivities",
        &["\"q\""],
        |it| drop(it.namespace("p")),
    ),
    (
        "p, x<p",
        |it| drop(it.garble("p")),
        HALTED,
        "AncestorHaltActivities",
        &["\"p\""],
        |it| drop(it.set_parent("p", None)),
    ),
    (
        "p, x:p",
        |it| drop(it.garble("x")),
        HALTED,
        "Unreadable",
        &["spec.parent is a number"],
        |it| drop(it.set_parent("x", Some("p"))),
    ),
    (
        "p, x<p",
        |it| drop(it.remove_anchor("p", "x")),
        BAD,
        "SubnamespaceAnchorMissing",
        &["\"p\"", SUBNAMESPACE_OF],
        |it| drop(it.anchor("p", "x")),
    ),
    (
        "p, x<p",
        |it| drop(it.remove_anchor("p", "x")),
        BAD,
        "SubnamespaceAnchorMissing",
        &["\"p\""],
        |it| drop(it.annotate("x", &[])),
    ),
    (
        "p, x:p",
        |it| drop(it.annotate("x", &[(SUBNAMESPACE_OF, "p")])),
        BAD,
        "SubnamespaceAnchorMissing",
        &["\"p\""],
        |it| drop(it.anchor("p", "x")),
    ),
    (
        "x",
        |it| ask(it, "x", &[("colour", "red"), ("tier", "gold")], &[]),
        BAD,
        "IllegalManagedLabel",
        &["colour"],
        |it| ask(it, "x", &[("tier", "gold")], &[]),
    ),
    (
        "x",
        |it| ask(it, "x", &[], &[("note", "a"), ("owner", "jane")]),
        BAD,
        "IllegalManagedAnnotation",
        &["note"],
        |it| ask(it, "x", &[], &[]),
    ),
    (
        "p, x:p",
        |it| {
            ask(it, "p", &[("tier", "gold")], &[]);
            ask(it, "x", &[("tier", "iron")], &[]);
        },
        BAD,
        "OverriddenByAncestor",
        &["tier=iron (ancestor \"p\" says \"gold\")"],
        |it| ask(it, "p", &[], &[]),
    ),
    (
        "top, p:top, x:p",
        |it| {
            ask(it, "top", &[], &[("owner", "joe")]);
            ask(it, "p", &[], &[("owner", "jane")]);
            ask(it, "x", &[], &[("owner", "jane")]);
        },
        BAD,
        "OverriddenByAncestor",
        &["owner=jane (ancestor \"top\" says \"joe\")"],
        |it| drop(it.set_parent("x", None)),
    ),
    (
        "p, x:p",
        |it| {
            ask(it, "p", &[("tier", "gold")], &[]);
            ask(it, "x", &[("tier", "iron")], &[]);
        },
        BAD,
        "OverriddenByAncestor",
        &["tier=iron"],
        |it| ask(it, "x", &[("tier", "gold")], &[]),
    ),
    (
        "p, x<p",
        |it| {
            it.change_anchor("p", "x", |it| it.labels = [("colour", "red")].into_iter().collect());
        },
        BAD,
        "IllegalManagedLabel",
        &["colour"],
        |it| drop(it.change_anchor("p", "x", |it| it.labels = Labels::default())),
    ),
];

#[test]
fn a_condition_is_there_for_as_long_as_its_cause() {
    for (text, comes, type_, reason, mentioned, goes) in CASES {
        let mut cluster = Cluster::draw(text);
        settle(&mut cluster);
        assert_eq!(shown_on(&cluster, "x"), [], "{reason} in {text:?}");
        comes(&mut cluster);
        settle(&mut cluster);
        let shown = shown_on(&cluster, "x");
        let (.., message) =
            shown.iter().find(|it| it.1 == reason).unwrap_or_else(|| panic!("{reason}: {shown:?}"));
        assert!(shown.iter().all(|it| it.1 != reason || it.0 == type_), "{reason}: {shown:?}");
        for mention in mentioned {
            assert!(message.contains(mention), "{reason}: {mention:?} is not in {message:?}");
        }
        goes(&mut cluster);
        settle(&mut cluster);
        assert_eq!(shown_on(&cluster, "x"), [], "{reason} in {text:?}");
    }
}

/// HNC's readers take the first of a type.
#[test]
fn an_ancestors_halt_comes_first_and_several_of_one_type_are_shown() {
    let reasons = |cluster: &Cluster| -> Vec<String> {
        shown_on(cluster, "x").iter().map(|it| it.1.to_owned()).collect()
    };
    let mut cluster = Cluster::draw("p:gone, x<<p");
    ask(&mut cluster, "p", &[("tier", "gold")], &[]);
    ask(&mut cluster, "x", &[("tier", "iron"), ("colour", "red")], &[("note", "")]);
    settle(&mut cluster);
    let expected = [
        "AncestorHaltActivities",
        "SubnamespaceAnchorMissing",
        "IllegalManagedLabel",
        "IllegalManagedAnnotation",
        "OverriddenByAncestor",
    ];
    assert_eq!(reasons(&cluster), expected);
    // One that is halted itself does not look further up.
    let mut cluster = Cluster::draw("p:gone, x?:p");
    settle(&mut cluster);
    assert_eq!(reasons(&cluster), ["Unreadable"]);
}

#[test]
fn deleted_definitions_are_reported_where_there_is_somewhere_to_report() {
    let mut cluster = Cluster::draw("p, x:p, lone");
    settle(&mut cluster);
    let mut forest = cluster.forest();
    forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted)));
    for (name, lines) in [("p", 1), ("x", 1), ("lone", 0)] {
        let plan = plan(&forest, name, &Scope::whole());
        assert_eq!(plan.actions().count(), lines, "{name}");
        for action in plan.actions() {
            let fact = cluster.perform(&name.into(), action).unwrap();
            forest.apply(fact);
        }
        assert_eq!(planned(&forest, name), [""; 0], "{name}");
    }
    let shown = shown_on(&cluster, "x");
    assert_eq!((shown.len(), shown[0].0, shown[0].1), (1, HALTED, "DeletingCRD"));
    settle(&mut cluster);
    assert_eq!(shown_on(&cluster, "x"), [], "they stay after all");
}
