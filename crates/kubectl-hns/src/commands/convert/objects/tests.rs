//! What a tree spreads or loses, and what is in the way.

use std::sync::Arc;

use forest::{NamespaceFact, Version, accurate};
use hns_api::accurate::annotations::{FROM, PROPAGATE};
use hns_api::annotations::SUBNAMESPACE_OF;
use hns_cluster::ingest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;

const ALL: &str = "propagate.hnc.x-k8s.io/all";
const NONE: &str = "propagate.hnc.x-k8s.io/none";

fn secrets() -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: "Secret".into(), resource: "secrets".into() }
}

/// An object in words: its kind, `NAMESPACE/NAME`, and then `update`, `create` or `other`, `<` and the namespace of its source, `none`,
/// `all`, `finalizer`, `bad`, which is a label that the settings exclude, and `@` and the Role that it refers to.
fn object(words: &str, settings: (&forest::Settings, &accurate::Settings)) -> (Kind, ObjectFact) {
    let mut words = words.split_whitespace();
    let kind = match words.next().unwrap() {
        "role" => Kind::role(),
        "binding" => Kind::role_binding(),
        _ => secrets(),
    };
    let (namespace, name) = words.next().unwrap().split_once('/').unwrap();
    let uid = format!("{} {namespace} {name}", kind.kind);
    let (mut annotations, mut labels, mut finalizers) = (Vec::new(), Vec::new(), Vec::new());
    let mut role = json!({ "kind": "ClusterRole", "name": "view" });
    for word in words {
        match word.split_at(1) {
            ("<", from) => annotations.push((FROM, from)),
            ("@", name) => role = json!({ "kind": "Role", "name": name }),
            _ if word == "none" => annotations.push((NONE, "true")),
            _ if word == "all" => annotations.push((ALL, "true")),
            _ if word == "finalizer" => finalizers.push("a/b".to_owned()),
            _ if word == "bad" => labels.push(("bad", "true")),
            _ => annotations.push((PROPAGATE, word)),
        }
    }
    let pairs = |pairs: Vec<(&str, &str)>| pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
    let metadata = ObjectMeta {
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        uid: Some(uid),
        annotations: Some(pairs(annotations)),
        labels: Some(pairs(labels)),
        finalizers: Some(finalizers),
        ..ObjectMeta::default()
    };
    let content = kind.binds_subjects().then(|| [("roleRef".to_owned(), role)].into_iter().collect());
    let fact = ingest::parts(&kind, (settings.0, Some(settings.1)), metadata, content);
    (kind, fact)
}

/// What is found in the tree of r, which has s and u below it, and t below s.
fn found(mode: Mode, objects: &[&str]) -> Findings {
    let kinds = [Kind::role(), Kind::role_binding(), secrets()];
    let mut settings = forest::Settings::new("hnc-system", [""; 0], ".*").unwrap();
    settings.nopropagation_labels = vec![("bad".into(), "true".into())];
    let rules = accurate::Settings { watches: kinds.to_vec(), ..accurate::Settings::default() };
    let objects: Vec<_> = objects.iter().map(|words| object(words, (&settings, &rules))).collect();
    let mut forest = Forest::unconfigured(Arc::new(settings)).with_accurate(Arc::new(rules));
    let modes = kinds
        .iter()
        .map(|kind| KindSettings::new(kind.clone(), if kind.is_rbac() { Mode::Propagate } else { mode }));
    forest.apply(Fact::Kinds(modes.collect()));
    let namespace = |(name, parent): (&str, &str)| NamespaceFact {
        name: name.into(),
        version: Version { uid: name.into(), ..Version::default() },
        annotations: Some((SUBNAMESPACE_OF, parent)).into_iter().filter(|it| !it.1.is_empty()).collect(),
        ..NamespaceFact::default()
    };
    let namespaces = [("r", ""), ("s", "r"), ("u", "r"), ("t", "s")].map(namespace);
    forest.apply(Fact::Namespaces(namespaces.to_vec()));
    let of_kind = |kind: &Kind| {
        let mine = objects.iter().filter(|(it, _)| it == kind).map(|(_, fact)| fact.clone()).collect();
        (forest.kind_named(&kind.group, &kind.kind).unwrap(), mine)
    };
    let listed = kinds.iter().map(of_kind).collect();
    Findings::of(forest, listed)
}

