//! What decides where copies go beside the links: labels, kinds and their modes, what is left alone, what must be read.

use super::*;
use crate::cluster::asks::ASKS;
use crate::core::change::Change;
use crate::core::kind::{Kind, KindSettings, Mode, OnConflict};
use crate::core::name::Name;
use crate::core::version::Version;
use crate::hnc::plan::{ComplaintReason, HncAction, Plan};

const SELECTS_BLUE: usize = 1;

fn objects(forest: &Forest, name: &str) -> Vec<String> {
    let of_objects = |line: &String| line.contains(" r") || line.contains(" b");
    let scope = Scope { structure: false, quotas: false, objects: ObjectScope::All };
    lines(&plan(forest, name, &scope)).into_iter().filter(of_objects).collect()
}

fn touched(change: &Change, name: &str, key: &ObjectKey) -> bool {
    change.everything || change.namespaces.get(name).is_some_and(|scope| scope.objects.includes(key))
}

#[test]
fn a_label_of_the_destination_decides_and_touches_what_it_decides() {
    assert_eq!(ASKS[SELECTS_BLUE].annotations[0].1, "team=blue");
    let mut cluster = Cluster::draw("root, child:root, leaf:child");
    cluster.role("root", "r", "x");
    cluster.change_object("root", &key("r"), |it| it.asks = SELECTS_BLUE);
    let mut forest = cluster.forest();
    assert_eq!([objects(&forest, "child"), objects(&forest, "leaf")], [[""; 0]; 2]);

    let change = forest.apply(cluster.label("child", &[("team", "blue")]).unwrap());
    assert!(touched(&change, "child", &key("r")) && !touched(&change, "leaf", &key("r")), "{change:?}");
    assert_eq!(objects(&forest, "child"), ["both create r from root"]);

    // A managed label that comes from above decides as well, before it is written.
    cluster.change_object("root", &key("r"), |it| it.asks = 2);
    let mut forest = cluster.forest();
    let silver: Labels = [("tier", "silver")].into_iter().collect();
    let change = forest.apply(cluster.change_hierarchy("child", |it| it.labels = silver));
    assert!(["child", "leaf"].iter().all(|name| touched(&change, name, &key("r"))), "{change:?}");
    assert_eq!(objects(&forest, "leaf"), ["both create r from root"]);
}

fn configured(cluster: &Cluster, roles: KindSettings) -> (Forest, Change) {
    let mut forest = cluster.forest();
    let bindings = KindSettings::new(Kind::role_binding(), Mode::Propagate);
    let change = forest.apply(Fact::Kinds(vec![roles, bindings]));
    (forest, change)
}

#[test]
fn names_that_are_excluded_stay_where_they_are() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    cluster.role("root", "r-own", "x");
    let mut roles = KindSettings::new(Kind::role(), Mode::Propagate);
    roles.excluded_names = crate::core::patterns::Patterns::new(["*-own"]).unwrap();
    let (forest, change) = configured(&cluster, roles);
    assert!(change.everything);
    assert_eq!(objects(&forest, "child"), ["both create r from root"]);
}

#[test]
fn a_kind_that_is_dropped_is_forgotten_and_known_again_only_when_it_is_listed_again() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    cluster.put("child", &key("r0"), Some("root"), rules("x"));
    cluster.binding("root", "b", "r", "u");
    let mut forest = cluster.forest();
    let before = objects(&forest, "child");
    assert_eq!(before.len(), 3, "{before:?}");
    forest.apply(Fact::WriteFailed("child".into(), key("r"), "no".into()));

    forest.apply(Fact::Kinds(vec![KindSettings::new(Kind::role_binding(), Mode::Propagate)]));
    assert_eq!(objects(&forest, "child"), [""; 0], "no binding to a Role without Roles");
    assert_eq!((forest.kinds().count(), forest.kind_named("rbac.authorization.k8s.io", "Role")), (1, None));
    assert!(forest.names().all(|name| forest.failures(name).next().is_none()));
    // A watch that has not heard of it yet tells on.
    forest.apply(cluster.list_objects(roles()));
    assert_eq!(forest.sizes().copies + forest.sizes().sources, 1);

    forest.apply(cluster.configuration());
    assert_eq!(objects(&forest, "child"), [""; 0], "it is not listed yet");
    forest.apply(cluster.list_objects(roles()));
    assert_eq!(objects(&forest, "child"), before);
}

