//! Answers about drawn clusters, written as one line each. That they agree with what controllers do is shown on a real API
//! server.

use super::*;
use crate::cluster::{Cluster, EXCLUDED, binding_key, binds, binds_everywhere, role_key, rules};
use crate::core::hop::Hop;
use crate::core::kind::{KindSettings, OnConflict};
use crate::core::object::ObjectFact;
use crate::core::patterns::Patterns;
use crate::dialects::Fact;
use crate::hnc::configuration::{ServedKind, resolve};
use crate::hnc::fact::HierarchyFact;

static NO_NAMESPACES: BTreeSet<Name> = BTreeSet::new();

fn asked(in_configuration: KindInConfiguration, unseen: &BTreeSet<Name>) -> ObjectQuestion<'_> {
    ObjectQuestion { key: role_key("r"), in_configuration, unseen, unseen_roles: &NO_NAMESPACES }
}

fn line(answer: &ObjectExplanation) -> String {
    let there = match &answer.there {
        There::Unknown => "?".to_owned(),
        There::Nothing => "nothing".to_owned(),
        There::Own { .. } => "own".to_owned(),
        There::Copy { from, .. } => format!("copy of {from}"),
    };
    let expected = match &answer.expected {
        Expected::Copy(from) => format!("copy of {from}"),
        Expected::Conflict(from) => format!("own in spite of {from}"),
        Expected::Own => "own".to_owned(),
        Expected::Nothing => "nothing".to_owned(),
        Expected::Forsaken(from) => format!("nothing without {from}"),
        Expected::AsItIs(why) => format!("as it is: {why}"),
        Expected::Unknown => "?".to_owned(),
    };
    let above = answer.above.iter().map(|it| match &it.comes {
        Ok(admitted) => format!("; {} comes: {admitted}", it.namespace),
        Err(why) => format!("; {} not: {why}", it.namespace),
    });
    let stays = answer.stays.iter().map(|why| format!("; goes nowhere: {why}"));
    let unseen = answer.unseen.iter().map(|name| format!("; unseen {name}"));
    let roles = answer.unseen_roles.iter().map(|name| format!("; unseen Roles of {name}"));
    let refused = answer.refused.iter().map(|it| {
        format!("; {}refused: {}", if it.is_certain { "" } else { "perhaps " }, it.condition.message)
    });
    let rest: String = above.chain(stays).chain(unseen).chain(roles).chain(refused).collect();
    format!("{there} -> {expected}{rest}")
}

fn why(forest: &Forest, namespace: &str) -> String {
    line(&explain(forest, &asked(KindInConfiguration::Configured, &NO_NAMESPACES), namespace))
}

type Happens = fn(&mut Cluster);

