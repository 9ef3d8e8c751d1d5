//! Where an object goes, as a table in words (`tests/table.txt`); selectors as the API server reads them
//! (`tests/selectors.txt`), and as a few lines of naive Rust understand them; and no text at all that does harm.

mod selectors;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::core::destination::goes_to;
use crate::core::kind::{Kind, KindSettings, Mode};

type Pairs = BTreeMap<String, String>;

fn parse(select: Option<&str>, tree_select: Option<&str>, none: Option<&str>, all: Option<&str>) -> Parsed {
    Exceptions::parse(|key| match key {
        keys::SELECT => select,
        keys::TREE_SELECT => tree_select,
        keys::NONE => none,
        keys::ALL => all,
        other => panic!("{other} is asked for"),
    })
}

type Parsed = Result<Exceptions, Unparsable>;

/// A line of the table.
struct Row<'a> {
    text: &'a str,
    mode: &'a str,
    annotations: [Option<&'a str>; 4],
    labels: &'a str,
    outcome: &'a str,
}

fn rows(table: &str) -> impl Iterator<Item = Row<'_>> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|text| {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [mode, select, tree_select, none, all, labels, outcome] = cells[..] else {
            panic!("{text} has {} cells", cells.len())
        };
        let annotations = [select, tree_select, none, all].map(|cell| match cell {
            "" => None,
            cell => Some(cell.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')).unwrap_or(cell)),
        });
        Row { text, mode, annotations, labels, outcome }
    })
}

fn labels(cell: &str) -> Pairs {
    let pair = |word: &str| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (format!("{word}.tree.hnc.x-k8s.io/depth"), "1".to_owned()),
    };
    cell.split_whitespace().map(pair).collect()
}

fn mode(cell: &str) -> Mode {
    let modes = [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore];
    modes.into_iter().find(|mode| mode.to_string() == cell).unwrap_or_else(|| panic!("no mode: {cell}"))
}

fn word(result: Result<(), Withheld>) -> String {
    let word = match result {
        Ok(()) => "goes",
        Err(Withheld::Mode(_)) => "mode",
        Err(Withheld::Excluded(_) | Withheld::CopiedByHop | Withheld::ExcludedName(_)) => "excluded",
        Err(Withheld::NotSelected) => "not selected",
        Err(Withheld::NotInTree) => "not in tree",
        Err(Withheld::OptedOut) => "opted out",
        Err(Withheld::NotOptedIn) => "not opted in",
        Err(Withheld::OtherRole { .. } | Withheld::RoleTerminating(_)) => "other role",
        Err(Withheld::Unparsable(it)) => {
            return format!("error {}", it.annotation.split_once('/').unwrap().1);
        }
    };
    word.to_owned()
}

#[test]
fn every_row_of_the_table() {
    let mut count = 0;
    for row in rows(include_str!("tests/table.txt")) {
        let (mode_cell, excluded) = match row.mode.strip_suffix(", excluded") {
            Some(mode) => (mode, Some("it is marked so")),
            None => (row.mode, None),
        };
        let kind = KindSettings::new(Kind::role(), mode(mode_cell));
        let [select, tree_select, none, all] = row.annotations;
        let exceptions = parse(select, tree_select, none, all);
        let labels = labels(row.labels);
        let label = |key: &str| labels.get(key).cloned();
        let result = goes_to(&kind, "name", excluded, Some(&exceptions), &label);
        let can_go = exceptions.as_ref().is_ok_and(|it| it.admit_somewhere(kind.mode).is_ok());
        assert!(can_go || result.is_err(), "it goes where nothing goes: {}", row.text);
        assert_eq!(word(result), row.outcome, "{}", row.text);
        count += 1;
    }
    assert!(count >= 60, "only {count} rows");
}

#[test]
fn where_nothing_is_said_there_is_nothing_to_say() {
    for mode in [Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore] {
        let kind = KindSettings::new(Kind::role(), mode);
        let nothing = parse(None, None, None, None);
        let said = goes_to(&kind, "name", None, Some(&nothing), &|_| None);
        assert_eq!(goes_to(&kind, "name", None, None, &|_| None), said, "{mode}");
    }
}

#[test]
fn what_goes_nowhere_is_told_without_looking_at_a_namespace() {
    let cases = [
        (Mode::Propagate, parse(Some("a"), None, None, None), Ok(())),
        (Mode::AllowPropagate, parse(None, Some("a"), None, None), Ok(())),
        (Mode::AllowPropagate, parse(None, None, None, Some("true")), Ok(())),
        (Mode::AllowPropagate, parse(None, None, Some("false"), None), Err(Withheld::NotOptedIn)),
        (Mode::Propagate, parse(Some("a"), None, Some("true"), None), Err(Withheld::OptedOut)),
        (Mode::Remove, parse(None, None, None, Some("true")), Err(Withheld::Mode(Mode::Remove))),
    ];
    for (mode, exceptions, expected) in cases {
        assert_eq!(exceptions.unwrap().admit_somewhere(mode), expected, "{mode}");
    }
}

/// A message is for a user who has many annotations and one mistake.
#[test]
fn a_mistake_is_named_with_its_annotation_and_its_text() {
    let cases = [
        (parse(Some("team~red"), None, None, None), "propagate.hnc.x-k8s.io/select", "team~red"),
        (parse(None, Some("a,,b"), None, None), "propagate.hnc.x-k8s.io/treeSelect", "a,,b"),
        (parse(None, Some("a,b"), None, None), "propagate.hnc.x-k8s.io/treeSelect", "only one"),
        (parse(None, None, Some("yes"), None), "propagate.hnc.x-k8s.io/none", "yes"),
        (parse(None, None, None, Some("no")), "propagate.hnc.x-k8s.io/all", "no"),
    ];
    for (parsed, annotation, text) in cases {
        let message = parsed.unwrap_err().to_string();
        assert!(message.contains(annotation) && message.contains(text), "{message}");
    }
}

/// Mostly what could stand in a selector, so that the parsers get somewhere.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = "a|b|in|notin|x\\.y/z|,|\\(|\\)|=|==|!=|!|>|<| |\\t|5|-|\u{a0}|\u{0}|ä|true|\\PC";
    prop_oneof![
        prop::collection::vec(pieces, 0..12).prop_map(|pieces: Vec<String>| pieces.concat()),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_does_harm(texts in prop::array::uniform4(prop::option::of(any_text())), value in any_text()) {
        let [select, tree_select, none, all] = texts.each_ref().map(Option::as_deref);
        match parse(select, tree_select, none, all) {
            Ok(exceptions) => {
                for mode in [Mode::Propagate, Mode::AllowPropagate] {
                    let _ = exceptions.admit(mode, &|_| Some(value.clone()));
                    let _ = exceptions.admit(mode, &|_| None);
                }
            }
            Err(unparsable) => prop_assert!(!unparsable.why.is_empty()),
        }
    }
}
