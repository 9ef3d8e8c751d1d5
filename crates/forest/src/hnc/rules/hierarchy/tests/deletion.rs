//! Deletion: as setting the parent to none, but for namespaces that are going or gone.

use super::*;
use crate::hnc::rules::{Link, link};

#[test]
fn deletion_is_judged_as_setting_the_parent_to_none() {
    check_all([
        ("there is no parent", "child", delete("child", ""), vec![], Allowed),
        ("not even known", "", delete("child", ""), vec![], Allowed),
        ("nor managed", "kube-system", delete("kube-system", ""), vec![], Allowed),
        (
            "with the root's consent",
            "top, c:top, child:c",
            delete("child", "c"),
            vec![("admin top", Yes)],
            Allowed,
        ),
        (
            "without",
            "top, c:top, child:c",
            delete("child", "c"),
            vec![("admin top", No), ("live child", Yes)],
            Denied(Unauthorized, &[USER, "\"child\"", "\"top\"", "the root of the tree"]),
        ),
        ("of an orphan", "child:gone", delete("child", "gone"), vec![("live gone", No)], Allowed),
        (
            "below an unmanaged parent",
            "child:kube-system, kube-system",
            delete("child", "kube-system"),
            vec![],
            Allowed,
        ),
        (
            "below a halted namespace",
            "a:b, b:a, child:b",
            delete("child", "b"),
            vec![("live child", Yes)],
            Denied(Forbidden, &["\"b\"", "halted"]),
        ),
        (
            "the forest lags behind",
            "c, child",
            delete("child", "c"),
            vec![("await child below c", No), ("live child", Yes)],
            Denied(Unavailable, &["\"child\""]),
        ),
        (
            "of an unmanaged namespace",
            "kube-system, c",
            delete("kube-system", "c"),
            vec![("live kube-system", Yes)],
            Denied(Forbidden, &["\"kube-system\""]),
        ),
        (
            "of a namespace that cannot be read",
            "c",
            delete("child", "c"),
            vec![("live child", failed())],
            Denied(Internal, &["\"child\"", "connection refused"]),
        ),
    ]);
}

#[test]
fn deletion_is_anyones_in_a_namespace_that_is_going_or_gone() {
    for answer in [Terminating, No] {
        check_all([
            (
                "without consent",
                "c, child!:c",
                delete("child", "c"),
                vec![("admin c", No), ("live child", answer.clone())],
                Allowed,
            ),
            (
                "consent cannot be found out",
                "c, child!:c",
                delete("child", "c"),
                vec![("admin c", failed()), ("live child", answer.clone())],
                Allowed,
            ),
            (
                "below a halted namespace",
                "a:b, b:a, child!:b",
                delete("child", "b"),
                vec![("live child", answer.clone())],
                Allowed,
            ),
            (
                "unmanaged",
                "kube-system, c",
                delete("kube-system", "c"),
                vec![("live kube-system", answer.clone())],
                Allowed,
            ),
        ]);
    }
    check_all([
        ("gone from the forest too", "c", delete("child", "c"), vec![("live child", No)], Allowed),
        (
            "going, and never known to the forest",
            "c",
            delete("child", "c"),
            vec![("live child", Terminating), ("await child", No)],
            Allowed,
        ),
        (
            "the cache says so, the API server does not",
            "c, child!:c",
            delete("child", "c"),
            vec![("admin c", No), ("live child", Yes)],
            Denied(Unauthorized, &["\"c\""]),
        ),
        (
            "the answer is unknown",
            "c, child!:c",
            delete("child", "c"),
            vec![("admin c", No), ("live child", failed())],
            Denied(Unauthorized, &["\"c\""]),
        ),
    ]);
}

/// Kubernetes deletes the `HierarchyConfiguration` first, and perhaps the namespace never: an object in it can have a finalizer.
#[test]
fn the_last_parent_of_a_namespace_that_is_being_deleted_is_settled_once_the_forest_has_seen_all() {
    let mut cluster = Cluster::draw("rival, t1:rival, kid:t1");
    cluster.label_place("t1", &["rival"]);
    let uid = cluster.namespaces["t1"].version.uid.to_string();
    let mut forest = cluster.forest();
    let link = link(&forest, "t1".into());
    let is_settled = |forest: &Forest, deleted: &str| link.is_settled(forest, None, Some(deleted));
    assert!(!is_settled(&forest, &uid), "the forest has seen nothing");
    forest.apply(cluster.terminate("t1").unwrap());
    assert!(!is_settled(&forest, &uid), "the object may have changed before it went");
    forest.apply(cluster.remove_hierarchy("t1").unwrap());
    assert!(is_settled(&forest, &uid));
    assert!(!is_settled(&forest, "another"), "a new namespace of the name");
    assert!(!link.is_settled(&forest, None, None), "live, it stays");
    assert!(!link.is_settled(&forest, Some(&"other".into()), Some(&uid)), "live, it has another");
    let elsewhere = Link { parent: Some("other".into()), ..link.clone() };
    assert!(!elsewhere.is_settled(&forest, None, Some(&uid)), "the rule judged by an older state");
}
