//! Plans in small worlds: what section 15 of Accurate's contract lists, and the order of writes. `tests/accurate.rs` has random ones.

use serde_json::{Value, json};

use super::{Action, plan};
use crate::accurate::fact::{Fact as AccurateFact, Stalled, SubNamespaceFact};
use crate::accurate::settings::Settings;
use crate::accurate::world::{binds, draw, draw_with, form, key, namespace, object, settings, version};
use crate::accurate::{AccurateAction, keys};
use crate::core::namespace::Applied;
use crate::{CrdState, Fact, Forest, HierarchyFact, Kind, NamespaceFact, Scope, Version, hnc};

/// Objects in a line: `"r/Role/a=update"`, with a source `"s/Role/a=update<r"`, and with content `"r/Secret/a=create:2"`.
fn add(forest: &mut Forest, items: &str) {
    for item in items.split_whitespace() {
        let (place, said) = item.split_once('=').unwrap();
        let [namespace, kind, name] = place.split('/').collect::<Vec<_>>().try_into().unwrap();
        let (said, content) = said.split_once(':').unwrap_or((said, "1"));
        let (mode, from) = said.split_once('<').unwrap_or((said, ""));
        let body = match kind {
            "RoleBinding" => binds("a", content),
            _ => json!({ "content": content }),
        };
        put(forest, [namespace, kind, name, mode, from], &body, "1");
    }
}

fn put(forest: &mut Forest, what: [&str; 5], body: &Value, resource_version: &str) {
    let [namespace, kind, name, mode, from] = what;
    let marks = [mode, from];
    forest.apply(object(&settings(), namespace, &key(kind, name), marks, body, resource_version));
}

fn word(forest: &Forest, action: &Action) -> String {
    let object = |key: &crate::ObjectKey| format!("{} {}", forest.kind(key.kind).kind, key.name);
    match action {
        Action::CreateCopy { key, source, .. } => format!("create {} from {source}", object(key)),
        Action::ReplaceCopy { key, source, .. } => format!("replace {} from {source}", object(key)),
        Action::DeleteCopy { key, .. } => format!("delete {}", object(key)),
        Action::PatchNamespace { .. } => "patch".into(),
        Action::Dialect(AccurateAction::ApplyNamespace { labels, annotations, .. }) => {
            let all = labels.iter().chain(annotations).map(|(key, value)| format!("{key}={value}"));
            format!("apply {}", all.collect::<Vec<_>>().join(" "))
        }
        Action::Dialect(AccurateAction::CreateNamespace { child }) => format!("create namespace {child}"),
        Action::Dialect(AccurateAction::DeleteNamespace { child, .. }) => format!("delete namespace {child}"),
        Action::Dialect(AccurateAction::UpdateSubNamespace { child, finalizers, status, .. }) => {
            let finalizers = finalizers.as_ref().map(|it| format!(" finalizers {}", it.join(" ")));
            let status = status.as_ref().map(|status| {
                let stalled = status.stalled.as_ref().map(|it| format!(" {}", it.reason)).unwrap_or_default();
                format!(" status {}{stalled}", status.observed_generation)
            });
            format!("update {child}{}{}", finalizers.unwrap_or_default(), status.unwrap_or_default())
        }
    }
}

/// The writes about objects in a namespace, in order.
fn copies(forest: &Forest, name: &str) -> Vec<String> {
    let plan = plan(forest, name, &Scope::whole());
    assert!(plan.unread.is_empty());
    plan.actions().filter(|action| action.key().is_some()).map(|action| word(forest, action)).collect()
}

/// The other writes, in order.
fn own(forest: &Forest, name: &str) -> Vec<String> {
    let plan = plan(forest, name, &Scope::structure());
    plan.actions().map(|action| word(forest, action)).collect()
}

/// A root, a sub-namespace, one below it, and an instance of a template.
const WORLD: &str = "r root, s ^r, x ^s, t template, i ~t, n";

#[test]
fn objects_go_one_namespace_further_and_those_without_a_source_go() {
    for (objects, name, wanted) in [
        ("r/Secret/a=create", "s", &["create Secret a from r"][..]),
        ("r/Secret/a=update", "s", &["create Secret a from r"]),
        // Not from further above, and not unasked.
        ("r/Secret/a=update", "x", &[]),
        ("r/Secret/a= r/Secret/b=odd", "s", &[]),
        ("t/Secret/a=update", "i", &["create Secret a from t"]),
        ("s/Secret/a=update<r r/Secret/a=update", "x", &["create Secret a from s"]),
        // Equal, or created once and left alone.
        ("r/Secret/a=update s/Secret/a=update<r", "s", &[]),
        ("r/Secret/a=create s/Secret/a=create<r:2", "s", &[]),
        ("r/Secret/a=create s/Secret/a=:2", "s", &[]),
        ("r/Secret/a=update:2 s/Secret/a=update<r", "s", &["replace Secret a from r"]),
        // 15.6: the mode of the source changes.
        ("r/Secret/a=create s/Secret/a=update<r", "s", &["replace Secret a from r"]),
        ("r/Secret/a=update s/Secret/a=create<r", "s", &["replace Secret a from r"]),
        // 15.7, and a source that is gone.
        ("r/Secret/a= s/Secret/a=update<r", "s", &["delete Secret a"]),
        ("s/Secret/a=update<r", "s", &["delete Secret a"]),
        ("s/Secret/a=create<r", "s", &[]),
        // 15.4: a child's own object.
        ("s/Secret/a=update", "s", &[]),
        // From another namespace, as after a move.
        ("r/Secret/a=update s/Secret/a=update<t", "s", &["replace Secret a from r"]),
        ("s/Secret/a=update<t s/Secret/b=create<t", "s", &["delete Secret a"]),
        // Normal namespaces, roots and templates are cleaned.
        ("n/Secret/a=update<t n/Secret/b=create<t n/Secret/c=update", "n", &["delete Secret a"]),
        ("r/Secret/a=update<t", "r", &["delete Secret a"]),
    ] {
        let mut forest = draw(WORLD);
        add(&mut forest, objects);
        assert_eq!(copies(&forest, name), wanted, "{objects} in {name}");
    }
}