#[test]
fn before_the_configuration_nothing_is_planned_about_objects() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.binding("root", "b", "r", "u");
    cluster.put("child", &key("b0"), Some("root"), binds("r", "u"));
    let mut forest = Forest::unconfigured(std::sync::Arc::new(crate::cluster::settings()));
    for fact in cluster.lists() {
        forest.apply(fact);
    }
    assert_eq!(objects(&forest, "child"), [""; 0]);
    let bindings = KindSettings::new(Kind::role_binding(), Mode::Propagate);
    assert!(forest.apply(Fact::Kinds(vec![bindings.clone()])).everything);
    assert_eq!(objects(&forest, "child"), [""; 0]);
    let kind = forest.kind_named("rbac.authorization.k8s.io", "RoleBinding").unwrap();
    assert!(forest.apply(Fact::Objects(kind, Vec::new())).everything);
    assert!(forest.apply(Fact::Kinds(vec![bindings])).is_empty());
    // That it cannot be read any more does not undo it.
    forest.apply(Fact::StreamLost(Stream::CONFIGURATION, "gone".into()));
    assert!(forest.is_configured());
}

/// Carries out what a plan asks for beside writes.
fn note(forest: &mut Forest, name: &str, plan: &Plan) -> Vec<Change> {
    let namespace = Name::from(name);
    let conflicts =
        plan.conflicts.iter().map(|(key, why)| Fact::Conflict(namespace.clone(), key.clone(), why.clone()));
    let settled = plan.settled.iter().map(|key| Fact::WriteSettled(namespace.clone(), key.clone()));
    conflicts.chain(settled).collect::<Vec<_>>().into_iter().map(|fact| forest.apply(fact)).collect()
}

fn conditions(forest: &Forest, name: &str) -> Vec<String> {
    let report = plan(forest, name, &Scope::whole()).report;
    let Some(Action::Dialect(
        HncAction::CreateHierarchy { status, .. } | HncAction::UpdateHierarchy { status: Some(status), .. },
    )) = report
    else {
        return Vec::new();
    };
    status.conditions.iter().map(|it| format!("{}: {}", it.reason, it.message)).collect()
}

#[test]
fn a_conflict_is_left_alone_and_shown_on_the_namespace_and_all_above() {
    let mut cluster = Cluster::draw("top, root:top, child:root, other");
    settle(&mut cluster);
    cluster.role("child", "r", "y");
    cluster.role("root", "r", "x");
    let mut roles = KindSettings::new(Kind::role(), Mode::Propagate);
    roles.on_conflict = Some(OnConflict::Report);
    let (mut forest, _) = configured(&cluster, roles);

    let found = plan(&forest, "child", &Scope::whole());
    assert_eq!((found.conflicts.len(), found.steps.len()), (1, 0), "{found:?}");
    let changes = note(&mut forest, "child", &found);
    assert!(["top", "root", "child"].iter().all(|name| changes[0].namespaces[*name].structure));
    let again = plan(&forest, "child", &Scope::whole());
    assert!(again.conflicts.is_empty() && again.settled.is_empty(), "{again:?}");
    for name in ["top", "root", "child"] {
        let shown = conditions(&forest, name);
        let says = |line: &String| {
            line.starts_with("CannotPropagateObject: ")
                && line.contains("\"child\"")
                && line.contains("\"r\"")
        };
        assert!(shown.iter().any(says), "{name}: {shown:?}");
    }
    assert_eq!(conditions(&forest, "other"), [""; 0]);

    // It follows the namespace to another place, from all that were above it to all that are.
    let change = forest.apply(cluster.set_parent("root", Some("other")));
    assert!(
        ["top", "root", "child", "other"].iter().all(|name| change.namespaces[*name].structure),
        "{change:?}"
    );
    assert_eq!(conditions(&forest, "top"), [""; 0]);
    assert_eq!(conditions(&forest, "other").len(), 1);

    // And ends with what it is about.
    forest.apply(cluster.remove_object("root", &key("r")).unwrap());
    let found = plan(&forest, "child", &Scope::whole());
    assert_eq!(found.settled, [key("r")]);
    note(&mut forest, "child", &found);
    assert_eq!(conditions(&forest, "other"), [""; 0]);
}

