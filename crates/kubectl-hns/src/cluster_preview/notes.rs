//! What do the shown effects leave out? Notes for the user.

use std::collections::BTreeSet;

use forest::preview::Outcome;
use forest::{Forest, Name, Version};

/// What the user may not read of what the effects depend on, as a note.
pub(super) fn unknown(kinds: &[String], hierarchies: &BTreeSet<Name>, others: &[String]) -> Option<String> {
    let kinds = (!kinds.is_empty()).then(|| format!("list {} in all namespaces concerned", kinds.join(", ")));
    let names = hierarchies.iter().map(|it| &**it).collect::<Vec<_>>().join(", ");
    let hierarchies = (!hierarchies.is_empty())
        .then(|| format!("read the hierarchy of {names}, which may set labels and annotations"));
    let lacking: Vec<String> = others.iter().cloned().chain(kinds).chain(hierarchies).collect();
    (!lacking.is_empty())
        .then(|| format!("not all effects are known: you may not {}", lacking.join(", nor ")))
}

pub(super) type Quotas = [(Name, Name, Version)];

/// A note about the quotas that come to limit the namespace, except those whose usage is known to change.
pub(super) fn uncounted(
    namespace: &str,
    before: &Quotas,
    after: &Quotas,
    outcome: &Outcome,
) -> Option<String> {
    let is_new = |(at, name, _): &&(Name, Name, Version)| {
        let counts = outcome.quotas.iter().any(|it| (&it.namespace, &it.name) == (at, name));
        !counts && !before.iter().any(|it| (&it.0, &it.1) == (at, name))
    };
    let quotas: Vec<String> =
        after.iter().filter(is_new).map(|(at, name, _)| format!("{at}/{name}")).collect();
    (!quotas.is_empty()).then(|| {
        format!(
            "{namespace} would come under the hierarchical quotas {}; what it uses already is counted only then, and may exceed them",
            quotas.join(", ")
        )
    })
}

/// A note about the quotas that may refuse new objects. How much the API server will count is not known here.
pub(super) fn counted(forest: &Forest, outcome: &Outcome) -> Option<String> {
    let mut resources = BTreeSet::new();
    let mut quotas = BTreeSet::new();
    for object in outcome.objects.iter().filter(|it| it.before.is_none()) {
        let resource = forest.kind(object.key.kind).group_resource();
        let counting = forest.quotas_that_count(&object.namespace, &resource);
        if !counting.is_empty() {
            resources.insert(resource);
            quotas.extend(counting);
        }
    }
    let (resources, quotas) = (Vec::from_iter(resources).join(", "), Vec::from_iter(quotas).join(", "));
    (!quotas.is_empty()).then(|| {
        format!("new {resources} count against the hierarchical quotas {quotas}, and are refused where one of them is full")
    })
}

#[cfg(test)]
mod tests {
    use forest::hnc::quota::QuotaFact;
    use forest::preview::{ObjectChange, QuotaChange};
    use forest::{Fact, Kind, KindSettings, Mode, ObjectKey, hnc};
    use hns_cluster::ingest::quotas::amounts;
    use std::collections::BTreeMap;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn quotas_whose_usage_is_not_known_are_noted() {
        let quota = |at: &str| (Name::from(at), Name::from("q"), Version::default());
        let (before, after) = ([quota("r")], [quota("r"), quota("a"), quota("b")]);
        let known = QuotaChange {
            namespace: "b".into(),
            name: "q".into(),
            before: BTreeMap::default(),
            after: BTreeMap::default(),
            hard: BTreeMap::default(),
        };
        let outcome = Outcome { quotas: vec![known], ..Outcome::default() };
        let note = uncounted("n", &before, &after, &outcome).unwrap();
        assert!(note.starts_with("n would come under the hierarchical quotas a/q; what it uses"), "{note}");
        assert_eq!(uncounted("n", &after, &before, &outcome), None);
    }

    /// A copy in `b`, which is limited at `a` and by another quota that does not count it.
    #[test]
    fn quotas_that_may_refuse_new_objects_are_noted() {
        let mut forest = sketch(&["a", "b < a", "c"]).forest();
        let quota = |name: &str, resource: &str| {
            let hard = amounts(&serde_json::json!({ resource: "1" }));
            (Name::from("a"), QuotaFact { name: name.into(), hard, ..QuotaFact::default() })
        };
        forest.apply(Fact::Hnc(hnc::Fact::Quotas(vec![
            quota("full", "count/configmaps"),
            quota("cpu", "limits.cpu"),
        ])));
        let kind = Kind {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            resource: "configmaps".into(),
        };
        forest.apply(Fact::Kinds(vec![KindSettings::new(kind, Mode::Propagate)]));
        let key = ObjectKey { kind: forest.kind_named("", "ConfigMap").unwrap(), name: "one".into() };
        let created = |namespace: &str| ObjectChange {
            namespace: namespace.into(),
            key: key.clone(),
            before: None,
            after: None,
        };
        let outcome = |namespace: &str| Outcome { objects: vec![created(namespace)], ..Outcome::default() };
        assert_eq!(
            counted(&forest, &outcome("b")).as_deref(),
            Some(
                "new configmaps count against the hierarchical quotas a/full, and are refused where one of them is full"
            )
        );
        assert_eq!(counted(&forest, &outcome("c")), None);
    }

    #[test]
    fn one_note_says_what_is_not_known() {
        let (none, kinds) = (BTreeSet::new(), ["roles".to_owned(), "secrets".to_owned()]);
        assert_eq!(unknown(&[], &none, &[]), None);
        let hidden = BTreeSet::from(["tenants".into()]);
        assert_eq!(
            unknown(&kinds, &hidden, &["list namespaces".into()]).as_deref(),
            Some(
                "not all effects are known: you may not list namespaces, nor list roles, secrets in all namespaces concerned, \
                 nor read the hierarchy of tenants, which may set labels and annotations"
            )
        );
    }
}