/// Section 16: what a user does to a copy does not disturb the copies of it while they equal what is to be written in its place.
#[test]
fn the_copies_of_a_copy_wait_until_it_is_repaired() {
    let above = "r/Role/a=update r/RoleBinding/a=update";
    let below = "x/Role/a=update<s x/RoleBinding/a=update<s";
    for (middle, here, next) in [
        ("", &["create Role a from r", "create RoleBinding a from r"][..], &[][..]),
        ("s/RoleBinding/a=update<r", &["create Role a from r"], &[]),
        ("s/Role/a=update<r", &["create RoleBinding a from r"], &[]),
        ("s/Role/a=<r s/RoleBinding/a=update<r", &["replace Role a from r"], &[]),
        ("s/Role/a=update<t s/RoleBinding/a=update<r", &["replace Role a from r"], &[]),
        ("s/Role/a=update<r:2 s/RoleBinding/a=update<r", &["replace Role a from r"], &[]),
        // The user's own: nothing will be written there.
        (
            "s/Role/a= s/RoleBinding/a=update<r",
            &["delete RoleBinding a"],
            &["delete RoleBinding a", "delete Role a"],
        ),
    ] {
        let mut forest = draw(WORLD);
        add(&mut forest, &format!("{above} {middle} {below}"));
        assert_eq!(copies(&forest, "s"), here, "{middle}");
        assert_eq!(copies(&forest, "x"), next, "{middle}");
    }
    // They do not equal it, or are not asked for any more.
    for (objects, next) in [
        ("r/Secret/a=update:2 x/Secret/a=update<s", &["delete Secret a"][..]),
        ("r/Secret/a=update:2 s/Secret/a=update<r:3 x/Secret/a=update<s", &["replace Secret a from s"]),
        ("r/Secret/a= x/Secret/a=update<s", &["delete Secret a"]),
        ("r/Secret/a=create x/Secret/a=update<s", &["delete Secret a"]),
    ] {
        let mut forest = draw(WORLD);
        add(&mut forest, objects);
        assert_eq!(copies(&forest, "x"), next, "{objects}");
    }
    let mut forest = draw("r, s ^r, x ^s");
    add(&mut forest, "r/Secret/a=update x/Secret/a=update<s");
    assert_eq!(copies(&forest, "x"), ["delete Secret a"], "nothing is written in a frozen namespace");
}

/// Two levels down, what is kept for this reason is planned again when the reason goes.
#[test]
fn what_is_about_to_be_written_concerns_the_namespaces_below_it() {
    let mut forest = draw(WORLD);
    add(&mut forest, "r/Secret/a=update x/Secret/a=update<s x/Secret/b=create<s x/Secret/c=update");
    let gone = Fact::ObjectGone(key("Secret", "a").kind, "r".into(), "a".into(), "r/a".into());
    let change = forest.apply(gone);
    assert_eq!(
        format!("{:?}", change.namespaces["x"].objects),
        format!("Some({{{:?}}})", key("Secret", "a"))
    );
    assert_eq!(copies(&forest, "x"), ["delete Secret a"]);
}

/// 15.5: a user's own object is kept and reported, unless the operator says otherwise or it would evade a restriction.
#[test]
fn own_objects_are_kept_and_reported() {
    let objects = "r/Secret/a=update s/Secret/a=:2 r/ResourceQuota/q=update s/ResourceQuota/q=:2 r/Secret/c=update s/Secret/c=create<t";
    let mut forest = draw(WORLD);
    add(&mut forest, objects);
    assert_eq!(copies(&forest, "s"), ["replace ResourceQuota q from r"]);
    let conflicts = plan(&forest, "s", &Scope::whole()).conflicts;
    assert_eq!(conflicts.iter().map(|(key, _)| &*key.name).collect::<Vec<_>>(), ["a", "c"]);
    assert!(conflicts[0].1.contains("accurate.cybozu.com/from=r"), "{}", conflicts[0].1);
    for (key, why) in conflicts {
        forest.apply(Fact::Conflict("s".into(), key, why));
    }
    assert_eq!(plan(&forest, "s", &Scope::whole()).conflicts, []);
    assert!(!forest.has_failed(&"s".into(), &key("Secret", "a")));
    // HNC shows nothing of it, and settles nothing.
    let hnc = crate::plan::plan(&forest, "s", &Scope::whole());
    assert!(hnc.settled.is_empty() && hnc.report.is_none(), "{hnc:?}");
    // On request it is adopted.
    put(&mut forest, ["s", "Secret", "a", "", "r"], &json!({ "content": "2" }), "2");
    assert!(copies(&forest, "s").contains(&"replace Secret a from r".to_owned()));
    let mut forest = draw_with(Settings { overwrite_own_objects: true, ..settings() }, WORLD);
    add(&mut forest, objects);
    assert_eq!(copies(&forest, "s").len(), 3);
}

