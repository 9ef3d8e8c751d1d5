//! Rows 1 to 6.

use super::*;

#[test]
fn row_1_keys_below_the_group_are_the_four() {
    let cases = [
        ("propagate.hnc.x-k8s.io/select", true),
        ("propagate.hnc.x-k8s.io/treeSelect", true),
        ("propagate.hnc.x-k8s.io/none", true),
        ("propagate.hnc.x-k8s.io/all", true),
        ("hnc.x-k8s.io/x", true),
        ("hnc.x-k8s.io/inherited-from", true),
        ("a.b.hnc.x-k8s.io/x", true),
        ("a.propagate.hnc.x-k8s.io/select", true),
        ("xhnc.x-k8s.io/x", true),
        ("foo.hnc.x-k8s.io.example/x", true),
        ("example.com/foo.hnc.x-k8s.io", true),
        ("select", true),
        ("propagate.hnc.x-k8s.io/Select", false),
        ("propagate.hnc.x-k8s.io/treeselect", false),
        ("propagate.hnc.x-k8s.io/any", false),
        ("propagate.hnc.x-k8s.io/", false),
        ("propagate.hnc.x-k8s.io", false),
        ("propagat.hnc.x-k8s.io/select", false),
        ("foo.hnc.x-k8s.io/x", false),
        ("foo.hnc.x-k8s.io/select", false),
        ("foo.hnc.x-k8s.io/x/y", false),
    ];
    for (key, allowed) in cases {
        let object = || Object::role().annotate(key, "");
        let refused = Denied(BadRequest, &["propagate.hnc.x-k8s.io/treeSelect", "remove it"]);
        let expected = if allowed { &Allowed } else { &refused };
        let mut forest = forest("");
        Try::create(object()).expect(key, &mut forest, expected);
        Try::update(Object::role(), object()).expect(key, &mut forest, expected);
        Try::update(object(), object()).expect(&format!("{key} as before"), &mut forest, expected);
        Try::update(object(), Object::role()).expect(&format!("without {key}"), &mut forest, &Allowed);
        let last = Try::update(object().finalizer("x/y").terminating(), object().terminating());
        last.expect(&format!("{key} on what is being deleted"), &mut forest, &Allowed);
    }
}

#[test]
fn rows_2_to_5_what_is_changed_makes_sense() {
    let cases: [(&str, &str, &[&str], &[&str]); 4] = [
        (
            "select",
            "rows 2",
            &["a", "!a", "a!=b", "a>1", "a in (b,)", " ", ""],
            &["a b", "a=b,", "a in b", "a=b)"],
        ),
        ("treeSelect", "row 3", &["a", "!a", "a, !b", ""], &["a, b", " ", "a,", "! a", "A", "a.b"]),
        ("none", "row 4", &["true", "T", "0", "false", ""], &["tRuE", "yes", " ", "2"]),
        ("all", "row 5", &["true", "1", "f", ""], &["tRuE", "no", " true", "-1"]),
    ];
    let other = Object::role().label("other", "x");
    for (key, row, right, wrong) in cases {
        let with = |value: &str| Object::role().asks(key, value);
        let mut forest = forest("");
        for value in right {
            let what = format!("{row}: {value:?}");
            Try::create(with(value)).expect(&what, &mut forest, &Allowed);
            Try::update(other.clone(), with(value)).expect(&what, &mut forest, &Allowed);
            Try::update(with("a b c"), with(value)).expect(&what, &mut forest, &Allowed);
        }
        for value in wrong {
            let what = format!("{row}: {value:?}");
            let refused =
                Denied(BadRequest, &["propagate.hnc.x-k8s.io/", "cannot be understood", "remove it"]);
            Try::create(with(value)).expect(&what, &mut forest, &refused);
            Try::update(other.clone(), with(value)).expect(&what, &mut forest, &refused);
            Try::update(with("a"), with(value)).expect(&what, &mut forest, &refused);
            Try::update(with("(("), with(value)).expect(&what, &mut forest, &refused);
            // A mistake from before locks nothing, and may go.
            Try::update(with(value), with(value).label("other", "x")).expect(&what, &mut forest, &Allowed);
            Try::update(with(value), other.clone()).expect(&what, &mut forest, &Allowed);
        }
    }
}

/// The old mistake must not hide the new one.
#[test]
fn rows_2_to_5_each_is_judged_by_itself() {
    let old = Object::role().asks("select", "((");
    let new = old.clone().asks("none", "maybe");
    let refused = Denied(BadRequest, &["propagate.hnc.x-k8s.io/none", "maybe"]);
    Try::update(old, new).expect("select was wrong, none is", &mut forest(""), &refused);
}

#[test]
fn row_6_one_at_a_time() {
    let refused = || Denied(BadRequest, &["remove all but one"]);
    let two = || Object::role().asks("select", "a").asks("none", "false");
    let cases = [
        ("two at creation", Try::create(two()), refused()),
        ("a second", Try::update(Object::role().asks("select", "a"), two()), refused()),
        ("false counts", Try::create(Object::role().asks("none", "false").asks("all", "false")), refused()),
        (
            "select and treeSelect",
            Try::create(Object::role().asks("select", "a").asks("treeSelect", "a")),
            refused(),
        ),
        ("empty ones do not count", Try::create(two().asks("none", "").asks("all", "")), Allowed),
        ("two as before", Try::update(two(), two().label("x", "y")), Allowed),
        ("two, one changed", Try::update(two(), two().asks("select", "b")), refused()),
        ("three, one taken away", Try::update(two().asks("all", "true"), two()), refused()),
        ("two, one taken away", Try::update(two(), two().asks("none", "")), Allowed),
        ("two, both taken away", Try::update(two(), Object::role()), Allowed),
    ];
    for (what, attempt, expected) in cases {
        attempt.expect(what, &mut forest(""), &expected);
    }
}
