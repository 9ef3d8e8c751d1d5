//! What do the shown effects leave out? Notes for the user.

use std::collections::{BTreeMap, BTreeSet};

use forest::preview::{Intent, Outcome};
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

/// The namespace and the name of a quota, and its version.
type Quota = (Name, Name, Version);

fn has(quotas: &[Quota], quota: &Quota) -> bool {
    quotas.iter().any(|it| (&it.0, &it.1) == (&quota.0, &quota.1))
}

/// Whether the effects show how much of the quota is used.
fn is_known((at, name, _): &Quota, outcome: &Outcome) -> bool {
    outcome.quotas.iter().any(|it| (&it.namespace, &it.name) == (at, name))
}

/// A note about the quotas that come to limit the namespace, except those whose usage is known to change.
pub(super) fn uncounted(
    namespace: &str,
    before: &[Quota],
    after: &[Quota],
    outcome: &Outcome,
) -> Option<String> {
    let is_new = |quota: &&Quota| !is_known(quota, outcome) && !has(before, quota);
    let (quotas, them) = named(after.iter().filter(is_new))?;
    Some(format!(
        "{namespace} would come under {quotas}; what it uses already is counted only then, and may exceed {them}"
    ))
}

/// A note about the quotas that limit a new namespace.
pub(super) fn limited(namespace: &str, quotas: &[Quota]) -> Option<String> {
    let (quotas, _) = named(quotas.iter())?;
    Some(format!("{namespace} would be limited by {quotas}"))
}

/// The quotas, if there are any, and their pronoun.
fn named<'a>(quotas: impl Iterator<Item = &'a Quota>) -> Option<(String, &'static str)> {
    let quotas: Vec<String> = quotas.map(|(at, name, _)| format!("{at}/{name}")).collect();
    match &*quotas {
        [] => None,
        [one] => Some((format!("the hierarchical quota {one}"), "it")),
        all => Some((format!("the hierarchical quotas {}", all.join(", ")), "them")),
    }
}

/// The namespaces below the one that is to be deleted.
pub(super) fn below_deleted(forest: &Forest, intents: &[Intent]) -> BTreeSet<Name> {
    let mut deleted = intents.iter().filter_map(|intent| match intent {
        Intent::DeleteNamespace { name } | Intent::DeleteAnchor { child: name, .. } => Some(name),
        _ => None,
    });
    let Some(top) = deleted.next() else { return BTreeSet::new() };
    let is_below = |name: &&Name| forest.ancestry(name).iter().skip(1).any(|it| it == top);
    forest.names().filter(is_below).cloned().collect()
}

/// The same, each with the quotas that limit it.
pub(super) fn limited_below(forest: &Forest, intents: &[Intent]) -> Vec<(Name, Vec<Quota>)> {
    let below = below_deleted(forest, intents).into_iter();
    below.map(|name| (name.clone(), forest.quotas_over(&name))).collect()
}

/// A note about the namespaces that stay and that quotas do not limit any more, except quotas whose usage is known to change.
pub(super) fn released(limited: &[(Name, Vec<Quota>)], forest: &Forest, outcome: &Outcome) -> Option<String> {
    let mut released: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (namespace, before) in limited.iter().filter(|(name, _)| forest.exists(name)) {
        let after = forest.quotas_over(namespace);
        let lost = before.iter().filter(|quota| !is_known(quota, outcome) && !has(&after, quota));
        for (at, name, _) in lost {
            released.entry(format!("{at}/{name}")).or_default().push(namespace);
        }
    }
    let one = |(quota, namespaces): (String, Vec<&str>)| format!("{} by {quota}", namespaces.join(", "));
    let all: Vec<String> = released.into_iter().map(one).collect();
    (!all.is_empty())
        .then(|| format!("would no longer be limited by hierarchical quotas: {}", all.join("; ")))
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
        assert!(note.starts_with("n would come under the hierarchical quota a/q; what it uses"), "{note}");
        let two = limited("n", &after[..2]).unwrap();
        assert_eq!(two, "n would be limited by the hierarchical quotas r/q, a/q");
        assert_eq!(limited("n", &[]), None);
        assert_eq!(uncounted("n", &after, &before, &outcome), None);
    }

    #[test]
    fn namespaces_that_stay_without_their_limits_are_noted() {
        let limits = |at: &str| {
            let hard = amounts(&serde_json::json!({ "configmaps": "1" }));
            (Name::from(at), QuotaFact { name: "q".into(), hard, ..QuotaFact::default() })
        };
        let mut forest = sketch(&["a", "b < a", "c < b", "d < b", "other"]).forest();
        forest.apply(Fact::Hnc(hnc::Fact::Quotas(["a", "b", "other"].map(limits).to_vec())));
        let deletion = Intent::DeleteNamespace { name: "b".into() };
        let below = limited_below(&forest, std::slice::from_ref(&deletion));
        let names: Vec<&str> = below.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["c", "d"]);
        let mut after = sketch(&["a", "c < b", "other"]).forest();
        after.apply(Fact::Hnc(hnc::Fact::Quotas(["a", "other"].map(limits).to_vec())));
        let note = released(&below, &after, &Outcome::default());
        assert_eq!(
            note.as_deref(),
            Some("would no longer be limited by hierarchical quotas: c by a/q; c by b/q")
        );
        assert_eq!(released(&below, &forest, &Outcome::default()), None);
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
