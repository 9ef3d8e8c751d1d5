//! The text for each state of an object.

use std::sync::Arc;

use forest::accurate::{Fact as AccurateFact, Settings};
use forest::{Fact, HierarchyFact, HierarchyStatus, KindSettings, Mode, hnc};
use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT};
use hns_cluster::ingest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::structure;
use crate::structure::tests::sketch;

fn secret() -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: "Secret".into(), resource: "secrets".into() }
}

fn empty() -> (Forest, Arc<Settings>) {
    let accurate = Arc::new(Settings { watches: vec![secret()], ..Settings::default() });
    (Forest::unconfigured(Arc::new(structure::settings())).with_accurate(accurate.clone()), accurate)
}

#[test]
fn in_the_other_hierarchy_another_command_explains_the_object() {
    let forest = sketch(&["p", "n < p"]).put_into(empty().0);
    let advice = judged(&forest, &["n".into()], &BTreeMap::new(), None, (&secret(), "x")).2.unwrap();
    assert_eq!(
        advice,
        "`kubectl hns explain secrets/x -n n` explains it there; `kubectl accurate namespace describe n` says whether it is halted, because \
         it is in both."
    );
}

/// Namespaces with these labels.
fn place(forest: &mut Forest, namespaces: &[(&str, &[(&str, &str)])]) {
    let fact = |(name, labels): &(&str, &[(&str, &str)])| {
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        ingest::namespace(&serde_json::from_value(json!({ "name": name, "labels": labels })).unwrap())
    };
    forest.apply(Fact::Namespaces(namespaces.iter().map(fact).collect()));
    forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(Vec::new())));
    forest.apply(AccurateFact::SubNamespaces(Vec::new()));
}

/// An object `x` of this kind, with these annotations and this content, of which `labels` are its labels.
fn put(
    forest: &mut Forest,
    kind: &Kind,
    (namespace, name): (&str, &str),
    annotations: &[(&str, &str)],
    content: serde_json::Value,
) {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let mut object = content;
    let labels = object.as_object_mut().unwrap().remove("labels");
    object["metadata"] =
        json!({ "name": name, "namespace": namespace, "annotations": annotations, "labels": labels });
    let object = serde_json::from_str(&object.to_string()).unwrap();
    let (settings, accurate) = (forest.shared_settings(), forest.accurate_settings().cloned());
    let mut fact = ingest::api_object(kind, (&settings, accurate.as_deref()), object);
    chain::keep_label(&mut fact, labels.is_some());
    let id = forest.kind_named(&kind.group, &kind.kind).unwrap();
    forest.apply(Fact::Object(id, fact));
}

/// A root and its sub-namespace.
fn pair() -> Forest {
    let (mut forest, _) = empty();
    place(&mut forest, &[("root", &[(TYPE, TYPE_ROOT)]), ("sub", &[(PARENT, "root")])]);
    forest.apply(Fact::Kinds(vec![KindSettings::new(secret(), Mode::Ignore)]));
    forest
}

#[test]
fn a_namespace_whose_child_is_in_the_other_hierarchy_is_halted() {
    let status = HierarchyStatus { children: vec!["c".into()], ..HierarchyStatus::default() };
    let seen = HierarchyFact { status, ..HierarchyFact::default() };
    let mut forest = pair();
    put(&mut forest, &secret(), ("root", "x"), &[(PROPAGATE, "update")], json!({}));
    let (mut facts, mut hierarchies) = (Vec::new(), vec![("sub".into(), seen)]);
    chain::with_children(&mut facts, &mut hierarchies);
    for fact in facts {
        forest.apply(Fact::Namespace(fact));
    }
    forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(hierarchies)));
    let found = explained(&forest, "sub", &BTreeMap::new());
    let why = "nothing is copied to sub, because sub is in a hierarchy of hnc.x-k8s.io, too";
    assert_eq!((&*found.state, &*found.why), ("not there", why));
    assert!(found.advice.unwrap().starts_with("If `kubectl hns convert ROOT --to hnc` was interrupted"));
}