/// A Secret of many kilobytes is not held for nothing.
#[test]
fn content_is_kept_only_for_the_copies_that_are_made_of_it() {
    let kept = |forest: &Forest, place: &str| {
        let (namespace, name) = place.split_once('/').unwrap();
        let source = forest.source(forest.id(namespace).unwrap(), &key("Secret", name)).unwrap();
        let hop = source.hop.as_ref().and_then(|hop| hop.content.as_ref());
        [source.content.as_ref(), hop].map(|it| it.is_some_and(|it| it.canonical.is_some()))
    };
    let mut forest = draw("r root, s ^r, h, c");
    let parent = |parent: Option<&str>, resource_version: &str| {
        let version = Version { uid: "c".into(), resource_version: resource_version.into() };
        hnc::Fact::Hierarchy(
            "c".into(),
            HierarchyFact { version, parent: parent.map(Into::into), ..HierarchyFact::default() },
        )
    };
    forest.apply(parent(Some("h"), "1"));
    let objects = "r/Secret/a=update r/Secret/own= s/Secret/a=update<r h/Secret/b=update h/Secret/own=";
    add(&mut forest, objects);
    for (place, wanted) in [
        ("r/a", [false, true]),
        ("r/own", [false, false]),
        ("s/a", [false, false]),
        ("h/b", [true, false]),
        ("h/own", [true, false]),
    ] {
        assert_eq!(kept(&forest, place), wanted, "{place}");
    }
    assert!(!forest.is_unread("r", &key("Secret", "a")) && !forest.is_unread("h", &key("Secret", "own")));
    let again =
        object(&settings(), "r", &key("Secret", "a"), ["update", ""], &json!({ "content": "1" }), "1");
    assert!(forest.apply(again).namespaces.is_empty(), "nothing is new about it");
    // They have no children any more.
    forest.apply(namespace("s", "2"));
    forest.apply(parent(None, "2"));
    assert_eq!([kept(&forest, "r/a"), kept(&forest, "h/b")], [[false, false]; 2]);
    // The middle of a line: it is read when there is somebody to copy it to.
    let mut forest = draw(WORLD);
    add(&mut forest, "r/Secret/a=update s/Secret/a=update<r");
    assert_eq!([kept(&forest, "r/a"), kept(&forest, "s/a")], [[false, true]; 2]);
    forest.apply(namespace("x", "2"));
    assert_eq!(kept(&forest, "s/a"), [false, false]);
    forest.apply(namespace("x ^s", "3"));
    assert_eq!(plan(&forest, "x", &Scope::whole()).unread, [("s".into(), key("Secret", "a"))]);
    assert!(forest.is_unread("s", &key("Secret", "a")));
    add(&mut forest, "s/Secret/a=update<r");
    assert_eq!(copies(&forest, "x"), ["create Secret a from s"]);
}

#[test]
fn a_binding_is_copied_only_with_its_role_and_after_it() {
    for (objects, wanted) in [
        (
            "r/Role/a=update r/RoleBinding/b=update",
            &["create Role a from r", "create RoleBinding b from r"][..],
        ),
        ("r/Role/a=create r/RoleBinding/b=update", &["create Role a from r", "create RoleBinding b from r"]),
        ("r/Role/a= r/RoleBinding/b=update", &[]),
        ("r/RoleBinding/b=update", &[]),
        // Another Role of that name.
        ("r/Role/a=update s/Role/a=:2 r/RoleBinding/b=update", &[]),
        // One that has become another.
        (
            "r/Role/a=create s/Role/a=create<r:2 r/RoleBinding/b=update s/RoleBinding/b=update<r",
            &["delete RoleBinding b"],
        ),
        // A copy with the same rules. Its annotations may differ.
        ("r/Role/a=create s/Role/a=<r r/RoleBinding/b=update s/RoleBinding/b=update<r", &[]),
        // The same rules, but no copy.
        (
            "r/Role/a=create s/Role/a=create r/RoleBinding/b=update s/RoleBinding/b=update<r",
            &["delete RoleBinding b"],
        ),
        (
            "r/Role/a= s/Role/a=update<r r/RoleBinding/b=update s/RoleBinding/b=update<r",
            &["delete RoleBinding b", "delete Role a"],
        ),
        // A binding that changes together with its Role goes first and comes last.
        (
            "r/Role/a=update:2 s/Role/a=update<r r/RoleBinding/b=update:2 s/RoleBinding/b=update<r",
            &["delete RoleBinding b", "replace Role a from r", "create RoleBinding b from r"],
        ),
    ] {
        let mut forest = draw(WORLD);
        add(&mut forest, objects);
        assert_eq!(copies(&forest, "s"), wanted, "{objects}");
    }
}

/// 15.1: the last subject of a binding, and a label, are removed from the source; the copy is one that Accurate has made.
#[test]
fn what_a_source_loses_its_copies_lose() {
    let mut forest = draw(WORLD);
    let mut body = binds("view", "jane");
    body["roleRef"]["kind"] = "ClusterRole".into();
    put(&mut forest, ["r", "RoleBinding", "b", "update", ""], &body, "1");
    put(&mut forest, ["s", "RoleBinding", "b", "update", "r"], &body, "1");
    assert_eq!(copies(&forest, "s"), Vec::<String>::new());
    body.as_object_mut().unwrap().remove("subjects");
    put(&mut forest, ["r", "RoleBinding", "b", "update", ""], &body, "2");
    assert_eq!(copies(&forest, "s"), ["replace RoleBinding b from r"]);
}

/// As in HNC's hierarchy, a Pod must not keep a right, or keep a restriction out, that is changed above.
#[test]
fn a_namespace_that_is_being_deleted_loses_what_is_withdrawn_and_gets_nothing_new() {
    let mut forest = draw("r root team=a, s ^r !");
    let kept = "s/Role/a=update<r s/RoleBinding/b=update<r s/ResourceQuota/n=update<r";
    add(&mut forest, kept);
    add(&mut forest, "r/Role/a=update r/Role/new=update r/ResourceQuota/n=update:2 r/RoleBinding/b=update:2");
    assert_eq!(own(&forest, "s"), [""; 0], "no labels");
    assert_eq!(
        copies(&forest, "s"),
        ["replace ResourceQuota n from r", "replace RoleBinding b from r"],
        "nothing is created"
    );

    put(&mut forest, ["r", "Role", "a", "update", ""], &json!({ "content": "2" }), "2");
    assert_eq!(
        copies(&forest, "s"),
        ["delete RoleBinding b", "replace ResourceQuota n from r", "replace Role a from r"],
        "what had to be created again is deleted"
    );

    let mut forest = draw("r root, s ^r !");
    add(&mut forest, kept);
    assert_eq!(copies(&forest, "s"), ["delete RoleBinding b", "delete Role a"], "restrictions stay");
    add(&mut forest, "r/Secret/x=update s/Secret/x=");
    assert_eq!(plan(&forest, "s", &Scope::whole()).conflicts, [], "conflicts do not matter any more");
}

