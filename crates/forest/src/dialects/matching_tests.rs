//! When plans may rest on lists.

use crate::hnc;
use std::sync::Arc;

use super::*;
use crate::core::change::Scope;
use crate::core::kind::Kind;
use crate::core::namespace::NamespaceFact;
use crate::dialects::Fact;
use crate::hnc::fact::{CrdState, HierarchyFact};
use crate::hnc::plan::plan;
use crate::hnc::settings::Settings;

fn version(uid: &str, resource_version: u64) -> Version {
    Version { uid: uid.into(), resource_version: resource_version.to_string().into() }
}

fn namespace(name: &str, resource_version: u64) -> NamespaceFact {
    NamespaceFact { name: name.into(), version: version(name, resource_version), ..NamespaceFact::default() }
}

fn listing(resource_version: u64, namespaces: &[(&str, u64)]) -> Listing {
    let object =
        |(name, state): &(&str, u64)| ((Name::default(), Name::from(*name)), vec![version(name, *state)]);
    Listing {
        resource_version: resource_version.to_string().into(),
        objects: namespaces.iter().map(object).collect(),
    }
}

fn forest() -> Forest {
    let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
    Forest::new(Arc::new(settings), vec![Kind::role()]).with_verified_lists()
}

fn tell(forest: &mut Forest, facts: impl IntoIterator<Item = Fact>) {
    for fact in facts {
        forest.apply(fact);
    }
}

#[test]
fn nothing_is_planned_before_the_structure_has_caught_up_with_each_list() {
    let mut forest = forest();
    let is_planned = |forest: &Forest| !plan(forest, "a", &Scope::whole()).is_empty();
    tell(
        &mut forest,
        [
            Fact::Hnc(hnc::Fact::Crds(CrdState::Present)),
            Fact::Namespaces(vec![namespace("a", 5)]),
            Fact::Hnc(hnc::Fact::Hierarchies(vec![])),
            Fact::Hnc(hnc::Fact::Anchors(vec![])),
        ],
    );
    assert!(
        forest.structure_gap().is_none() && !is_planned(&forest),
        "these lists may be of different moments"
    );
    let structure = forest.unverified();
    let kind = forest.kind_named("rbac.authorization.k8s.io", "Role").unwrap();
    tell(&mut forest, [Fact::Objects(kind, vec![]), Fact::Verified(structure.clone())]);
    assert!(is_planned(&forest) && !forest.is_verified(Stream::Kind(kind)), "of objects nothing was said");
    assert!(forest.apply(Fact::Verified(forest.unverified())).everything);
    assert!(forest.unverified().is_empty());

    tell(&mut forest, [Fact::Hnc(hnc::Fact::Hierarchies(vec![])), Fact::Verified(structure)]);
    assert!(!is_planned(&forest), "a later list needs another look");
}

#[test]
fn a_stream_has_caught_up_when_it_has_told_of_every_state_and_every_end() {
    let mut forest = forest();
    tell(
        &mut forest,
        [Fact::Namespaces(vec![namespace("a", 5), namespace("gone", 6), namespace("new", 20)])],
    );
    let behind = |forest: &Forest, listing| {
        let lag = forest.lag(Stream::NAMESPACES, listing);
        !forest.has_reported_all(&lag)
    };
    assert!(
        !behind(&forest, listing(10, &[("a", 5), ("gone", 6)])),
        "a state newer than the list does not count"
    );
    assert!(!behind(&forest, listing(10, &[("a", 4), ("gone", 6)])));
    assert!(behind(&forest, listing(10, &[("a", 7), ("gone", 6)])), "a is older than it should be");
    assert!(behind(&forest, listing(10, &[("a", 5), ("gone", 6), ("b", 8)])), "b is not known");
    let lag = forest.lag(Stream::NAMESPACES, listing(10, &[("a", 7)]));
    assert!(!forest.has_reported_all(&lag));
    tell(&mut forest, [Fact::Namespace(namespace("a", 9))]);
    assert!(!forest.has_reported_all(&lag), "one should be gone");
    tell(&mut forest, [Fact::NamespaceGone("gone".into(), "gone".into())]);
    assert!(forest.has_reported_all(&lag));
    assert!(!behind(&forest, listing(10, &[("a", 9), ("gone", 6)])), "what was listed has gone since");
}

#[test]
fn of_several_hierarchies_in_one_namespace_any_is_enough() {
    let mut forest = forest();
    let hierarchy = HierarchyFact { version: version("h2", 6), ..HierarchyFact::default() };
    tell(
        &mut forest,
        [
            Fact::Namespaces(vec![namespace("a", 5)]),
            Fact::Hnc(hnc::Fact::Hierarchies(vec![("a".into(), hierarchy)])),
        ],
    );
    let both = vec![version("h1", 7), version("h2", 6)];
    let objects = [((Name::from("a"), Name::default()), both)].into();
    let lag = forest.lag(Stream::HIERARCHIES, Listing { resource_version: "10".into(), objects });
    assert!(forest.has_reported_all(&lag));
}
