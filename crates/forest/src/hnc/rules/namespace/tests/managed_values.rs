//! Labels and annotations that the hierarchy sets.

use super::*;

#[test]
fn what_the_hierarchy_sets_stays() {
    const LABEL: Expected = Denied(
        Forbidden,
        &["the label tier", "\"gold\"", "spec.labels of the HierarchyConfiguration of \"r\""],
    );
    const ANNOTATION: Expected = Denied(Forbidden, &["the annotation owner", "\"jane\"", "\"a\""]);
    const ANCHOR: Expected = Denied(Forbidden, &["spec.labels of the anchor \"y\" in namespace \"x\""]);
    let mut cluster = Cluster::draw("r, a:r, b<a, x, y<x, out");
    cluster.change_anchor("x", "y", |it| it.labels = [("tier", "tin")].into_iter().collect());
    cluster.change_hierarchy("r", |it| it.labels = [("tier", "gold")].into_iter().collect());
    cluster.change_hierarchy("a", |it| {
        it.labels = [("tier", "tin")].into_iter().collect();
        it.annotations = [("owner", "jane")].into_iter().collect();
    });
    let cases = [
        ("b", "tier=gold", "", LABEL),
        ("b", "tier=gold", "tier=tin", LABEL),
        ("r", "tier=gold", "", LABEL),
        ("b", "owner=jane, tier=gold", "tier=gold", ANNOTATION),
        ("a", "", "owner=joe", ANNOTATION),
        ("y", "tier=tin", "", ANCHOR),
        ("b", "tier=gold", "tier=gold, team=red", Allowed),
        ("b", "tier=tin", "tier=gold", Allowed),
        ("b", "tier=tin", "tier=tin, team=red", Allowed),
        ("r", "owner=joe", "", Allowed),
        ("x", "tier=gold", "tier=tin", Allowed),
        ("unknown", "tier=gold", "tier=tin", Allowed),
    ];
    for (name, old, new, expected) in cases {
        let verdict = judge(&mut cluster.forest_with(operated()), &update(name, old, new), &[]);
        check(&format!("{name}: {old:?} to {new:?}"), &verdict, &expected);
    }
    let mut starting = crate::cluster::empty_forest();
    let verdict = judge(&mut starting, &update("b", "tier=gold", ""), &[]);
    check("the hierarchy is not known yet", &verdict, &Denied(Unavailable, &[]));
    cluster.annotate("out", &[("hnc.x-k8s.io/managed-by", "fleet")]);
    let verdict = judge(&mut cluster.forest_with(operated()), &update("out", "tier=gold", ""), &[]);
    check("another tool decides", &verdict, &Allowed);
}