/// What happens to the settled cluster, and what is then said of a namespace; `{COMES}` stands for a source that comes.
type Case = (&'static str, Happens, &'static str, &'static str);

const COMES: &str = "root comes: its kind is in mode Propagate";

fn check(cases: &[Case]) {
    for (what, happens, namespace, expected) in cases {
        let mut cluster = settled();
        happens(&mut cluster);
        assert_eq!(why(&cluster.forest(), namespace), expected.replace("{COMES}", COMES), "{what}");
    }
}

/// `root, mid, leaf` below each other, `r` in `root`, and its copies.
fn settled() -> Cluster {
    let mut cluster = Cluster::draw("root, mid:root, leaf:mid");
    cluster.role("root", "r", "x");
    for below in ["mid", "leaf"] {
        cluster.put(below, &role_key("r"), Some("root"), rules("x"));
    }
    cluster
}

#[test]
fn the_top_most_source_comes_and_what_is_there_is_told() {
    check(&[
        ("a copy", |_| {}, "leaf", "copy of root -> copy of root; {COMES}"),
        ("a source", |_| {}, "root", "own -> own"),
        (
            "a missing copy",
            |it| drop(it.remove_object("leaf", &role_key("r"))),
            "leaf",
            "nothing -> copy of root; {COMES}",
        ),
        (
            "nothing above",
            |it| drop(it.remove_object("root", &role_key("r"))),
            "leaf",
            "copy of root -> nothing",
        ),
        (
            "a copy follows the top-most ancestor",
            |it| drop(it.role("mid", "r", "y")),
            "leaf",
            "copy of root -> copy of root; {COMES}; mid comes: its kind is in mode Propagate",
        ),
        (
            "one's own is kept",
            |it| drop(it.role("mid", "r", "y")),
            "mid",
            "own -> own in spite of root; {COMES}",
        ),
        (
            "one's own is overwritten where the configuration says so",
            |it| {
                it.role("mid", "r", "y");
                it.overwrites = [true; 2];
            },
            "mid",
            "own -> copy of root; {COMES}",
        ),
    ]);
}

#[test]
fn a_copy_of_accurates_is_no_source() {
    let accurate = crate::accurate::Settings { watches: vec![Kind::role()], ..Default::default() };
    let mut cluster = Cluster::draw("root, mid:root, leaf:mid");
    cluster.role("mid", "r", "x");
    let mut forest = cluster.forest().with_accurate(accurate.into());
    let seen = forest.object(forest.id("mid").unwrap(), &role_key("r")).unwrap();
    let (version, content) = (seen.version().get(), seen.source().unwrap().content.clone());
    let hop = Some(Box::new(Hop::new(None, Some("root".into()), true, None)));
    let mut fact = ObjectFact { content, hop, ..ObjectFact::new("mid".into(), "r".into(), version) };
    fact.version.resource_version = "1000000".into();
    forest.apply(Fact::Object(role_key("r").kind, fact));
    let because = "it is a copy of Accurate's API (annotation accurate.cybozu.com/from); outside Accurate's hierarchy, remove the annotation to have it propagated";
    assert_eq!(why(&forest, "leaf"), format!("nothing -> nothing; mid not: {because}"));
    assert_eq!(why(&forest, "mid"), format!("own -> own; goes nowhere: {because}"));
}

#[test]
fn annotations_and_modes_are_named() {
    check(&[
        (
            "a selector withholds it",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.asks = 1)),
            "mid",
            "copy of root -> nothing; root not: its annotation propagate.hnc.x-k8s.io/select does not select the namespace",
        ),
        (
            "a selector lets it through",
            |it| {
                it.change_object("root", &role_key("r"), |it| it.asks = 1);
                it.label("leaf", &[("team", "blue")]);
            },
            "leaf",
            "copy of root -> copy of root; {COMES} and its annotation propagate.hnc.x-k8s.io/select lets it through",
        ),
        (
            "a tree selector withholds it",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.asks = 5)),
            "mid",
            "copy of root -> nothing; root not: its annotation propagate.hnc.x-k8s.io/treeSelect does not select the namespace",
        ),
        (
            "it opts out, and the next one below comes",
            |it| {
                it.change_object("root", &role_key("r"), |it| it.asks = 7);
                it.role("mid", "r", "y");
            },
            "leaf",
            "copy of root -> copy of mid; root not: its annotation propagate.hnc.x-k8s.io/none is true; mid comes: its kind is \
             in mode Propagate",
        ),
        (
            "it opts out, and says so itself",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.asks = 7)),
            "root",
            "own -> own; goes nowhere: its annotation propagate.hnc.x-k8s.io/none is true",
        ),
        (
            "an annotation makes no sense",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.asks = 10)),
            "mid",
            "copy of root -> nothing; root not: the annotation propagate.hnc.x-k8s.io/none cannot be understood: \"perhaps\" is \
             neither true nor false",
        ),
        (
            "it is excluded",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.excluded = true)),
            "mid",
            "copy of root -> nothing; root not: it is marked so",
        ),
        (
            "it is excluded, which no mode changes",
            |it| {
                it.modes = [Mode::AllowPropagate; 2];
                it.change_object("root", &role_key("r"), |it| it.excluded = true);
            },
            "root",
            "own -> own; goes nowhere: it is marked so",
        ),
        (
            "its kind needs it to opt in",
            |it| it.modes = [Mode::AllowPropagate; 2],
            "mid",
            "copy of root -> nothing; root not: its kind is in mode AllowPropagate and none of its annotations \
             propagate.hnc.x-k8s.io/select, propagate.hnc.x-k8s.io/treeSelect and propagate.hnc.x-k8s.io/all asks for it",
        ),
        (
            "it opts in",
            |it| {
                it.modes = [Mode::AllowPropagate; 2];
                it.change_object("root", &role_key("r"), |it| it.asks = 8);
            },
            "mid",
            "copy of root -> copy of root; root comes: its kind is in mode AllowPropagate and its annotation \
             propagate.hnc.x-k8s.io/all lets it through",
        ),
        (
            "copies are removed",
            |it| it.modes = [Mode::Remove; 2],
            "mid",
            "copy of root -> nothing; root not: its kind is in mode Remove",
        ),
        (
            "its kind is ignored",
            |it| it.modes = [Mode::Ignore; 2],
            "mid",
            "copy of root -> as it is: its kind is in mode Ignore; root not: its kind is in mode Ignore",
        ),
        (
            "a copy is going",
            |it| drop(it.change_object("mid", &role_key("r"), |it| it.terminating = true)),
            "mid",
            "copy of root -> as it is: it is being deleted; {COMES}",
        ),
    ]);
}