/// All findings, each after a word for its sort.
fn shown(found: &Findings) -> Vec<String> {
    let Findings { spreads, unasked, unbound, withheld, own, once, .. } = found;
    let sorts = [("spreads", spreads), ("unasked", unasked), ("unbound", unbound), ("withheld", withheld)];
    let sorts = sorts.into_iter().chain([("own", own), ("once", once)]);
    let short = |it: &String| it.replace(".rbac.authorization.k8s.io", "");
    sorts.flat_map(|(sort, all)| all.iter().map(move |it| format!("{sort} {}", short(it)))).collect()
}

#[test]
fn what_accurate_copies_is_what_hnc_may_copy() {
    let (all, some, no) = (Mode::Propagate, Mode::AllowPropagate, Mode::Ignore);
    for (mode, says, wanted) in [
        (all, "", "spreads secrets r/a"),
        (all, "none", ""),
        (all, "all", ""),
        (some, "all", ""),
        (some, "", ""),
        (no, "", ""),
        (all, "update", ""),
        (all, "update none", "withheld secrets r/a (not to s: its annotation"),
        (all, "update finalizer", "withheld secrets r/a (not to s: objects with finalizers"),
        (all, "update bad", "withheld secrets r/a (not to s: objects with the label bad=true"),
        (some, "update", "unasked secrets r/a"),
        (some, "update all", ""),
        (no, "update", "unasked secrets r/a"),
        (no, "create", ""),
        (all, "create", ""),
        (all, "other", "spreads secrets r/a"),
    ] {
        let shown = shown(&found(mode, &[&format!("secret r/a {says}")]));
        let fits = match &shown[..] {
            [] => wanted.is_empty(),
            [one] => !wanted.is_empty() && one.starts_with(wanted),
            _ => false,
        };
        assert!(fits, "{mode:?} {says}: {shown:?}, not {wanted}");
        assert_eq!(
            found(mode, &[&format!("secret t/a {says}")]),
            Findings::default(),
            "{says}: nothing is below t"
        );
    }
    let copies = ["secret r/a update all", "secret s/a update all <r", "secret s/b create <r"];
    let copies = found(some, &copies);
    assert_eq!((shown(&copies).len(), copies.stays), (0, 1));
}

#[test]
fn a_binding_is_lost_without_its_role() {
    let copies = ["binding r/b update @o", "binding s/b update @o <r", "binding u/b update @o <r"];
    for (roles, wanted) in [
        (&["role r/o update", "role s/o update <r"][..], &[][..]),
        (&["role r/o create"], &[]),
        (&[], &["unbound rolebindings r/b (not to s: it refers to the Role \"o\", which its own"]),
        (
            &["role r/o none"],
            &["unbound rolebindings r/b (not to s: it refers to the Role \"o\" of namespace"],
        ),
        (
            &["role r/o create none", "role s/o create <r"],
            &["unbound rolebindings r/b (not to s: it refers to the Role \"o\" of namespace \"r\", and"],
        ),
        (&["role r/o create", "role s/o create <r"], &["unbound rolebindings r/b", "once roles s/o"]),
        (&["role r/o update", "role u/o"], &["unbound rolebindings r/b (not to u: ", "own roles u/o"]),
    ] {
        let shown = shown(&found(Mode::Propagate, &[&copies[..], roles].concat()));
        let fits =
            shown.len() == wanted.len() && shown.iter().zip(wanted).all(|(it, start)| it.starts_with(start));
        assert!(fits, "{roles:?}: {shown:?}");
    }
    let uncopied = found(Mode::Propagate, &copies[..1]);
    assert_eq!(uncopied, Findings::default(), "Accurate does not copy it without its Role");
    // The Role is a copy from above, and the binding is copied from further down.
    let below =
        ["role r/o update", "role s/o update <r", "binding s/b update @o", "binding t/b update @o <s"];
    assert_eq!(shown(&found(Mode::Propagate, &below)), [""; 0]);
}

#[test]
fn what_is_in_the_way_is_found_before_the_first_write() {
    let found = found(
        Mode::Propagate,
        &[
            "binding r/a update",
            "binding s/a update <r",
            "binding t/a",
            "binding r/b create",
            "binding u/b create <r",
            "binding r/c create none",
            "binding u/c create <r",
            "binding s/d update",
            "binding u/d",
            "binding r/e create @gone",
            "binding s/e create @gone <r",
        ],
    );
    assert_eq!(
        shown(&found),
        ["own rolebindings t/a", "once rolebindings s/e", "once rolebindings u/b"],
        "the webhook does not know that r/e would not come"
    );
    assert_eq!(found.stays, 3);
}
