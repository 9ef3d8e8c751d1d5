//! The steps for each situation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

fn placement(of: Option<&str>, parent: Option<&str>, anchors: &[&str]) -> Placement {
    let text = |it: &str| it.to_owned();
    Placement {
        name: "n".into(),
        subnamespace_of: of.map(text),
        parent: parent.map(text),
        anchors: anchors.iter().copied().map(text).collect(),
        ..Placement::default()
    }
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| step.line("n")).collect()
}

#[test]
fn a_full_namespace_moves_by_its_parent() {
    assert_eq!(lines(&move_to(&placement(None, Some("o"), &[]), "p")), ["set the parent of n to p"]);
    assert_eq!(lines(&move_to(&placement(None, None, &[]), "p")), ["set the parent of n to p"]);
    assert!(move_to(&placement(None, Some("p"), &[]), "p").is_empty());
}

#[test]
fn a_subnamespace_gets_its_new_anchor_before_the_old_one_is_deleted() {
    let steps = move_to(&placement(Some("o"), Some("o"), &["o"]), "p");
    assert_eq!(
        lines(&steps),
        [
            "annotate namespace n with hnc.x-k8s.io/subnamespace-of=p (now o)",
            "create the subnamespace anchor n in p",
            "delete the subnamespace anchor n in o, which then no longer owns n",
        ]
    );
}

/// A second run performs the remaining steps, wherever the first one was interrupted.
#[test]
fn an_interrupted_move_continues() {
    let states = [
        (placement(Some("o"), Some("o"), &["o"]), 3),
        (placement(Some("p"), Some("o"), &["o"]), 2),
        (placement(Some("p"), Some("p"), &["o"]), 2),
        (placement(Some("p"), Some("p"), &["o", "p"]), 1),
        (placement(Some("p"), Some("p"), &["p"]), 0),
    ];
    let full = move_to(&states[0].0, "p");
    for (state, left) in states {
        let steps = move_to(&state, "p");
        assert_eq!(steps, full[full.len() - left..], "{state:?}");
    }
}

#[test]
fn where_anchors_were_searched_is_noted_unless_it_is_nowhere() {
    assert_eq!(where_searched(&[]), None);
    assert!(where_searched(&["o", "p"]).is_some_and(|it| it.ends_with(" only in o, p")));
}

#[test]
fn conversions_keep_the_parent() {
    let sub = placement(Some("o"), Some("o"), &["o"]);
    assert_eq!(
        lines(&to_full(&sub).unwrap()),
        [
            "remove the annotation hnc.x-k8s.io/subnamespace-of from namespace n",
            "delete the subnamespace anchor n in o, which then no longer owns n",
        ]
    );
    assert!(to_full(&placement(Some("o"), None, &["o"])).is_err(), "it would have no parent");
    assert_eq!(lines(&to_full(&placement(None, Some("o"), &["o"])).unwrap()).len(), 1, "the second run");
    assert!(to_full(&placement(None, Some("o"), &[])).unwrap().is_empty());
    let in_accurate = |it| Placement { accurate_parent: Some("a".into()), ..it };
    let failure = to_full(&in_accurate(placement(None, None, &[]))).unwrap_err();
    assert!(failure.hint.unwrap().contains("`kubectl accurate sub cut n`"));
    assert_eq!(to_full(&in_accurate(sub.clone())).unwrap().len(), 2, "it is in both hierarchies");

    let full = placement(None, Some("o"), &[]);
    assert_eq!(
        lines(&to_sub(&full).unwrap()),
        ["annotate namespace n with hnc.x-k8s.io/subnamespace-of=o", "create the subnamespace anchor n in o"]
    );
    assert_eq!(lines(&to_sub(&placement(Some("o"), Some("o"), &[])).unwrap()).len(), 1, "the second run");
    assert!(to_sub(&placement(Some("o"), Some("o"), &["o"])).unwrap().is_empty());
    for (is_in_accurate, command) in
        [(false, "`kubectl hns move n --to PARENT`"), (true, "`kubectl hns convert ROOT")]
    {
        let root = Placement { is_in_accurate, ..placement(None, None, &[]) };
        let hint = to_sub(&root).unwrap_err().hint.unwrap();
        assert!(hint.contains(command), "{hint}");
    }
}

#[test]
fn rights_have_readable_names() {
    let steps = move_to(&placement(Some("o"), Some("o"), &["o"]), "p");
    let rights: Vec<String> = steps.iter().map(|step| step.right("n").to_string()).collect();
    assert_eq!(
        rights,
        [
            "update the namespace n",
            "create subnamespaceanchors.hnc.x-k8s.io in p",
            "delete subnamespaceanchors.hnc.x-k8s.io in o",
        ]
    );
}

#[test]
fn no_parent_is_advised_for_an_external_namespace() {
    let external = Placement { external_manager: Some("tool".into()), ..placement(None, None, &[]) };
    let failure = to_sub(&external).unwrap_err();
    assert!(failure.text.starts_with("Error: tool manages the place of n") && failure.hint.is_none());
    assert!(to_sub(&placement(None, None, &[])).unwrap_err().hint.unwrap().contains("--to PARENT"));
}

#[test]
fn a_namespace_that_is_being_deleted_stays_where_it_is() {
    assert_eq!(stays("n", &ObjectMeta::default()), Ok(()));
    let deleted = serde_json::json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let failure = stays("n", &serde_json::from_value(deleted).unwrap()).unwrap_err();
    assert_eq!(failure.text, "Error: n is being deleted");
}