#[test]
fn a_namespace_may_be_the_reason() {
    let comes = COMES;
    let cases: [(&str, Happens, &str, String); 9] = [
        (
            "that of the installation",
            |_| {},
            "hnc-system",
            "nothing -> as it is: the namespace is excluded, because hns runs in it".into(),
        ),
        ("no such namespace", |_| {}, "nobody", "nothing -> as it is: there is no such namespace".into()),
        (
            "an excluded one",
            |_| {},
            EXCLUDED,
            "nothing -> as it is: the namespace is excluded by excludedNamespaces in the settings of hns".into(),
        ),
        (
            "one that is going",
            |it| drop(it.terminate("leaf")),
            "leaf",
            format!("copy of root -> copy of root; {comes}"),
        ),
        (
            "one that is going, from which the copy is gone",
            |it| {
                it.terminate("leaf");
                it.remove_object("leaf", &role_key("r"));
            },
            "leaf",
            format!("nothing -> as it is: the namespace is being deleted; {comes}"),
        ),
        (
            "an ancestor is halted: what is missing does not come",
            |it| {
                it.garble("mid");
                it.remove_object("leaf", &role_key("r"));
            },
            "leaf",
            format!(
                "nothing -> as it is: the namespace \"mid\" is halted (Unreadable: The HierarchyConfiguration cannot be \
                 understood: spec.parent is a number); {comes}"
            ),
        ),
        (
            "a cycle",
            |it| drop(it.set_parent("root", Some("leaf"))),
            "mid",
            "copy of root -> as it is: the namespace \"mid\" is halted (InCycle: Namespace is a member of the cycle: leaf <- root \
             <- mid <- leaf); root comes: its kind is in mode Propagate"
                .into(),
        ),
        (
            "a missing parent takes what came from it",
            |it| {
                it.remove_namespace("root");
                it.remove_object("root", &role_key("r"));
            },
            "leaf",
            "copy of root -> nothing without root".into(),
        ),
        (
            "and nothing else",
            |it| {
                it.remove_namespace("root");
                it.remove_object("root", &role_key("r"));
                it.role("leaf", "r", "x");
            },
            "leaf",
            "own -> as it is: the namespace \"mid\" is halted (ParentMissing: The parent \"root\" does not exist; create it, \
             or choose another parent. If the parent had a parent itself, create it there: as a root, it passes no copies and restrictions \
             from further up on to this namespace)"
                .into(),
        ),
    ];
    for (what, happens, namespace, expected) in cases {
        let mut cluster = settled();
        happens(&mut cluster);
        assert_eq!(why(&cluster.forest(), namespace), expected, "{what}");
    }
}