/// Somebody holds up its deletion and removes its label, so that those below it are frozen.
#[test]
fn what_a_namespace_that_is_being_deleted_passes_on_no_more_gives_no_right() {
    let middle = "s/Role/a=update<r s/RoleBinding/b=update<r s/Secret/c=update<r";
    let below = "x/Role/a=update<s x/RoleBinding/b=update<s x/Secret/c=update<s";
    let gone = |kind: &str, name: &str| {
        Fact::ObjectGone(key(kind, name).kind, "s".into(), name.into(), format!("s/{name}").into())
    };
    let other = |kind: &str, name: &str, body: &Value| {
        object(&settings(), "s", &key(kind, name), ["update", ""], body, "2")
    };
    for (s, fact, wanted) in [
        ("s !", gone("RoleBinding", "b"), &["delete RoleBinding b"][..]),
        ("s !", other("RoleBinding", "b", &binds("a", "2")), &["delete RoleBinding b"]),
        ("s !", other("RoleBinding", "b", &binds("a", "1")), &[]),
        ("s !", gone("Role", "a"), &["delete RoleBinding b"]),
        (
            "s !",
            other("Role", "a", &serde_json::json!({ "rules": [{ "verbs": ["get"] }] })),
            &["delete RoleBinding b"],
        ),
        ("s !", gone("Secret", "c"), &[]),
        ("s", gone("RoleBinding", "b"), &[]),
    ] {
        let mut forest = draw("r root, s ^r, x ^s");
        add(&mut forest, &format!("{middle} {below}"));
        assert_eq!(forest.apply(namespace(s, "2")).namespaces["x"], Scope::whole());
        assert_eq!(copies(&forest, "x"), [""; 0], "{s}: nothing is withdrawn yet");
        let told = format!("{s}: {fact:?}");
        let change = forest.apply(fact);
        assert!(
            wanted.is_empty() || change.namespaces["x"].objects.includes(&key("RoleBinding", "b")),
            "{told}"
        );
        assert_eq!(copies(&forest, "x"), wanted, "{told}");
    }
}

/// Nothing here would follow it when it is withdrawn there.
#[test]
fn a_binding_from_a_former_place_goes_also_where_nothing_else_is_written() {
    for world in ["r root, x ^gone", "r root, q, x ^q", "r root, q !, x ^q", "r root, q ^x, x ^q"] {
        let mut forest = draw(world);
        add(
            &mut forest,
            "r/RoleBinding/b=update r/Secret/c=update x/RoleBinding/b=update<r x/Secret/c=update<r",
        );
        assert_eq!(copies(&forest, "x"), ["delete RoleBinding b"], "{world}");
    }
}

/// Who may only delete a namespace frees nothing below it, and keeps no right there.
#[test]
fn restrictions_stay_where_the_parent_goes() {
    let mut forest = draw("r root, s ^r, x ^s");
    add(&mut forest, "r/ResourceQuota/q=update s/ResourceQuota/q=update<r x/ResourceQuota/q=update<s");
    add(&mut forest, "s/RoleBinding/b=update x/RoleBinding/b=update<s x/Secret/c=update<s");
    forest.apply(namespace("s ^r !", "2"));
    let gone = |kind: &str, name: &str| {
        Fact::ObjectGone(key(kind, name).kind, "s".into(), name.into(), format!("s/{name}").into())
    };
    let rights = ["delete RoleBinding b", "delete Secret c"];
    forest.apply(gone("ResourceQuota", "q"));
    forest.apply(gone("RoleBinding", "b"));
    assert_eq!(copies(&forest, "x"), rights, "the namespace controller has emptied it");
    forest.apply(Fact::NamespaceGone("s".into(), "s".into()));
    assert_eq!(copies(&forest, "x"), rights);
    // Where the parent comes back, it comes back with its tree, or without.
    for (uid, s, wanted) in
        [("1", "s ^r", &[][..]), ("2", "s", &[]), ("3", "s root", &["delete ResourceQuota q"])]
    {
        let Fact::Namespace(seen) = namespace(s, "3") else { unreachable!() };
        let change = forest.apply(Fact::Namespace(NamespaceFact { version: version(uid), ..seen }));
        assert_eq!(change.namespaces["x"], Scope::whole());
        let found = copies(&forest, "x");
        let quota: Vec<_> = found.iter().filter(|it| it.contains("Quota")).collect();
        assert_eq!(quota, wanted, "{s}");
        forest.apply(Fact::NamespaceGone("s".into(), uid.into()));
    }
    forest.apply(namespace("x", "2"));
    assert!(copies(&forest, "x").contains(&"delete ResourceQuota q".to_owned()), "it has left");
}

#[test]
fn nothing_is_written_where_the_hierarchy_is_not_clear() {
    for (world, name, wanted) in [
        ("s ^r", "s", &["delete Secret old"][..]),
        ("r, s ^r", "s", &[]),
        ("r template, s ^r", "s", &[]),
        ("r ^s, s ^r", "s", &[]),
        ("s ^s", "s", &[]),
        ("r root, s ^r !", "s", &["delete Secret old"]),
        ("r root, kube-system ^r", "kube-system", &[]),
        // 15.9: an empty value is no label.
        ("r root, s accurate.cybozu.com/parent=", "s", &["delete Secret old"]),
        ("r root, s ^r", "s", &["delete Secret old", "create Secret a from r"]),
    ] {
        let mut forest = draw(world);
        if forest.has_seen("r") {
            add(&mut forest, "r/Secret/a=update");
        }
        add(&mut forest, &format!("{name}/Secret/old=update<r"));
        assert_eq!(copies(&forest, name), wanted, "{world}");
    }
}

#[test]
fn a_namespace_in_both_hierarchies_is_halted_in_both() {
    let mut forest = draw("r root, s ^r, x ^s, h");
    add(&mut forest, "r/Secret/a=update s/Secret/b=update");
    assert!(!copies(&forest, "s").is_empty() && !copies(&forest, "x").is_empty());
    let hierarchy =
        HierarchyFact { version: version("s"), parent: Some("h".into()), ..HierarchyFact::default() };
    let change = forest.apply(hnc::Fact::Hierarchy("s".into(), hierarchy));
    assert!(["s", "x"].iter().all(|name| change.namespaces[*name] == Scope::whole()), "{change:?}");
    assert_eq!([copies(&forest, "s"), copies(&forest, "x")], [Vec::<String>::new(), Vec::new()]);
    let report = crate::plan::plan(&forest, "s", &Scope::whole()).report;
    assert!(
        format!("{report:?}").contains("Namespace is also in a hierarchy of accurate.cybozu.com"),
        "{report:?}"
    );
    forest.apply(namespace("s", "2"));
    assert_eq!(forest.halted_root("s").map(|it| &**it), Some("s"), "it still has a child there");
    let change = forest.apply(namespace("x", "2"));
    assert!(change.namespaces["s"] == Scope::whole());
    assert_eq!(forest.halted_root("s"), None);
}