#[test]
fn a_source_below_which_there_was_nothing_is_read_before_it_is_copied() {
    let mut cluster = Cluster::draw("root, child");
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster.put("child", &key("r-old"), Some("root"), rules("x"));
    let mut forest = cluster.forest();
    forest.apply(cluster.set_parent("child", Some("root")));
    let found = plan(&forest, "child", &Scope::whole());
    let root = Name::from("root");
    assert_eq!(found.unread, [(root.clone(), key("r")), (root.clone(), key("b"))]);
    assert_eq!(objects(&forest, "child"), ["off delete r-old"], "what is lost does not wait");
    // Not even one of two: what is gained comes in its order.
    forest.apply(cluster.object_fact(&root, &key("b")));
    assert_eq!(objects(&forest, "child"), ["off delete r-old"]);
    forest.apply(cluster.object_fact(&root, &key("r")));
    assert_eq!(
        objects(&forest, "child"),
        ["off delete r-old", "both create r from root", "on create b from root"]
    );

    // Without children nothing is kept.
    forest.apply(cluster.set_parent("child", None));
    forest.apply(cluster.set_parent("child", Some("root")));
    assert_eq!(plan(&forest, "child", &Scope::whole()).unread.len(), 2);
}

#[test]
fn what_the_api_server_stores_of_a_copy_is_accepted_until_a_user_changes_it() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    let mut forest = settle(&mut cluster);
    let changed =
        cluster.change_object("child", &key("r"), |it| drop(it.labels.insert("injected".into(), "1".into())));
    forest.apply(changed.unwrap());
    let Some(Action::ReplaceCopy { content, .. }) =
        plan(&forest, "child", &Scope::whole()).actions().next().cloned()
    else {
        panic!("drift is not put right")
    };
    // It is written, and comes back with the same label again.
    let again = cluster.change_object("child", &key("r"), |_| ()).unwrap();
    forest.apply(again);
    let place = (Name::from("child"), key("r"));
    let accepted = |version| Fact::Accepted(place.0.clone(), place.1.clone(), version, content.digest());
    forest.apply(accepted(Version::default()));
    assert_eq!(objects(&forest, "child"), ["both replace r from root"], "another client wrote first");
    forest.apply(accepted(cluster.objects[&place].version.clone()));
    assert_eq!(objects(&forest, "child"), [""; 0]);

    forest.apply(cluster.change_object("child", &key("r"), |_| ()).unwrap());
    assert_eq!(objects(&forest, "child"), [""; 0], "nothing of interest has changed");
    forest.apply(cluster.role("root", "r", "y"));
    assert_eq!(objects(&forest, "child"), ["both replace r from root"], "the source has changed");
    forest.apply(cluster.role("root", "r", "x"));
    forest.apply(cluster.change_object("child", &key("r"), |it| drop(it.labels.remove("app"))).unwrap());
    assert_eq!(objects(&forest, "child"), ["both replace r from root"], "another client has changed it");
}

#[test]
fn those_who_keep_a_source_hear_what_is_wrong_with_it() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    let complaints = |cluster: &Cluster| plan(&cluster.forest(), "root", &Scope::whole()).complaints;
    assert_eq!(complaints(&cluster), []);
    let unparsable = ASKS.iter().position(|ask| ask.annotations.iter().any(|it| it.1 == "perhaps")).unwrap();
    cluster.change_object("root", &key("r"), |it| it.asks = unparsable);
    let [complaint] = &complaints(&cluster)[..] else { panic!("{:?}", complaints(&cluster)) };
    assert_eq!((complaint.reason, &complaint.key), (ComplaintReason::CannotParseSelector, &key("r")));
    assert!(
        complaint.message.contains("propagate.hnc.x-k8s.io/none") && complaint.message.contains("perhaps")
    );
    settle(&mut cluster);
    assert_eq!(complaints(&cluster).len(), 1);
    let nothing = Scope::structure();
    assert_eq!(plan(&cluster.forest(), "root", &nothing).complaints, []);
}

#[test]
fn while_something_is_to_be_read_new_labels_wait_too() {
    let mut cluster = Cluster::draw("old, new, child:old");
    settle(&mut cluster);
    cluster.role("new", "r", "x");
    cluster.binding("old", "b", "r", "u");
    cluster.binding("new", "b", "r", "v");
    cluster.put("child", &key("b"), Some("old"), binds("r", "u"));
    let mut forest = cluster.forest();
    forest.apply(cluster.set_parent("child", Some("new")));
    let found = plan(&forest, "child", &Scope::whole());
    assert_eq!(found.unread.len(), 2, "{found:?}");
    assert_eq!(lines(&found), ["off label -old"]);
    // Not even where nothing but the namespace itself is looked at.
    let structure = Scope::structure();
    assert_eq!(lines(&plan(&forest, "child", &structure)), ["off label -old"]);
    let new = Name::from("new");
    for key in [key("r"), key("b")] {
        forest.apply(cluster.object_fact(&new, &key));
    }
    let found = lines(&plan(&forest, "child", &Scope::whole()));
    assert_eq!(
        found,
        [
            "off label -old",
            "off delete b",
            "both label +new=1",
            "both create r from new",
            "on create b from new"
        ]
    );
}