#[test]
fn the_configuration_of_the_kind_may_be_the_reason() {
    let mut cluster = settled();
    cluster.role("leaf", "r", "y");
    let mut forest = cluster.forest();
    let mut kind = KindSettings::new(Kind::role(), Mode::Propagate);
    kind.on_conflict = Some(OnConflict::Report);
    forest.apply(Fact::Kinds(vec![kind.clone()]));
    assert_eq!(
        why(&forest, "leaf"),
        "own -> own in spite of root; root comes: its kind is in mode Propagate",
        "a conflict that is reported"
    );
    kind.excluded_names = Patterns::new(["r*"]).unwrap();
    forest.apply(Fact::Kinds(vec![kind]));
    let excluded = "the name \"r\" is excluded in the HNCConfiguration";
    assert_eq!(why(&forest, "mid"), format!("copy of root -> nothing; root not: {excluded}"));
    assert_eq!(why(&forest, "root"), format!("own -> own; goes nowhere: {excluded}"));

    forest.apply(Fact::Kinds(vec![KindSettings::new(Kind::role(), Mode::Ignore)]));
    let say = |in_configuration| line(&explain(&forest, &asked(in_configuration, &NO_NAMESPACES), "mid"));
    let not = "; root not: its kind is in mode Ignore";
    assert_eq!(
        say(KindInConfiguration::Absent),
        format!("copy of root -> as it is: the HNCConfiguration does not name its kind{not}")
    );
    assert_eq!(
        say(KindInConfiguration::Refused("it cannot be listed".into())),
        format!(
            "copy of root -> as it is: what the HNCConfiguration says of its kind is not in force: it cannot be listed{not}"
        )
    );
    assert_eq!(say(KindInConfiguration::Unknown), format!("copy of root -> ?{not}"));
    let source = explain(&forest, &asked(KindInConfiguration::Absent, &NO_NAMESPACES), "root");
    assert_eq!(
        line(&source),
        "own -> as it is: the HNCConfiguration does not name its kind",
        "it has no mode"
    );
}

#[test]
fn a_kind_is_listed_absent_or_refused() {
    let served = |kind: &str, verbs: &[&str]| ServedKind {
        kind: Kind {
            group: "example.com".into(),
            version: "v1".into(),
            kind: kind.into(),
            resource: format!("{}s", kind.to_lowercase()),
        },
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        namespaced: true,
        verbs: verbs.iter().map(|it| (*it).to_owned()).collect(),
    };
    let verbs = ["list", "watch", "create", "update", "delete"];
    let kinds = vec![served("Well", &verbs), served("Odd", &["get"]), served("Other", &verbs)];
    let served = Served { kinds, ..Served::default() };
    let entry = |resource: &str| Ok(Entry { resource: resource.into(), ..Entry::default() });
    let entries = [entry("gone"), entry("odd"), entry("wells"), Err("no".into())];
    let resolution = resolve(&entries, &served);
    let in_configuration =
        |at: usize| KindInConfiguration::of(&served.kinds[at].kind, &entries, &served, &resolution);
    assert_eq!(in_configuration(0), KindInConfiguration::Configured);
    assert!(
        matches!(in_configuration(1), KindInConfiguration::Refused(why) if why.contains("does not offer to list"))
    );
    assert_eq!(in_configuration(2), KindInConfiguration::Absent);
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let mut cluster = settled();
    cluster.remove_object("root", &role_key("r"));
    cluster.remove_object("leaf", &role_key("r"));
    let forest = cluster.forest();
    let unseen = BTreeSet::from([Name::from("root")]);
    let say = |namespace: &str| {
        line(&explain(&forest, &asked(KindInConfiguration::Configured, &unseen), namespace))
    };
    assert_eq!(say("mid"), "copy of root -> copy of root; unseen root", "as the copy says");
    assert_eq!(say("leaf"), "nothing -> ?; unseen root");
    assert_eq!(say("root"), "? -> nothing");

    let unseen = BTreeSet::from([Name::from("mid")]);
    let forest = settled().forest();
    let answer = explain(&forest, &asked(KindInConfiguration::Configured, &unseen), "leaf");
    assert_eq!(answer.unseen, [] as [Name; 0], "what is below the one that decides does not matter");
}

/// `settled`, and the binding `b` of `root` to its Role with a copy in `mid`.
fn bound() -> Cluster {
    let mut cluster = settled();
    cluster.binding("root", "b", "r", "u");
    cluster.put("mid", &binding_key("b"), Some("root"), binds("r", "u"));
    cluster
}

fn why_bound(forest: &Forest, unseen_roles: &BTreeSet<Name>, namespace: &str) -> String {
    let question = ObjectQuestion {
        key: binding_key("b"),
        unseen_roles,
        ..asked(KindInConfiguration::Configured, &NO_NAMESPACES)
    };
    line(&explain(forest, &question, namespace))
}

