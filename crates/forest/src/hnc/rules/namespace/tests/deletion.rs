//! Rows e and f.

use super::*;
use crate::core::stream::Stream;
use crate::dialects::Fact;

#[test]
fn rule_e_a_subnamespace_goes_by_its_anchor() {
    const OF_P: &str = "hnc.x-k8s.io/subnamespace-of=p";
    check_all([
        (
            "with its anchor",
            "p, x<p",
            delete("x", OF_P),
            vec![],
            Denied(Forbidden, &["\"x\" is a subnamespace of \"p\"", "kubectl delete subns x -n p"]),
        ),
        ("the anchor is lost", "p, x<<p", delete("x", OF_P), vec![], Allowed),
        ("it is excluded", "p, kube-system<p", delete("kube-system", OF_P), vec![], Allowed),
        (
            "its parent is excluded",
            "kube-system, x<kube-system",
            delete("x", "hnc.x-k8s.io/subnamespace-of=kube-system"),
            vec![],
            Allowed,
        ),
        ("a full child", "p, x:p", delete("x", ""), vec![], Allowed),
        ("the parent is gone", "x<<p", delete("x", OF_P), vec![], Allowed),
        (
            "cascading deletion does not replace the anchor",
            "p+, x<p",
            delete("x", OF_P),
            vec![],
            Denied(Forbidden, &["\"x\" is a subnamespace of \"p\""]),
        ),
    ]);
    let mut cluster = Cluster::draw("p, q, x<<q");
    cluster.anchor("p", "x");
    let of_q = "hnc.x-k8s.io/subnamespace-of=q";
    check("another's anchor", &judge(&mut cluster.forest(), &delete("x", of_q), &[]), &Allowed);
    // The anchor is being deleted, and waits for the namespace; users still delete the anchor.
    let mut cluster = Cluster::draw("p, x<p");
    cluster.change_anchor("p", "x", |seen| seen.terminating = true);
    let verdict = judge(&mut cluster.forest(), &delete("x", OF_P), &[]);
    check("the anchor is going", &verdict, &Denied(Forbidden, &["delete its anchor"]));
}

#[test]
fn rule_f_subnamespaces_go_along_only_where_that_is_allowed() {
    const HAS: Expected = Denied(Forbidden, &["\"x\" has subnamespaces", "b", "spec.allowCascadingDeletion"]);
    check_all([
        ("a leaf", "x", delete("x", ""), vec![], Allowed),
        ("full children only", "x, b:x", delete("x", ""), vec![], Allowed),
        ("a subnamespace", "x, b<x", delete("x", ""), vec![], HAS),
        ("whose anchor is lost", "x, b<<x", delete("x", ""), vec![], HAS),
        ("among others", "x, a:x, b<x", delete("x", ""), vec![], HAS),
        ("allowed there", "x+, b<x", delete("x", ""), vec![], Allowed),
        ("allowed above", "top+, x:top, b<x", delete("x", ""), vec![], Allowed),
        ("allowed by the child only", "x, b+<x", delete("x", ""), vec![], HAS),
        ("which is going already", "x, b!<x", delete("x", ""), vec![], Allowed),
        ("deeper below a full child", "x, a:x, b<a", delete("x", ""), vec![], Allowed),
        ("in a cycle, allowed by another member", "x:y, y+:x, b<x", delete("x", ""), vec![], HAS),
        ("in a cycle, allowed there", "x+:y, y:x, b<x", delete("x", ""), vec![], Allowed),
        ("unmanaged", "kube-system, b<kube-system", delete("kube-system", ""), vec![], Allowed),
        ("not known", "", delete("x", ""), vec![], Allowed),
        (
            "one that is never deleted",
            "x+, b<x, default<b",
            delete("x", ""),
            vec![],
            Denied(Forbidden, &["\"default\" would have to be deleted", "hns convert default --to full"]),
        ),
    ]);
}

/// A namespace outside every tree must not have to wait.
#[test]
fn while_the_structure_is_not_known_only_what_is_marked_waits() {
    for lost in Stream::STRUCTURE {
        let mut forest = Cluster::draw("p, x, b<x").forest();
        forest.apply(Fact::StreamLost(lost, "forbidden".into()));
        check("unmarked", &judge(&mut forest, &delete("x", "team=red"), &[]), &Allowed);
        for marked in ["hnc.x-k8s.io/has-children=true", "hnc.x-k8s.io/subnamespace-of=p"] {
            let verdict = judge(&mut forest, &delete("x", marked), &[]);
            check(&format!("{marked} without {lost}"), &verdict, &Denied(Unavailable, &["forbidden"]));
        }
    }
}