#[test]
fn a_restriction_whose_parent_is_being_deleted_stays() {
    let quota = Kind { kind: "ResourceQuota".into(), resource: "resourcequotas".into(), ..secret() };
    for (is_ending, kind, wanted) in [
        (true, &quota, "is being deleted: copies that restrict stay"),
        (false, &quota, "root, its parent, does not have it as a source"),
        (true, &secret(), "root, its parent, does not have it as a source"),
    ] {
        let watches = vec![kind.clone()];
        let accurate = Arc::new(Settings { watches: watches.clone(), ..Settings::default() });
        let mut forest = Forest::unconfigured(Arc::new(structure::settings())).with_accurate(accurate);
        place(&mut forest, &[("root", &[(TYPE, TYPE_ROOT)]), ("sub", &[(PARENT, "root")])]);
        forest.apply(Fact::Kinds(vec![KindSettings::new(kind.clone(), Mode::Ignore)]));
        let mut root = ingest::namespace(&ObjectMeta { name: Some("root".into()), ..ObjectMeta::default() });
        root.labels = [(TYPE, TYPE_ROOT)].into_iter().collect();
        root.terminating = is_ending;
        forest.apply(Fact::Namespace(root));
        put(&mut forest, kind, ("sub", "x"), &[(PROPAGATE, "update"), (FROM, "root")], json!({}));
        let path: &[Name] = &["sub".into(), "root".into()];
        let found = explanation(&forest, (path, &BTreeSet::new(), &BTreeMap::new()), kind, "x");
        assert!(found.why.ends_with(wanted), "{}", found.why);
    }
}

/// A Secret `x` in `root` and in `sub`, each with these annotations.
fn why(namespace: &str, objects: [(&str, &[(&str, &str)]); 2]) -> String {
    let mut forest = pair();
    for (namespace, annotations) in objects.into_iter().filter(|(_, it)| !it.is_empty()) {
        put(&mut forest, &secret(), (namespace, "x"), annotations, json!({}));
    }
    explained(&forest, namespace, &BTreeMap::new()).why
}

fn explained(forest: &Forest, namespace: &str, bound: &BTreeMap<Name, String>) -> Explanation {
    let path: &[Name] = if namespace == "sub" { &["sub".into(), "root".into()] } else { &["root".into()] };
    explanation(forest, (path, &BTreeSet::new(), bound), &secret(), "x")
}

#[test]
fn a_secret_of_a_type_that_is_never_propagated_says_so() {
    let because = "Secrets of type t belong to their own namespace";
    let (source, copy) = ([(PROPAGATE, "update")], [(PROPAGATE, "update"), (FROM, "root")]);
    let above = format!("the one in root, its parent, is never propagated, because {because}");
    let itself = format!("it is never propagated, because {because}");
    // The annotations of a Secret of such a type count as none.
    for (bound, namespace, root, sub, state, wanted) in [
        ("root", "sub", &[][..], &[][..], "not there", &*above),
        ("root", "sub", &[], &copy, "copy of root (mode update); to be removed", &above),
        ("root", "root", &[], &[], "not propagated", &itself),
        ("sub", "sub", &[], &[], "not propagated", &itself),
        (
            "sub",
            "sub",
            &source,
            &[],
            "conflict",
            "it is not a copy, so it is kept, and the one in root is not copied",
        ),
    ] {
        let mut forest = pair();
        for (name, annotations) in [("root", root), ("sub", sub)] {
            if bound == name || !annotations.is_empty() {
                put(&mut forest, &secret(), (name, "x"), annotations, json!({}));
            }
        }
        let found = explained(&forest, namespace, &BTreeMap::from([(bound.into(), because.to_owned())]));
        assert_eq!((&*found.state, &*found.why), (state, wanted), "{bound} {namespace}");
        let advice = (state == "conflict").then_some("Rename or delete one of the two.");
        assert_eq!(found.advice.as_deref(), advice, "{bound} {namespace}");
    }
}