#[test]
fn a_binding_comes_where_its_role_is_the_same() {
    let other = "root not: it refers to the Role \"r\"";
    let cases: [(&str, Happens, &str, String); 6] = [
        ("the same Role", |_| {}, "leaf", format!("nothing -> copy of root; {COMES}")),
        (
            "no Role",
            |it| drop(it.remove_object("root", &role_key("r"))),
            "mid",
            format!("copy of root -> nothing; {other}, which its own namespace does not have"),
        ),
        (
            "a Role that stays where it is",
            |it| drop(it.change_object("root", &role_key("r"), |it| it.asks = 7)),
            "mid",
            format!("copy of root -> nothing; {other} of namespace \"root\", which is not copied here"),
        ),
        (
            "another Role of that name",
            |it| {
                it.change_object("root", &role_key("r"), |it| it.asks = 7);
                it.role("mid", "r", "y");
            },
            "leaf",
            format!(
                "nothing -> nothing; {other} of namespace \"root\", and the Role of that name here is the one of namespace \
                 \"mid\""
            ),
        ),
        (
            "an older copy of a Role that is being deleted",
            |it| {
                it.put("leaf", &role_key("r"), Some("root"), rules("y"));
                it.change_object("leaf", &role_key("r"), |it| it.terminating = true);
            },
            "leaf",
            format!("nothing -> nothing; {other}, and an older one of that name is being deleted here"),
        ),
        (
            "a copy of the Role that is as it should be and is being deleted",
            |it| drop(it.change_object("mid", &role_key("r"), |it| it.terminating = true)),
            "mid",
            format!("copy of root -> copy of root; {COMES}"),
        ),
    ];
    for (what, happens, namespace, expected) in cases {
        let mut cluster = bound();
        happens(&mut cluster);
        assert_eq!(why_bound(&cluster.forest(), &NO_NAMESPACES, namespace), expected, "{what}");
    }
}

#[test]
fn roles_that_are_not_known_are_not_guessed() {
    let mut cluster = bound();
    let unseen = BTreeSet::from([Name::from("root"), "lone".into()]);
    let comes = format!("{COMES}; unseen Roles of root");
    assert_eq!(why_bound(&cluster.forest(), &unseen, "mid"), format!("copy of root -> ?; {comes}"));
    assert_eq!(why_bound(&cluster.forest(), &unseen, "leaf"), format!("nothing -> ?; {comes}"));
    assert_eq!(why_bound(&cluster.forest(), &unseen, "root"), "own -> own");
    // A ClusterRole is the same everywhere.
    cluster.put("root", &binding_key("b"), None, binds_everywhere("u"));
    assert_eq!(why_bound(&cluster.forest(), &unseen, "leaf"), format!("nothing -> copy of root; {COMES}"));
}

#[test]
fn a_refused_write_is_shown_where_it_matters() {
    let mut cluster = settled();
    cluster.remove_object("leaf", &role_key("r"));
    let shown = |message: &str| Condition::new(Reason::CannotPropagateObject, message);
    let mut told = |name: &str, message: &str| {
        cluster
            .change_hierarchy(name, |seen: &mut HierarchyFact| seen.status.conditions = vec![shown(message)]);
    };
    let by_name = "could not be written: roles.rbac.authorization.k8s.io \"r\": quota";
    told("leaf", by_name);
    told("mid", by_name);
    let forest = cluster.forest();
    let comes = "copy of root; root comes: its kind is in mode Propagate";
    assert_eq!(why(&forest, "leaf"), format!("nothing -> {comes}; refused: {by_name}"));
    assert_eq!(why(&forest, "mid"), format!("copy of root -> {comes}"), "it is there");
    for (message, concerns) in [("secrets \"r\": quota", false), ("secrets \"r\": quota; and 4 more", true)] {
        cluster.change_hierarchy("leaf", |seen| seen.status.conditions = vec![shown(message)]);
        assert_eq!(why(&cluster.forest(), "leaf").contains("perhaps refused"), concerns, "{message}");
    }
}

#[test]
fn everything_below_is_told_in_the_order_of_the_drawing() {
    let mut cluster = Cluster::draw("root, b:root, a:root, a1:a, loop:a1");
    cluster.role("root", "r", "x");
    cluster.set_parent("root", Some("loop"));
    let forest = cluster.forest();
    let found = below(&forest, &asked(KindInConfiguration::Configured, &NO_NAMESPACES), "root");
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "a1", "loop", "b"]);
}