/// `root, child, leaf` below each other; `root` has the Role `r` and the binding `b` to it.
fn bound() -> Cluster {
    let mut cluster = Cluster::draw("root, child:root, leaf:child");
    cluster.role("root", "r", "x");
    cluster.binding("root", "b", "r", "u");
    cluster
}

fn only_b(forest: &Forest, name: &str) -> Vec<String> {
    let scope = Scope {
        structure: false,
        quotas: false,
        objects: ObjectScope::Some([key("b")].into_iter().collect()),
    };
    lines(&plan(forest, name, &scope)).split_off(2)
}

#[test]
fn a_binding_is_copied_where_its_role_is_the_same_one() {
    let mut cluster = bound();
    let mut forest = cluster.forest();
    let both = ["both create r from root", "on create b from root"];
    assert_eq!(objects(&forest, "child"), both);
    assert_eq!(only_b(&forest, "child"), both, "the Role precedes it in any scope");

    // In the namespace below, the name means another Role.
    forest.apply(cluster.change_object("root", &key("r"), |it| it.asks = 7).unwrap());
    let change = forest.apply(cluster.role("child", "r", "xy"));
    assert!(["child", "leaf"].iter().all(|name| touched(&change, name, &key("b"))), "{change:?}");
    assert_eq!(
        [objects(&forest, "child"), objects(&forest, "leaf")],
        [vec![], vec!["both create r from child".to_owned()]]
    );
}

#[test]
fn a_binding_goes_before_its_role() {
    let mut cluster = bound();
    settle(&mut cluster);
    let mut forest = cluster.forest();
    let gone = ["off delete b", "off delete r"];
    let change = forest.apply(cluster.change_object("root", &key("r"), |it| it.asks = 7).unwrap());
    assert!(["child", "leaf"].iter().all(|name| touched(&change, name, &key("b"))), "{change:?}");
    assert_eq!(objects(&forest, "leaf"), gone);
    forest.apply(cluster.remove_object("root", &key("r")).unwrap());
    assert_eq!(objects(&forest, "leaf"), gone);
    // It waits for the Role.
    settle(&mut cluster);
    let mut forest = cluster.forest();
    let change = forest.apply(cluster.role("root", "r", "y"));
    assert!(touched(&change, "leaf", &key("b")), "{change:?}");
    assert_eq!(objects(&forest, "leaf"), ["both create r from root", "on create b from root"]);
}

/// Only this is withdrawn there: everything else stays as it is.
#[test]
fn below_a_missing_parent_a_binding_goes_with_its_source() {
    const NOTHING: [&str; 0] = [];
    let mut cluster = bound();
    settle(&mut cluster);
    cluster.remove_namespace("child");
    let mut forest = cluster.forest();
    forest.apply(cluster.binding("root", "b", "r", "v"));
    forest.apply(cluster.remove_object("root", &key("r")).unwrap());
    assert_eq!(objects(&forest, "leaf"), NOTHING);
    let change = forest.apply(cluster.remove_object("root", &key("b")).unwrap());
    assert!(touched(&change, "leaf", &key("b")), "{change:?}");
    assert_eq!(objects(&forest, "leaf"), ["off delete b"]);
}

/// While the excluded parent exists, nothing is withdrawn.
#[test]
fn an_excluded_parent_that_is_deleted_is_missing_too() {
    const NOTHING: [&str; 0] = [];
    let mut cluster = Cluster::draw("kube-system, child, leaf:child");
    cluster.set_parent("child", Some("kube-system"));
    for name in ["child", "leaf"] {
        cluster.put(name, &key("b"), Some("kube-system"), binds_everywhere("u"));
    }
    let mut forest = cluster.forest();
    for name in ["child", "leaf"] {
        assert_eq!(objects(&forest, name), NOTHING);
    }
    let change = forest.apply(cluster.remove_namespace("kube-system").unwrap());
    for name in ["child", "leaf"] {
        assert!(touched(&change, name, &key("b")), "{change:?}");
        assert_eq!(objects(&forest, name), ["off delete b"]);
    }
}