#[test]
fn the_members_of_a_cycle_and_a_template_without_effect_are_named() {
    let (mut forest, _) = empty();
    place(
        &mut forest,
        &[
            ("a", &[(PARENT, "b")]),
            ("b", &[(PARENT, "a")]),
            ("root", &[(TYPE, TYPE_ROOT)]),
            ("n", &[(PARENT, "root"), (TEMPLATE, "t")]),
            ("o", &[(PARENT, "root"), (TEMPLATE, "t"), (TYPE, TYPE_ROOT)]),
            ("m", &[(PARENT, "gone"), (TEMPLATE, "t")]),
        ],
    );
    for (path, why, advice) in [
        (
            &["a".into(), "b".into()][..],
            "nothing is copied to a, b, because they name each other as parents or templates",
            "none: `kubectl accurate sub cut a`, or `kubectl accurate sub cut b`.",
        ),
        (
            &["n".into(), "root".into()],
            "; t, the template of n, has no effect, because n is a sub-namespace; `kubectl accurate template unset n` removes it",
            "",
        ),
        (
            &["o".into(), "root".into()],
            "; t, the template of o, has no effect, because o is a sub-namespace; `kubectl label namespace o accurate.cybozu.com/type- \
             accurate.cybozu.com/template-` removes it and the type, which a sub-namespace cannot have",
            "",
        ),
        (&["m".into()], "because gone, the parent, does not exist", "which removes its template, too."),
    ] {
        let found = explanation(&forest, (path, &BTreeSet::new(), &BTreeMap::new()), &secret(), "x");
        assert!(found.why.ends_with(why), "{}", found.why);
        assert!(found.advice.unwrap_or_default().ends_with(advice), "{path:?}");
    }
}

#[test]
fn an_object_that_was_copied_once_is_called_so_wherever_it_is() {
    let (mut forest, _) = empty();
    forest.apply(Fact::Kinds(vec![KindSettings::new(secret(), Mode::Ignore)]));
    place(&mut forest, &[("lost", &[(PARENT, "gone")]), ("passed", &[]), ("top", &[])]);
    let hierarchy = HierarchyFact { parent: Some("top".into()), ..HierarchyFact::default() };
    forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(vec![("passed".into(), hierarchy)])));
    for (namespace, rest) in [("lost", "nothing is copied to lost"), ("passed", "passed has no parent and")] {
        put(&mut forest, &secret(), (namespace, "x"), &[(FROM, "t"), (PROPAGATE, "create")], json!({}));
        let path = [namespace.into()];
        let found = explanation(&forest, (&path, &BTreeSet::new(), &BTreeMap::new()), &secret(), "x");
        let start = format!("it was copied once from t and stays as it is: it follows nothing; {rest}");
        assert!(found.why.starts_with(&start), "{}", found.why);
    }
}

