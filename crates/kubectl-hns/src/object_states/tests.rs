//! The text for each combination of the present object and what is expected there.

use std::collections::BTreeMap;

use forest::configuration::Served;
use forest::exceptions::Withheld;
use forest::exclusion::STRUCTURE;
use forest::why::{Admitted, Refusal};
use forest::{Condition, Fact, Mode, Reason};
use hns_api::{annotations, labels};
use hns_cluster::ingest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Map;

use super::*;
use crate::object_argument::tests::served_kind;
use crate::structure;
use crate::structure::tests::sketch;

/// The states of the role `r` in a sketched cluster: the namespaces that have one, the source if it is a copy, and the
/// tree that it selects, if any.
pub(crate) fn object_states(lines: &[&str], roles: &[(&str, &str, &str)]) -> ObjectStates {
    let kind = Kind::role();
    let configured = configured(&kind);
    let structure = sketch(lines);
    let mut forest = structure.forest();
    forest.apply(Fact::Kinds(configured.settings()));
    let id = forest.kind_named(&kind.group, &kind.kind).unwrap();
    let fact = |(namespace, from, tree): &(&str, &str, &str)| {
        let pair = |key: &str, value: &str| {
            (!value.is_empty()).then(|| BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        let metadata = ObjectMeta {
            namespace: Some((*namespace).to_owned()),
            name: Some("r".to_owned()),
            labels: pair(labels::INHERITED_FROM, from),
            annotations: pair(annotations::PROPAGATE_TREE_SELECT, tree),
            ..ObjectMeta::default()
        };
        ingest::object(&kind, &structure::settings(), metadata, Some(Map::new()))
    };
    forest.apply(Fact::Objects(id, roles.iter().map(fact).collect()));
    let loaded =
        Loaded { forest, structure, unread: BTreeMap::new(), lacks_quotas: false, notes: Vec::new() };
    ObjectStates::new(kind, "r".into(), loaded, &configured)
}

fn configured(kind: &Kind) -> ConfiguredKinds {
    let of_kind = served_kind(&kind.group, &kind.kind, &[]);
    ConfiguredKinds::new(Served { kinds: vec![of_kind], ..Served::default() }, Vec::new())
}

fn own() -> There {
    There::Own { terminating: false }
}

fn copy(from: &str) -> There {
    There::Copy { from: from.into(), terminating: false }
}

fn above(namespace: &str, comes: bool) -> Above {
    let admitted = || Admitted { mode: Mode::Propagate, by: Vec::new() };
    let comes = if comes { Ok(admitted()) } else { Err(Withheld::OptedOut) };
    Above { namespace: namespace.into(), comes }
}

fn answer(there: There, expected: Expected, above: Vec<Above>) -> ObjectExplanation {
    ObjectExplanation {
        there,
        expected,
        above,
        stays: None,
        unseen: Vec::new(),
        unseen_roles: Vec::new(),
        refused: None,
    }
}

#[test]
fn each_answer_has_a_label_and_a_reason() {
    let halted =
        || Expected::AsItIs(Untouched::Halted { at: "h".into(), condition: None, follows_deletion: false });
    let comes = "the one in a is copied here, because its kind is in mode Propagate";
    let stops = "the one in a is not copied here, because its annotation propagate.hnc.x-k8s.io/none is true";
    let (yes, no) = (|| vec![above("a", true)], || vec![above("a", false)]);
    let frozen = "it is not changed, because the namespace \"h\" is halted";
    let left =
        "it stays as it was copied, and follows no source any more, because its kind is in mode Ignore";
    let replaced = "the one in a should replace it";
    let conflict = "it is not a copy, so it is kept and the one in a is not copied";
    let unknown_kind = "the mode of its kind is unknown";
    let cases = [
        (own(), Expected::Own, vec![], "source", ""),
        (own(), Expected::Conflict("a".into()), yes(), "conflict", conflict),
        (own(), Expected::Copy("a".into()), yes(), "to be replaced", replaced),
        (own(), halted(), yes(), "source", frozen),
        (
            own(),
            halted(),
            vec![],
            "source",
            "nothing is copied from it, because the namespace \"h\" is halted",
        ),
        (own(), Expected::Unknown, vec![], "source", unknown_kind),
        (copy("a"), Expected::Copy("a".into()), yes(), "copy of a", comes),
        (copy("b"), Expected::Copy("a".into()), yes(), "to be replaced", replaced),
        (copy("a"), Expected::Nothing, no(), "to be removed", stops),
        (copy("a"), Expected::Nothing, vec![], "to be removed", "no namespace above has it any more"),
        (
            copy("a"),
            Expected::Forsaken("a".into()),
            vec![],
            "to be removed",
            "its source in namespace a was deleted",
        ),
        (copy("a"), halted(), yes(), "copy of a", frozen),
        (copy("a"), Expected::AsItIs(Untouched::Ignored), no(), "copy of a", left),
        (copy("a"), Expected::Unknown, vec![], "copy of a", unknown_kind),
        (There::Nothing, Expected::Copy("a".into()), yes(), "not there yet", comes),
        (There::Nothing, Expected::Nothing, no(), "not copied", stops),
        (There::Nothing, Expected::Nothing, vec![], "not there", "no namespace above has it"),
        (There::Nothing, halted(), yes(), "not copied", "the namespace \"h\" is halted"),
        (There::Nothing, Expected::Unknown, yes(), "not there", unknown_kind),
        (There::Unknown, Expected::Nothing, vec![], "unknown", "you may not read it there"),
        (
            There::Unknown,
            halted(),
            vec![],
            "unknown",
            "it cannot be read there; also, the namespace \"h\" is halted",
        ),
    ];
    for (there, expected, above, label, why) in cases {
        let what = format!("{there:?} {expected:?}");
        let mark = ObjectState::from(&answer(there, expected, above));
        assert_eq!((&*mark.label(), mark.why.as_deref().unwrap_or_default()), (label, why), "{what}");
    }
}

#[test]
fn what_is_not_copied_by_a_decision_needs_no_attention() {
    let withheld = |why| vec![Above { comes: Err(why), ..above("a", false) }];
    let role = || Withheld::OtherRole { role: "r".into(), there: Some("a".into()), here: None };
    let blocked = |why| Expected::AsItIs(why);
    let halted = || blocked(Untouched::Halted { at: "h".into(), condition: None, follows_deletion: false });
    for (there, expected, above, needs) in [
        (There::Nothing, Expected::Nothing, withheld(Withheld::NotInTree), false),
        (There::Nothing, Expected::Nothing, withheld(Withheld::NotOptedIn), false),
        (There::Nothing, Expected::Nothing, withheld(role()), true),
        (There::Nothing, blocked(Untouched::Ignored), vec![above("a", true)], false),
        (There::Nothing, halted(), withheld(Withheld::OptedOut), true),
        (There::Nothing, Expected::Copy("a".into()), vec![above("a", true)], true),
        (own(), Expected::Conflict("a".into()), vec![above("a", true)], true),
        (own(), Expected::Own, vec![], false),
    ] {
        let what = format!("{there:?} {expected:?} {above:?}");
        assert_eq!(ObjectState::from(&answer(there, expected, above)).needs_attention(), needs, "{what}");
    }
}

#[test]
fn a_conflict_and_a_halted_namespace_have_advice() {
    let advice = |expected| ObjectState::from(&answer(own(), expected, vec![above("a", true)])).advice;
    assert_eq!(advice(Expected::Copy("a".into())), None);
    assert_eq!(
        advice(Expected::Conflict("a".into())).as_deref(),
        Some("rename or delete one of the two objects")
    );
    let halted =
        || Expected::AsItIs(Untouched::Halted { at: "h".into(), condition: None, follows_deletion: false });
    let found = advice(halted());
    assert!(found.as_ref().is_some_and(|it| it.contains("describe h`")), "{found:?}");
    let absent = ObjectState::from(&answer(There::Nothing, halted(), vec![])).advice;
    assert_eq!(absent, None, "it would not come");
}

#[test]
fn reasons_are_combined() {
    let said = |answer: &ObjectExplanation| ObjectState::from(answer).why.unwrap_or_default();
    let untouched = |why| answer(There::Nothing, Expected::AsItIs(why), vec![above("a", false)]);
    let going = said(&untouched(Untouched::NamespaceTerminating));
    assert!(going.starts_with("the namespace is being deleted; also, the one in a is not copied"), "{going}");
    assert_eq!(
        said(&untouched(Untouched::Ignored)),
        "its kind is in mode Ignore",
        "which is why it does not come"
    );

    let never = Above { comes: Err(Withheld::Excluded("such objects stay".into())), ..above("a", false) };
    let own_kind = answer(There::Nothing, Expected::AsItIs(Untouched::NotConfigured), vec![never]);
    assert_eq!(said(&own_kind), "the one in a is not copied here, because such objects stay");

    let made_of = || Withheld::Excluded(STRUCTURE.into());
    let structure = Expected::AsItIs(Untouched::Never(STRUCTURE));
    let anchor = ObjectExplanation { stays: Some(made_of()), ..answer(own(), structure.clone(), Vec::new()) };
    assert_eq!(said(&anchor), "it is not propagated, because the hierarchy is made of objects of its kind");
    let below = answer(There::Nothing, structure, vec![Above { comes: Err(made_of()), ..above("a", false) }]);
    assert_eq!(
        said(&below),
        "the one in a is not copied here, because the hierarchy is made of objects of its kind"
    );

    let stays =
        ObjectExplanation { stays: Some(Withheld::OptedOut), ..answer(own(), Expected::Own, Vec::new()) };
    assert_eq!(
        said(&stays),
        "it is not propagated, because its annotation propagate.hnc.x-k8s.io/none is true"
    );

    let source = answer(own(), Expected::AsItIs(Untouched::NotConfigured), Vec::new());
    let why = "it is not propagated, because the HNCConfiguration does not name its kind";
    assert_eq!(said(&source), why);
    let both = ObjectExplanation { stays: Some(Withheld::OptedOut), ..source };
    let also = "also, the HNCConfiguration does not name its kind";
    assert!(said(&both).ends_with(also), "{}", said(&both));

    let refused = Condition::new(Reason::CannotPropagateObject, "quota");
    let missing = answer(There::Nothing, Expected::Copy("a".into()), vec![above("a", true)]);
    let waiting = Condition::new(Reason::QuotaNotInForce, "quotas first");
    for (condition, is_certain, end) in [
        (&refused, true, "; the API server refused it: quota"),
        (&refused, false, ": perhaps this one, or one that must come first: quota"),
        (&waiting, true, "; it waits: quotas first"),
    ] {
        let refused = Some(Refusal { condition: condition.clone(), is_certain });
        let said = said(&ObjectExplanation { refused, ..missing.clone() });
        assert!(said.contains("in mode Propagate; ") && said.ends_with(end), "{said}");
    }

    let unseen = vec!["top".into()];
    let hidden =
        ObjectExplanation { unseen, ..answer(copy("top"), Expected::Copy("top".into()), Vec::new()) };
    assert_eq!(said(&hidden), "whether top has one is unknown: you may not read it there");

    let absent = |expected| {
        let unseen = vec!["par".into()];
        let answer = ObjectExplanation { unseen, ..answer(There::Nothing, expected, Vec::new()) };
        let mark = ObjectState::from(&answer);
        (mark.label(), mark.is_doubtful, mark.why.unwrap_or_default())
    };
    let unknown = "whether par has one is unknown: you may not read it there";
    assert_eq!(absent(Expected::Unknown), ("not there".to_owned(), true, unknown.to_owned()));
    let (label, _, why) = absent(Expected::AsItIs(Untouched::NotConfigured));
    assert_eq!((&*label, &*why), ("not there", "the HNCConfiguration does not name its kind"));
    let unseen = vec!["par".into()];
    let of_par = ObjectExplanation { unseen, ..answer(copy("par"), Expected::Unknown, Vec::new()) };
    assert_eq!(ObjectState::from(&of_par).label(), "copy of par (by its label)");

    let unseen_roles = vec!["top".into()];
    let hidden = ObjectExplanation {
        unseen_roles,
        ..answer(copy("top"), Expected::Unknown, vec![above("top", true)])
    };
    assert_eq!(said(&hidden), "it refers to a Role, and the Roles in top are unknown");
}

#[test]
fn a_kind_with_an_unreadable_configuration_is_unknown() {
    let object_states = object_states(&["a", "b < a"], &[("a", "", "")]);
    let other = Kind { group: "x.io".into(), version: "v1".into(), kind: "X".into(), resource: "xs".into() };
    let configured =
        ConfiguredKinds { is_known: false, ..ConfiguredKinds::new(Served::default(), Vec::new()) };
    let of_other = ObjectStates::new(other, "x".into(), object_states.loaded, &configured);
    assert_eq!(of_other.in_configuration, KindInConfiguration::Unknown);
    let known = ConfiguredKinds { is_known: true, ..configured };
    let of_other = ObjectStates::new(of_other.kind, "x".into(), of_other.loaded, &known);
    assert_eq!(of_other.in_configuration, KindInConfiguration::Absent);
    for group in ["hnc.x-k8s.io", "accurate.cybozu.com"] {
        let kind = Kind { group: group.into(), ..of_other.kind.clone() };
        let in_configuration = KindInConfiguration::of(&kind, &[], &known.served, &known.resolution);
        assert_eq!(in_configuration, KindInConfiguration::Never(STRUCTURE), "{group}");
    }
}

/// A tenant does not read what is above the missing parent.
#[test]
fn a_source_above_a_missing_parent_may_exist() {
    let missing = "ActivitiesHalted (ParentMissing): The parent \"gone\" does not exist";
    for (is_whole, from, label) in
        [(true, "top", "to be removed"), (false, "top", "copy of top"), (false, "gone", "to be removed")]
    {
        let ObjectStates { kind, name, mut loaded, .. } =
            object_states(&[&format!("o < gone ! {missing}")], &[("o", from, "")]);
        loaded.structure.is_whole = is_whole;
        let configured = configured(&kind);
        let states = ObjectStates::new(kind, name, loaded, &configured);
        let state = ObjectState::from(&states.answer("o").unwrap());
        assert_eq!(state.label(), label, "{is_whole} {from} {state:?}");
    }
}