#[test]
fn a_label_that_changes_what_a_binding_refers_to_touches_its_copies() {
    let mut cluster = bound();
    cluster.change_object("root", &key("r"), |it| it.asks = SELECTS_BLUE);
    cluster.binding("child", "b2", "r", "u");
    cluster.label("leaf", &[("team", "blue")]);
    let mut forest = cluster.forest();
    assert_eq!(objects(&forest, "leaf"), ["both create r from root", "on create b from root"]);
    let change = forest.apply(cluster.label("child", &[("team", "blue")]).unwrap());
    assert!(touched(&change, "leaf", &key("b2")), "{change:?}");
    assert_eq!(
        objects(&forest, "leaf"),
        ["both create r from root", "on create b from root, create b2 from child"]
    );
}

#[test]
fn bindings_wait_until_roles_are_listed() {
    let mut cluster = bound();
    settle(&mut cluster);
    cluster.put("root", &key("b1"), None, binds_everywhere("u"));
    let mut forest = cluster.forest();
    forest.apply(Fact::StreamLost(Stream::Kind(roles()), "no rights".into()));
    cluster.remove_object("root", &key("r"));
    forest.apply(Fact::ObjectGone(roles(), "root".into(), "r".into(), "uid".into()));
    assert_eq!(objects(&forest, "child"), ["on create b1 from root"], "a ClusterRole is the same everywhere");

    let mut forest = crate::cluster::empty_forest();
    let of_roles = |fact: &Fact| matches!(fact, Fact::Objects(kind, _) if *kind == roles());
    for fact in cluster.lists().into_iter().chain([cluster.configuration()]).filter(|fact| !of_roles(fact)) {
        forest.apply(fact);
    }
    assert_eq!(objects(&forest, "child"), ["on create b1 from root"]);
    forest.apply(cluster.list_objects(roles()));
    assert_eq!(objects(&forest, "child"), ["off delete b", "off delete r", "on create b1 from root"]);
}

#[test]
fn a_role_that_is_left_alone_is_not_the_one_from_above() {
    let mut cluster = bound();
    cluster.role("child", "r", "y");
    cluster.binding("child", "b2", "r", "u");
    let mut roles = KindSettings::new(Kind::role(), Mode::Propagate);
    roles.on_conflict = Some(OnConflict::Report);
    let (forest, _) = configured(&cluster, roles);
    assert_eq!(objects(&forest, "child"), [""; 0]);
    // There the Role is that of the root, to which only the root's binding refers.
    assert_eq!(objects(&forest, "leaf"), ["both create r from root", "on create b from root"]);
}

#[test]
fn names_of_roles_that_are_excluded_keep_bindings_where_they_are() {
    let cluster = bound();
    let mut roles = KindSettings::new(Kind::role(), Mode::Propagate);
    roles.excluded_names = crate::core::patterns::Patterns::new(["r"]).unwrap();
    assert_eq!(objects(&configured(&cluster, roles).0, "child"), [""; 0]);
    let removed = KindSettings::new(Kind::role(), Mode::Remove);
    assert_eq!(objects(&configured(&cluster, removed).0, "child"), [""; 0]);
}

/// A right that is withdrawn above is withdrawn where a Pod holds up the deletion too. Otherwise its user could edit what the namespaces
/// below get from there.
#[test]
fn what_is_withdrawn_above_goes_from_a_namespace_that_is_being_deleted() {
    let mut cluster = Cluster::draw("root, mid:root, leaf:mid");
    cluster.role("root", "r", "x");
    for name in ["b-gone", "b-less", "b-same"] {
        cluster.put("root", &key(name), None, binds_everywhere("grace"));
    }
    settle(&mut cluster);
    cluster.terminate("mid");
    cluster.remove_object("root", &key("b-gone"));
    cluster.put("root", &key("b-less"), None, binds_everywhere("other"));
    cluster.put("root", &key("b-new"), None, binds_everywhere("other"));
    let written = ["off delete b-gone", "on replace b-less from root"];
    assert_eq!(objects(&cluster.forest(), "mid"), written, "nothing is created");

    cluster.remove_object("mid", &key("b-less"));
    cluster.remove_hierarchy("mid");
    assert_eq!(
        objects(&cluster.forest(), "mid"),
        ["off delete b-gone"],
        "what Kubernetes has deleted stays away"
    );
}

#[test]
fn a_changed_binding_of_a_changed_role_is_not_created_again_in_a_namespace_that_is_being_deleted() {
    let mut cluster = bound();
    settle(&mut cluster);
    cluster.terminate("child");
    cluster.role("root", "r", "y");
    cluster.binding("root", "b", "r", "other");
    assert_eq!(objects(&cluster.forest(), "child"), ["off delete b", "both replace r from root"]);
}