#[test]
fn the_role_that_a_binding_needs_is_named() {
    let (update, create) = ([(PROPAGATE, "update")], [(PROPAGATE, "create")]);
    let (create, once) = (&create[..], [(PROPAGATE, "create"), (FROM, "root")]);
    for (watched, role, here, why, advice) in [
        (
            true,
            None,
            &[][..],
            "Role r, which is not there",
            Some("Create Role r in root, with the annotation"),
        ),
        (
            true,
            Some(&[][..]),
            &[],
            "Role r, which has no annotation",
            Some("`kubectl annotate role r -n root"),
        ),
        (
            true,
            Some(create),
            &[],
            "Role r, of which there is no copy with the same rules here",
            Some("`kubectl accurate explain roles/r -n sub`"),
        ),
        (
            true,
            Some(create),
            &once,
            "Role r, of which there is no copy with the same rules here",
            Some("Its copy was made once and stays as it is. `kubectl annotate role r -n root"),
        ),
        (false, Some(create), &[], "refers to a Role, and Roles are not propagated: `watches`", None),
    ] {
        let mut watches = vec![Kind::role_binding()];
        watches.extend(watched.then(Kind::role));
        let kinds = watches.iter().map(|kind| KindSettings::new(kind.clone(), Mode::Ignore)).collect();
        let accurate = Arc::new(Settings { watches, ..Settings::default() });
        let mut forest = Forest::unconfigured(Arc::new(structure::settings())).with_accurate(accurate);
        place(&mut forest, &[("root", &[(TYPE, TYPE_ROOT)]), ("sub", &[(PARENT, "root")])]);
        forest.apply(Fact::Kinds(kinds));
        let binding = json!({ "roleRef": { "kind": "Role", "name": "r" } });
        put(&mut forest, &Kind::role_binding(), ("root", "x"), &update, binding);
        if let Some(annotations) = role.filter(|_| watched) {
            put(&mut forest, &Kind::role(), ("root", "r"), annotations, json!({ "rules": [1] }));
            put(&mut forest, &Kind::role(), ("sub", "r"), here, json!({ "rules": [] }));
        }
        let path: &[Name] = &["sub".into(), "root".into()];
        let found =
            explanation(&forest, (path, &BTreeSet::new(), &BTreeMap::new()), &Kind::role_binding(), "x");
        assert!(found.why.contains(why), "{}", found.why);
        let said = found.advice.as_deref();
        assert_eq!(said.is_some(), advice.is_some(), "{said:?}");
        assert!(
            said.zip(advice).is_none_or(|(said, it)| said.starts_with(it) && said.ends_with('.')),
            "{said:?}"
        );
    }
}

#[test]
fn an_annotation_that_names_another_source_is_explained() {
    let stray =
        |place| format!("its annotation {FROM} names web, but {place}: it is no copy, and follows nothing");
    let (source, web) = ([(PROPAGATE, "update")], [(FROM, "web")]);
    for (namespace, root, sub, wanted) in [
        ("sub", &[][..], &web[..], stray("root is above it")),
        ("sub", &[("a", "b")], &web, stray("root is above it")),
        ("root", &web, &[], stray("root has no parent and no template")),
        (
            "sub",
            &source,
            &web,
            "it is not a copy, so it is kept, and the one in root is not copied".to_owned(),
        ),
    ] {
        assert_eq!(why(namespace, [("root", root), ("sub", sub)]), wanted, "{root:?} {sub:?}");
    }
}

#[test]
fn the_state_of_an_object_follows_from_its_annotations_and_its_label() {
    let (create, update) = ([(PROPAGATE, "create")], [(PROPAGATE, "update")]);
    let (root, web) = ([(FROM, "root")], [(FROM, "web")]);
    let label = "unless you remove its label app.kubernetes.io/created-by=accurate.";
    let lost = "it counts as a copy that has lost its annotation accurate.cybozu.com/from; root, its parent, does not have one, so it \
                stays";
    let none = "it is the namespace's own object; root, its parent, does not have one";
    // With or without the label of copies.
    for (source, sub, is_labelled, state, wanted) in [
        (None, &web[..], false, "not a copy", "it is no copy, and follows nothing"),
        (Some(&create), &root, false, "marked as a copy of root", "is copied only where there is none"),
        (Some(&update), &root, true, "marked as a copy of root; to be replaced", "it differs from"),
        (Some(&update), &[], true, "conflict", label),
        (Some(&update), &[], false, "conflict", "to have it replaced."),
        (Some(&update), &create, true, "conflict", label),
        (Some(&update), &web, true, "conflict", "to have it replaced."),
        (Some(&update), &update, true, "source (mode update); to be replaced", "has another one"),
        (None, &update, true, "source (mode update)", lost),
        (None, &update, false, "source (mode update)", none),
    ] {
        let mut forest = pair();
        if let Some(annotations) = source {
            put(&mut forest, &secret(), ("root", "x"), annotations, json!({}));
        }
        let labels = json!({ "labels": { "app.kubernetes.io/created-by": "accurate" } });
        put(&mut forest, &secret(), ("sub", "x"), sub, if is_labelled { labels } else { json!({}) });
        let found = explained(&forest, "sub", &BTreeMap::new());
        assert_eq!(found.state, state, "{sub:?}");
        let said = format!("{} {}", found.why, found.advice.unwrap_or_default());
        assert!(said.trim_end().ends_with(wanted) || said.starts_with(wanted), "{sub:?}: {said}");
    }
}

