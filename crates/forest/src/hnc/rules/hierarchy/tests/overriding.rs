//! `--refuse-label-conflicts`: what a change would override is kept from being lost without a word.

use super::*;
use crate::cluster::settings;
use crate::core::labels::Labels;

fn ask(cluster: &mut Cluster, name: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) {
    let collect = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
    cluster.change_hierarchy(name, |seen| {
        (seen.labels, seen.annotations) = (collect(labels), collect(annotations));
    });
}

fn asking(mut request: Request, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Request {
    let collect = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };
    (request.new.labels, request.new.annotations) = (collect(labels), collect(annotations));
    request
}

/// `low` asks for tier=gold and owner=jane; `p`, in another tree, for tier=iron.
fn forest(refuse: bool) -> Forest {
    let mut cluster = Cluster::draw("top, mid:top, low:mid, p");
    ask(&mut cluster, "low", &[("tier", "gold"), ("colour", "red")], &[("owner", "jane")]);
    ask(&mut cluster, "p", &[("tier", "iron")], &[]);
    let mut settings = settings();
    settings.refuse_label_conflicts = refuse;
    cluster.forest_with(settings)
}

#[test]
fn what_a_descendant_asks_for_is_not_overridden() {
    let same = || update("mid", "top > top");
    let moved = || update("mid", "top > p");
    let admins = || vec![("admin top", Yes), ("admin p", Yes)];
    let cases: [(&str, Request, Vec<Answered<'_>>, Expected); 11] = [
        ("nothing is asked for", same(), vec![], Allowed),
        ("something else", asking(same(), &[("zone", "a")], &[]), vec![], Allowed),
        ("the same", asking(same(), &[("tier", "gold")], &[("owner", "jane")]), vec![], Allowed),
        (
            "another value",
            asking(same(), &[("tier", "iron")], &[]),
            vec![],
            Denied(Conflict, &["tier=gold of \"low\""]),
        ),
        (
            "of an annotation",
            asking(same(), &[], &[("owner", "joe")]),
            vec![],
            Denied(Conflict, &["owner=jane of \"low\""]),
        ),
        (
            "of both",
            asking(same(), &[("tier", "iron")], &[("owner", "joe")]),
            vec![],
            Denied(Conflict, &["tier=gold of \"low\"", "owner=jane of \"low\""]),
        ),
        ("from a new parent", moved(), admins(), Denied(Conflict, &["tier=gold of \"low\""])),
        (
            "not told to a user who may not join",
            moved(),
            vec![("admin top", No), ("admin p", Yes)],
            Denied(Unauthorized, &["\"top\""]),
        ),
        (
            "its own, from a new parent",
            asking(moved(), &[("tier", "tin")], &[]),
            admins(),
            Denied(Conflict, &["tier=tin of \"mid\"", "tier=gold of \"low\""]),
        ),
        ("into nothing", update("mid", "top >"), vec![("admin top", Yes)], Allowed),
        ("deleted", delete("mid", "top"), vec![("admin top", Yes)], Allowed),
    ];
    for (what, request, answers, expected) in cases {
        check(what, &judge(&mut forest(true), &request, &answers, |_| ()), &expected);
        if matches!(expected, Denied(Conflict, _)) {
            check("by default", &judge(&mut forest(false), &request, &answers, |_| ()), &Allowed);
        }
    }
}

#[test]
fn values_that_are_already_overridden_deny_nothing() {
    let mut cluster = Cluster::draw("top, mid:top, low:mid");
    ask(&mut cluster, "top", &[("tier", "iron")], &[]);
    ask(&mut cluster, "mid", &[("tier", "tin")], &[]);
    let mut settings = settings();
    settings.refuse_label_conflicts = true;
    let mut forest = cluster.forest_with(settings);
    let mut request = asking(update("mid", "top > top"), &[("tier", "tin")], &[]);
    request.old = request.new.clone();
    check("as it is", &judge(&mut forest, &request, &[], |_| ()), &Allowed);
    request.new.allow_cascading_deletion = true;
    check("with another field", &judge(&mut forest, &request, &[], |_| ()), &Allowed);
    request.new.labels.push(("zone".into(), "a".into()));
    check("with another label", &judge(&mut forest, &request, &[], |_| ()), &Allowed);
    request.new.labels.clear();
    check("withdrawn", &judge(&mut forest, &request, &[], |_| ()), &Allowed);
    let request = asking(update("low", "mid > mid"), &[("tier", "tin")], &[]);
    let verdict = judge(&mut forest, &request, &[], |_| ());
    check("the highest decides", &verdict, &Denied(Conflict, &["tier=tin of \"low\""]));
    let request = asking(update("low", "mid > mid"), &[("tier", "iron")], &[]);
    check("and is agreed with", &judge(&mut forest, &request, &[], |_| ()), &Allowed);
}
