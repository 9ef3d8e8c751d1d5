//! What a plan says of a namespace: conditions with their times, failures while they last.

use super::*;
use crate::hnc::plan::HncAction;

#[test]
fn a_condition_keeps_its_time_for_as_long_as_its_reason() {
    let mut cluster = Cluster::draw("child:gone");
    settle(&mut cluster);
    let since = |cluster: &Cluster| cluster.hierarchies["child"].status.conditions[0].since.clone();
    let first = since(&cluster).unwrap();

    cluster.set_parent("child", Some("lost"));
    settle(&mut cluster);
    let shown = &cluster.hierarchies["child"].status.conditions[0];
    assert!(shown.message.contains("\"lost\"") && shown.since.as_ref() == Some(&first), "{shown:?}");

    cluster.set_parent("child", Some("child"));
    let Some(Action::Dialect(HncAction::UpdateHierarchy { status: Some(status), .. })) =
        plan(&cluster.forest(), "child", &Scope::whole()).report
    else {
        panic!("a cycle is not reported")
    };
    assert_eq!((&*status.conditions[0].reason, &status.conditions[0].since), ("InCycle", &None));
    settle(&mut cluster);
    assert_ne!(since(&cluster).unwrap(), first);

    cluster.set_parent("child", None);
    settle(&mut cluster);
    assert!(cluster.hierarchies["child"].status.is_empty());
}

/// Tells of the failure to write `r` in `child`, and shows what is planned and settled then.
#[test]
fn a_failure_is_shown_until_it_is_overcome_or_of_no_interest() {
    type Happens = fn(&mut Cluster);
    let cases: [(&str, Happens); 5] = [
        ("it is written", |it| drop(it.put("child", &key("r"), Some("root"), rules("x")))),
        ("its source goes", |it| drop(it.remove_object("root", &key("r")))),
        ("its source is excluded", |it| exclude(it, "root", "r")),
        ("the namespace moves away", |it| drop(it.set_parent("child", Some("other")))),
        ("the namespace leaves the tree", |it| drop(it.set_parent("child", None))),
    ];
    let mut rest = Cluster::draw("root, other, child:root");
    settle(&mut rest);
    rest.role("root", "r", "x");
    for (what, happens) in cases {
        let mut cluster = rest.clone();
        let mut forest = cluster.forest();
        let change = forest.apply(Fact::WriteFailed("child".into(), role_key("r"), "quota".into()));
        assert_eq!(change.namespaces.keys().map(|name| &**name).collect::<Vec<_>>(), ["child"]);
        let Some(Action::Dialect(HncAction::UpdateHierarchy { status: Some(status), .. })) =
            plan(&forest, "child", &Scope::whole()).report
        else {
            panic!("a failure is not reported")
        };
        let [shown] = &status.conditions[..] else { panic!("{status:?}") };
        assert_eq!((&*shown.type_, &*shown.reason), ("BadConfiguration", "CannotPropagateObject"));
        for named in ["roles.rbac.authorization.k8s.io", "\"r\"", "quota"] {
            assert!(shown.message.contains(named), "{}", shown.message);
        }
        assert_eq!(plan(&forest, "child", &Scope::whole()).settled, [], "{what}");

        happens(&mut cluster);
        for fact in cluster.lists() {
            forest.apply(fact);
        }
        let settled = plan(&forest, "child", &Scope::whole()).settled;
        assert_eq!(settled, [role_key("r")], "{what}");
        forest.apply(Fact::WriteSettled("child".into(), role_key("r")));
        let after = plan(&forest, "child", &Scope::whole());
        assert_eq!((after.settled.len(), after.report), (0, None), "{what}");
    }
}

#[test]
fn failures_of_a_namespace_that_goes_are_forgotten() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    let mut forest = cluster.forest();
    forest.apply(Fact::WriteFailed("child".into(), role_key("r"), "quota".into()));
    forest.apply(cluster.remove_namespace("child").unwrap());
    forest.apply(Fact::WriteFailed("child".into(), role_key("r"), "namespace not found".into()));
    forest.apply(cluster.namespace("child"));
    let plan = plan(&forest, "child", &Scope::whole());
    assert_eq!((plan.report, plan.settled.len()), (None, 0));
}

#[test]
fn failures_of_a_kind_that_is_not_wanted_any_more_are_forgotten() {
    let mut cluster = Cluster::draw("root, child:root");
    cluster.role("root", "r", "x");
    let mut forest = cluster.forest();
    forest.apply(Fact::WriteFailed("child".into(), role_key("r"), "quota".into()));
    forest.apply(Fact::Kinds(Vec::new()));
    forest.apply(Fact::WriteFailed("child".into(), role_key("r"), "not served any more".into()));
    forest.apply(Fact::Conflict("child".into(), role_key("r"), "stands in the way".into()));
    let plan = plan(&forest, "child", &Scope::whole());
    assert_eq!((plan.report, plan.settled.len()), (None, 0));
}

#[test]
fn many_failures_are_named_in_part_and_counted() {
    let mut cluster = Cluster::draw("root, child:root");
    settle(&mut cluster);
    let mut forest = cluster.forest();
    for at in 0..5 {
        forest.apply(Fact::WriteFailed("child".into(), role_key(&format!("r{at}")), "quota".into()));
    }
    let Some(Action::Dialect(HncAction::UpdateHierarchy { status: Some(status), .. })) =
        plan(&forest, "child", &Scope::whole()).report
    else {
        panic!("failures are not reported")
    };
    let message = &status.conditions[0].message;
    let named = (0..5).filter(|at| message.contains(&format!("\"r{at}\""))).count();
    assert!(named == 3 && message.ends_with("and 2 more"), "{message}");
}