#[test]
fn the_annotation_of_an_object_without_one_above_is_named() {
    let none = "root, its parent, does not have one";
    let (source, other) = ([(PROPAGATE, "update")], [("a", "b")]);
    for (sub, wanted) in [
        (&[][..], "root, its parent, does not have it".to_owned()),
        (&source, format!("it is the namespace's own object; {none}")),
        (
            &other,
            format!(
                "it is the namespace's own object, and has no annotation {PROPAGATE}, so it is not copied further; {none}"
            ),
        ),
    ] {
        assert_eq!(why("sub", [("root", &[]), ("sub", sub)]), wanted, "{sub:?}");
    }
}

#[test]
fn a_copy_that_was_made_once_follows_nothing() {
    let made = |from| [(PROPAGATE, "create"), (FROM, from)];
    let once = |from| format!("it was copied once from {from} and stays as it is: it follows nothing");
    let (other, create, update) = ([("a", "b")], [(PROPAGATE, "create")], [(PROPAGATE, "update")]);
    let has_one = "root, its parent, has one too, which is copied only where there is none";
    for (namespace, root, sub, wanted) in [
        ("sub", &[][..], &made("root")[..], once("root")),
        ("sub", &[], &made("web"), once("web")),
        ("sub", &other, &made("root"), once("root")),
        ("sub", &create, &made("root"), once("root")),
        ("sub", &create, &made("web"), has_one.to_owned()),
        ("sub", &create, &[(FROM, "root")], has_one.to_owned()),
        ("sub", &update, &[(FROM, "root")], "it differs from the one in root, its parent".to_owned()),
        ("sub", &update, &made("web"), format!("{}; the one in root is not copied", once("web"))),
        ("sub", &update, &made("root"), "it differs from the one in root, its parent".to_owned()),
        ("root", &made("web"), &[], once("web")),
    ] {
        assert_eq!(why(namespace, [("root", root), ("sub", sub)]), wanted, "{root:?} {sub:?}");
    }
}

#[test]
fn a_misspelled_annotation_is_named_wherever_it_is() {
    let (wrong, other, copy) = ([(PROPAGATE, "updte")], [("a", "b")], [(FROM, "root")]);
    let wrong_of =
        |place| format!("the annotation {PROPAGATE} of the one in {place} is neither create nor update");
    let above = wrong_of("root, its parent,");
    let own = format!("its annotation {PROPAGATE} is neither create nor update, so it is not copied further");
    for (namespace, root, sub, wanted) in [
        ("sub", &wrong[..], &[][..], above.clone()),
        ("sub", &wrong, &other, above.clone()),
        ("sub", &wrong, &copy, above.clone()),
        ("sub", &wrong, &wrong, format!("{own}; {above}")),
        (
            "sub",
            &[],
            &wrong,
            format!("{own}; it is the namespace's own object; root, its parent, does not have one"),
        ),
        (
            "root",
            &wrong,
            &[],
            format!("{own}; it is the namespace's own object; root has no parent and no template"),
        ),
    ] {
        assert_eq!(why(namespace, [("root", root), ("sub", sub)]), wanted, "{root:?} {sub:?}");
    }
}

#[test]
fn the_last_event_about_an_object_counts() {
    let event = |name: &str, at: &str, message: &str| -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "message": message, "lastTimestamp": at, "involvedObject": { "name": name }
        }))
        .unwrap()
    };
    let events = [
        event("a", "2026-01-01T00:00:00Z", "early."),
        event("a", "2026-01-01T00:02:00Z", "late."),
        event("a", "2026-01-01T00:01:00Z", "between."),
        event("b", "2026-01-01T00:03:00Z", "another."),
    ];
    assert_eq!(last_message(&events, "a").as_deref(), Some("late"));
    assert_eq!(last_message(&events, "c"), None);
}