/// Users set labels on the namespaces of a chain, so that the one at its end would become too large for any label.
#[test]
fn labels_from_further_up_have_room_whatever_is_added_below() {
    let mut forest = draw("r root team=red, s ^r, x ^s");
    let many = |prefix: &str, count: usize| -> Vec<(String, String)> {
        (0..count).map(|at| (format!("{prefix}.example.com/{at:0>60}"), "v".repeat(63))).collect()
    };
    let of_user = many("aa", 900);
    let labels = [("team", "red"), (keys::PARENT, "r"), (keys::CREATED_BY, keys::CREATOR)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().chain(of_user);
    let applied = ["team", keys::PARENT, keys::CREATED_BY].map(Box::from).into();
    forest.apply(Fact::Namespace(NamespaceFact {
        name: "s".into(),
        version: Version { uid: "s".into(), resource_version: "2".into() },
        labels: labels.collect(),
        applied: Applied { labels: applied, ..Applied::default() },
        ..NamespaceFact::default()
    }));
    let labels = many("bb", 90).into_iter().map(|(key, value)| (format!("{key}/type"), value));
    let labels = labels.chain([("team/type".to_owned(), "form".to_owned())]).collect();
    forest.apply(AccurateFact::SubNamespace("s".into(), SubNamespaceFact { labels, ..form("x") }));
    let plan = plan(&forest, "x", &Scope::structure());
    let Some(Action::Dialect(AccurateAction::ApplyNamespace { labels, .. })) = plan.actions().next() else {
        panic!("{plan:?}")
    };
    assert_eq!(labels["team"], "red");
    assert_eq!(labels[keys::PARENT], "s");
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(labels.len() < 260 && bytes < 65 << 10, "{} labels of {bytes} bytes", labels.len());
    assert!(labels.len() > 250, "{} labels", labels.len());
}

/// What was applied to the upstream namespace has room in the next one.
#[test]
fn replaced_labels_take_no_more_room_than_there_is() {
    let prefix = ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join(".");
    let keys_of_user: Vec<String> = (0..250).map(|at| format!("{prefix}.example.com/{at:0>60}")).collect();
    let own = keys_of_user.iter().map(|key| (key.clone(), String::new()));
    let root = NamespaceFact {
        name: "r".into(),
        version: Version { uid: "r".into(), resource_version: "2".into() },
        labels: own.chain([(keys::TYPE.to_owned(), keys::ROOT.to_owned())]).collect(),
        ..NamespaceFact::default()
    };
    let settings = Settings { sub_namespace_label_keys: settings().label_keys, ..settings() };
    let mut forest = draw_with(settings, "r root, s ^r");
    forest.apply(Fact::Namespace(root));
    let longer = keys_of_user[..90].iter().map(|key| (key.clone(), "v".repeat(63))).collect();
    forest.apply(AccurateFact::SubNamespace("r".into(), SubNamespaceFact { labels: longer, ..form("s") }));
    let plan = plan(&forest, "s", &Scope::structure());
    let Some(Action::Dialect(AccurateAction::ApplyNamespace { labels, .. })) = plan.actions().next() else {
        panic!("{plan:?}")
    };
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    let replaced = labels.values().filter(|value| value.len() == 63).count();
    assert!(bytes < 65 << 10 && (1..90).contains(&replaced), "{bytes} bytes, {replaced} replaced");
}

#[test]
fn labels_and_annotations_come_from_upstream_and_from_the_form() {
    let mut forest = draw("r root team=red zone=1 accurate.cybozu.com/x=1, s ^r tier=low");
    let set = |pairs: &[(&str, &str)]| pairs.iter().copied().collect();
    let labels = set(&[("tier", "high"), ("zone", "2"), ("a.hnc.x-k8s.io/type", "x")]);
    let annotations = set(&[("owner", "me"), ("note", "no")]);
    let seen = SubNamespaceFact { labels, annotations, ..form("s") };
    forest.apply(AccurateFact::SubNamespace("r".into(), seen.clone()));
    let marks = "accurate.cybozu.com/parent=r app.kubernetes.io/created-by=accurate";
    assert_eq!(own(&forest, "s"), [format!("apply {marks} team=red tier=high owner=me")]);
    // 15.8: the form is gone.
    let change = forest.apply(AccurateFact::SubNamespaceGone("r".into(), "s".into(), "form s".into()));
    assert!(change.namespaces["s"].structure);
    assert_eq!(own(&forest, "s"), [format!("apply {marks} team=red")]);
    // As applied, and with a key that is not in the set any more.
    let applied = |labels: &[&str], resource_version: &str| {
        let Fact::Namespace(seen) =
            namespace("s ^r team=red app.kubernetes.io/created-by=accurate", resource_version)
        else {
            unreachable!()
        };
        let labels = labels.iter().map(|key| (*key).into()).collect();
        Fact::Namespace(NamespaceFact { applied: Applied { labels, ..Applied::default() }, ..seen })
    };
    forest.apply(applied(&[keys::PARENT, keys::CREATED_BY, "team"], "2"));
    assert_eq!(own(&forest, "s"), Vec::<String>::new());
    forest.apply(applied(&[keys::PARENT, keys::CREATED_BY, "team", "tier"], "3"));
    assert_eq!(own(&forest, "s"), [format!("apply {marks} team=red")]);
    // A user has written the record.
    let forged = [keys::PARENT, keys::CREATED_BY, "team", "s.tree.hnc.x-k8s.io/depth", keys::TYPE];
    let marked = |fact: Fact| match fact {
        Fact::Namespace(mut seen) => {
            let tree = [("s.tree.hnc.x-k8s.io/depth", "0")];
            seen.labels = seen.labels.iter().chain(tree).collect();
            Fact::Namespace(seen)
        }
        fact => fact,
    };
    forest.apply(marked(applied(&forged, "4")));
    assert_eq!(own(&forest, "s"), Vec::<String>::new());
    forest.apply(marked(applied(&[&forged[..], &["tier"]].concat(), "5")));
    assert_eq!(own(&forest, "s"), [format!("apply {marks} s.tree.hnc.x-k8s.io/depth=0 team=red")]);
    // An instance has no marks, and a namespace that is cut keeps what it had.
    let forest = draw("t template team=red, i ~t");
    assert_eq!(
        [own(&forest, "i"), own(&draw("s root team=red"), "s")],
        [vec!["apply team=red".to_owned()], vec![]]
    );
}

/// Otherwise the two halves of the controller would replace each other's values without end.
#[test]
fn labels_and_annotations_here_are_none_of_the_other_hierarchys() {
    for (place, is_accurates) in [
        ("s ^r", true),
        ("i ~t", true),
        ("n", false),
        // Nothing is set here.
        ("q root", false),
        ("u template", false),
        ("s accurate.cybozu.com/parent=", false),
    ] {
        let mut forest = draw(&format!("r root, t template, {place} zone=set"));
        let name = place.split(' ').next().unwrap();
        let pairs = |key: &str| [(key, "asked")].into_iter().collect();
        let asked = HierarchyFact {
            version: version("h"),
            labels: pairs("tier"),
            annotations: pairs("owner"),
            ..HierarchyFact::default()
        };
        forest.apply(hnc::Fact::Hierarchy(name.into(), asked));
        let plan = crate::plan::plan(&forest, name, &Scope::structure());
        let keys = plan.actions().filter_map(|action| match action {
            crate::plan::Action::PatchNamespace { labels, annotations, .. } => {
                let set = labels.set.keys().chain(annotations.set.keys());
                Some(set.chain(&labels.remove).filter(|key| !key.contains("hnc.x-k8s.io")).cloned())
            }
            _ => None,
        });
        let keys: Vec<String> = keys.flatten().collect();
        let wanted: &[&str] = if is_accurates { &[] } else { &["tier", "owner", "zone"] };
        assert_eq!(keys, wanted, "{place}");
        let told = format!("{:?}", plan.report).contains("is in a hierarchy of accurate.cybozu.com: tier");
        assert_eq!(told, is_accurates, "{place}: {:?}", plan.report);
    }
}

#[test]
fn a_form_has_its_namespace_or_says_why_not() {
    let finalizer = keys::FINALIZER;
    for (world, child, edit, wanted) in [
        ("r root", "a", "", vec!["create namespace a".to_owned()]),
        (
            "r root",
            "a",
            "bare",
            vec![format!("update a finalizers x {finalizer}"), "create namespace a".into()],
        ),
        ("r root, a ^r", "a", "", vec![]),
        ("r root, a ^r", "a", "changed", vec!["update a status 2".into()]),
        ("r root, a", "a", "", vec!["update a status 1 Conflict".into()]),
        ("r root, a ^b", "a", "", vec!["update a status 1 Conflict".into()]),
        ("r", "a", "", vec!["update a status 1 InvalidParent".into()]),
        (
            "r root",
            "kube-public-of-nobody.x",
            "",
            vec!["update kube-public-of-nobody.x status 1 InvalidName".into()],
        ),
        ("r root, a ^r !", "a", "", vec![]),
        // The name has become free.
        ("r root", "a", "stalled", vec!["create namespace a".into()]),
        // But others wait for a namespace of that name.
        ("r root, b ^a", "a", "stalled", vec![]),
        ("r root, b ^a", "a", "", vec!["create namespace a".into()]),
        // That it waited must not be forgotten.
        ("r, b ^a", "a", "stalled", vec![]),
        ("r root, b ^a", "a", "cycled", vec!["update a status 1 Conflict".into()]),
        // It would be below itself.
        ("r ^b, b ^a", "a", "", vec!["update a status 1 Cycle".into()]),
        ("r ^b, b ^a", "a", "stalled", vec!["update a status 1 Cycle".into()]),
        ("r ^a", "a", "stalled", vec!["update a status 1 Cycle".into()]),
        ("r ^b, b ^a", "a", "cycled", vec![]),
        ("r root", "a", "cycled", vec!["create namespace a".into()]),
        // Deletions.
        ("r root, a ^r", "a", "ending", vec!["delete namespace a".into()]),
        ("r root !, a ^r", "a", "ending", vec!["delete namespace a".into()]),
        ("r root, a ^r !", "a", "ending", vec!["update a finalizers x".into()]),
        ("r root, a", "a", "ending", vec!["update a finalizers x".into()]),
        // Another namespace came below it at the same moment.
        ("r root, a ^r, b ^a", "a", "ending", vec!["update a finalizers x".into()]),
        ("r root, a ^r, b ~a", "a", "ending", vec!["update a finalizers x".into()]),
        ("r root", "a", "ending", vec!["update a finalizers x".into()]),
        // Kubernetes does not delete it.
        ("r root, default ^r", "default", "ending", vec!["update default finalizers x".into()]),
        ("r root !", "a", "", vec![]),
    ] {
        let mut forest = draw(world);
        let mut seen = form(child);
        seen.terminating = edit == "ending";
        seen.generation += i64::from(edit == "changed");
        if ["bare", "ending"].contains(&edit) {
            seen.finalizers.insert(0, "x".into());
            seen.finalizers.retain(|it| edit == "ending" || &**it == "x");
        }
        seen.status.stalled = match edit {
            "stalled" => Some(("Conflict", "Conflicting namespace already exists")),
            "cycled" => Some(("Cycle", "namespace a would be below itself")),
            _ => None,
        }
        .map(|(reason, message)| Stalled {
            reason: reason.into(),
            message: message.into(),
            observed_generation: 1,
        });
        forest.apply(AccurateFact::SubNamespace("r".into(), seen));
        let applies = |it: &String| it.starts_with("apply");
        let found: Vec<_> = own(&forest, "r").into_iter().filter(|it| !applies(it)).collect();
        assert_eq!(found, wanted, "{world}, {child} {edit}");
        // While the definition is being deleted, no namespace is.
        forest.apply(AccurateFact::CrdIsBeingDeleted(true));
        assert!(!own(&forest, "r").iter().any(|it| it.contains(" namespace ")), "{world}, {child} {edit}");
        // While those of HNC are, it is unknown which namespaces are in both hierarchies.
        forest.apply(AccurateFact::CrdIsBeingDeleted(false));
        forest.apply(Fact::Hnc(hnc::Fact::Crds(CrdState::BeingDeleted)));
        let wanted: Vec<_> = wanted.into_iter().filter(|it| !it.starts_with("create")).collect();
        assert_eq!(own(&forest, "r"), wanted, "{world}, {child} {edit}");
    }
}

/// Otherwise a user who may create `SubNamespaces` elsewhere gets what comes to be in the namespace when somebody deletes it.
#[test]
fn a_name_that_becomes_free_is_for_the_form_that_had_it() {
    let stalled = |reason: &str| Stalled {
        reason: reason.into(),
        message: "Conflicting namespace already exists".into(),
        observed_generation: 1,
    };
    let create = ["create namespace a"];
    for (reason, observed, terminating, [waits, new]) in [
        (None, 1, false, [false, false]),
        (None, 0, false, [false, true]),
        (None, 1, true, [true, true]),
        (Some("Conflict"), 1, false, [true, true]),
        (Some("InvalidParent"), 1, false, [true, true]),
    ] {
        for (observed_by_other, creates) in [(1, waits), (0, new)] {
            let mut forest = draw("r root, q root");
            let mut other = SubNamespaceFact { version: version("other"), ..form("a") };
            other.status.observed_generation = observed_by_other;
            other.status.stalled = (observed_by_other > 0).then(|| stalled("Conflict"));
            forest.apply(AccurateFact::SubNamespace("q".into(), other));
            let mut had = SubNamespaceFact { terminating, ..form("a") };
            had.status.observed_generation = observed;
            had.status.stalled = reason.map(stalled);
            let uid = had.version.uid.clone();
            forest.apply(AccurateFact::SubNamespace("r".into(), had));
            let said = own(&forest, "q").contains(&create[0].to_owned());
            assert_eq!(said, creates, "{reason:?} {observed} {terminating} {observed_by_other}");
            let change = forest.apply(AccurateFact::SubNamespaceGone("r".into(), "a".into(), uid));
            assert!(change.namespaces["q"].structure);
            assert_eq!(own(&forest, "q"), create);
        }
    }
}

/// A user may remove the labels of a namespace that is being deleted.
#[test]
fn a_form_keeps_its_claim_while_its_namespace_is_being_deleted() {
    let mut forest = draw("r root, q root, a !");
    forest.apply(AccurateFact::SubNamespace("r".into(), form("a")));
    assert_eq!(own(&forest, "r"), [""; 0]);
    let mut late = SubNamespaceFact { version: version("late"), ..form("a") };
    late.status.observed_generation = 0;
    forest.apply(AccurateFact::SubNamespace("q".into(), late));
    assert_eq!(own(&forest, "q"), ["update a status 1 Conflict"]);
}

/// Otherwise it would be the child of a missing namespace, and no quota on `SubNamespaces` would count it.
#[test]
fn nothing_is_created_below_a_namespace_whose_form_is_being_deleted() {
    let mut forest = draw("r root, s ^r");
    forest.apply(AccurateFact::SubNamespace("r".into(), form("s")));
    forest.apply(AccurateFact::SubNamespace("s".into(), form("new")));
    let applied = "apply accurate.cybozu.com/parent=r app.kubernetes.io/created-by=accurate";
    assert_eq!(own(&forest, "s"), [applied, "create namespace new"]);
    let ends = SubNamespaceFact { terminating: true, version: version("later"), ..form("s") };
    let change = forest.apply(AccurateFact::SubNamespace("r".into(), ends));
    assert!(change.namespaces["s"].structure);
    assert_eq!(own(&forest, "s"), [applied]);
    assert_eq!(own(&forest, "r"), ["delete namespace s"]);
}

/// Its namespace would be in both hierarchies.
#[test]
fn a_form_does_not_take_the_name_of_a_parent_that_the_other_hierarchy_misses() {
    let mut forest = draw("r root, h");
    forest.apply(AccurateFact::SubNamespace("r".into(), form("a")));
    assert_eq!(own(&forest, "r"), ["create namespace a"]);
    let named = HierarchyFact { version: version("h"), parent: Some("a".into()), ..HierarchyFact::default() };
    let change = forest.apply(hnc::Fact::Hierarchy("h".into(), named));
    assert!(change.namespaces["r"].structure);
    assert_eq!(own(&forest, "r"), ["update a status 1 Conflict"]);
    let change = forest.apply(hnc::Fact::HierarchyGone("h".into(), "h".into()));
    assert!(change.namespaces["r"].structure);
    assert_eq!(own(&forest, "r"), ["create namespace a"]);
}

/// The API server may store something else than it was given, as a webhook asks.
#[test]
fn a_copy_that_was_accepted_as_it_is_is_not_written_again() {
    let mut forest = draw(WORLD);
    add(&mut forest, "r/Secret/a=update");
    let plan = plan(&forest, "s", &Scope::whole());
    let Some(Action::CreateCopy { content, .. }) = plan.actions().find(|action| action.key().is_some())
    else {
        panic!("{plan:?}")
    };
    let secret = key("Secret", "a");
    let given = content.digest();
    let stored = |forest: &mut Forest, content: &str, at: &str| {
        put(forest, ["s", "Secret", "a", "update", "r"], &json!({ "content": content }), at);
    };
    stored(&mut forest, "changed by a webhook", "2");
    assert_eq!(copies(&forest, "s"), ["replace Secret a from r"]);
    assert!(forest.would_overwrite("s", &secret, given));
    let version = forest.object_version("s", &secret).unwrap();
    forest.apply(Fact::Accepted("s".into(), secret.clone(), version, given));
    assert_eq!(copies(&forest, "s"), Vec::<String>::new());
    assert!(!forest.would_overwrite("s", &secret, given));
    stored(&mut forest, "changed by a webhook", "3");
    assert_eq!(copies(&forest, "s"), Vec::<String>::new());
    stored(&mut forest, "changed by a user", "4");
    assert_eq!(copies(&forest, "s"), ["replace Secret a from r"]);
}

#[test]
fn what_cannot_be_replaced_gives_no_outdated_access() {
    let mut forest = draw(WORLD);
    add(
        &mut forest,
        "r/Role/a=update:2 s/Role/a=update<r r/Secret/a=update:2 s/Secret/a=update<r r/Secret/b=update s/Secret/b=update<t \
         r/ResourceQuota/q=update s/ResourceQuota/q=update<t",
    );
    let plan = plan(&forest, "s", &Scope::whole());
    let actions: Vec<Action> = plan.actions().filter(|action| action.key().is_some()).cloned().collect();
    assert_eq!(actions.len(), 4);
    let words = |actions: Vec<Action>| actions.iter().map(|it| word(&forest, it)).collect::<Vec<_>>();
    assert_eq!(words(super::withdrawals(&forest, "s", &actions)), ["delete Role a"]);
    assert_eq!(words(super::after_refusals(&forest, "s", &actions)), ["delete Secret b", "delete Role a"]);
}

#[test]
fn failures_are_those_of_this_api_and_end_with_their_cause() {
    let mut forest = draw(WORLD);
    add(&mut forest, "r/Secret/a=update n/Secret/b=update<t");
    let name = |text: &str| crate::Name::from(text);
    for (namespace, secret) in [("s", "a"), ("n", "b")] {
        forest.apply(Fact::WriteFailed(name(namespace), key("Secret", secret), "refused".into()));
        assert!(forest.has_failed(&name(namespace), &key("Secret", secret)));
        assert_eq!(crate::plan::plan(&forest, namespace, &Scope::whole()).report, None);
    }
    assert_eq!(plan(&forest, "s", &Scope::whole()).settled, []);
    forest.apply(Fact::ObjectGone(key("Secret", "a").kind, name("r"), name("a"), "r/a".into()));
    assert_eq!(plan(&forest, "s", &Scope::whole()).settled, [key("Secret", "a")]);
    forest.apply(Fact::WriteSettled(name("s"), key("Secret", "a")));
    forest.apply(Fact::NamespaceGone(name("n"), "n".into()));
    assert!(
        !forest.has_failed(&name("s"), &key("Secret", "a"))
            && !forest.has_failed(&name("n"), &key("Secret", "b"))
    );
}

#[test]
fn nothing_is_planned_before_everything_is_known_or_while_the_api_is_off() {
    let world = |forest: &mut Forest, streams: &[&str]| {
        let role = Kind::role();
        forest.apply(Fact::Kinds(vec![crate::KindSettings::new(role, crate::Mode::Ignore)]));
        for stream in streams {
            match *stream {
                "namespaces" => {
                    let all = ["r root", "s ^r"].map(|it| match namespace(it, "1") {
                        Fact::Namespace(seen) => seen,
                        _ => unreachable!(),
                    });
                    forest.apply(Fact::Namespaces(all.into()))
                }
                "forms" => forest.apply(AccurateFact::SubNamespaces(vec![("r".into(), form("a"))])),
                _ => {
                    let Fact::Object(kind, seen) =
                        object(&settings(), "r", &key("Role", "a"), ["update", ""], &json!({}), "1")
                    else {
                        unreachable!()
                    };
                    forest.apply(Fact::Objects(kind, vec![seen]))
                }
            };
        }
    };
    let empty = || Forest::unconfigured(crate::cluster::settings().into());
    for (streams, writes) in [
        (&["namespaces", "objects"][..], [0, 0]),
        (&["forms", "objects"], [0, 0]),
        (&["namespaces", "forms"], [1, 1]),
        (&["namespaces", "forms", "objects"], [1, 2]),
    ] {
        let mut forest = empty().with_accurate(settings().into());
        world(&mut forest, streams);
        let count = |name| plan(&forest, name, &Scope::whole()).actions().count();
        assert_eq!([count("r"), count("s")], writes, "{streams:?}");
    }
    let mut off = empty();
    world(&mut off, &["namespaces", "forms", "objects"]);
    assert!(plan(&off, "s", &Scope::whole()).is_empty() && plan(&off, "r", &Scope::whole()).is_empty());
}

/// A tree passes to HNC's hierarchy from its leaves, each namespace in one write. Until the last one has, no copy goes.
#[test]
fn copies_stay_until_the_whole_tree_has_passed_to_the_other_hierarchy() {
    let mut forest = draw("r root, s ^r, t ^s, u ^r");
    add(&mut forest, "r/Secret/a=update s/Secret/a=update<r t/Secret/a=update<s u/Secret/a=update<r");
    let copies = |forest: &Forest| {
        let all = ["s", "t", "u"];
        let count =
            |name: &&str| plan(forest, name, &Scope::whole()).actions().filter(|it| is_deletion(it)).count();
        all.iter().map(count).sum::<usize>()
    };
    for (passing, parent, deleted) in [("t", "s", 0), ("s", "r", 0), ("u", "r", 3)] {
        let annotations = [(crate::keys::SUBNAMESPACE_OF, parent)].into_iter().collect();
        let Fact::Namespace(seen) = namespace(passing, "2") else { panic!() };
        let change = forest.apply(Fact::Namespace(NamespaceFact { annotations, ..seen }));
        assert_eq!(copies(&forest), deleted, "{passing} has passed");
        assert!(change.namespaces.contains_key(passing));
        if deleted > 0 {
            assert!(["s", "t", "u"].iter().all(|name| change.namespaces.contains_key(*name)), "{change:?}");
        }
    }
}

fn is_deletion(action: &Action) -> bool {
    matches!(action, Action::DeleteCopy { .. })
}
