//! The faults of sources, which the controller reports to their owners as events. Never about copies.

use super::{Complaint, ComplaintReason};
use crate::core::change::ObjectScope;
use crate::core::kind::ObjectKey;
use crate::core::object::Source;
use crate::core::text::{MESSAGE, limited};
use crate::core::tree::Id;
use crate::dialects::Forest;
use crate::hnc::exclusion::{FINALIZERS, unfit_name};

/// The faults of the sources in this namespace that are in `scope`. An annotation that stops a source is no fault. In Accurate's hierarchy,
/// its rules say what is propagated.
pub(super) fn of_sources(forest: &Forest, id: Id, scope: &ObjectScope) -> Vec<Complaint> {
    if *scope == ObjectScope::None || !forest.is_managed(id) || forest.is_in_accurate(forest.name(id)) {
        return Vec::new();
    }
    let sources = forest.objects_at(id).filter_map(|(key, object)| Some((key, object.source()?)));
    let propagated = sources.filter(|(key, source)| {
        let mode = forest.kind_settings(key.kind).map(|settings| settings.mode);
        scope.includes(key) && !source.terminating && mode.is_some_and(crate::core::kind::Mode::propagates)
    });
    propagated.filter_map(|(key, source)| complaint(key, source)).collect()
}

fn complaint(key: &ObjectKey, source: &Source) -> Option<Complaint> {
    let is_fault = |why: &&str| *why == FINALIZERS || unfit_name(&key.name).is_some();
    let (reason, message) = if let Some(Err(unparsable)) = source.exceptions.as_deref() {
        (ComplaintReason::CannotParseSelector, format!("Not propagated: {unparsable}."))
    } else if let Some(why) = source.excluded.as_deref().filter(is_fault) {
        (ComplaintReason::CannotPropagateObject, format!("Not propagated: {why}."))
    } else {
        return None;
    };
    let message = limited(&message, MESSAGE).into();
    Some(Complaint { key: key.clone(), version: source.version.get(), reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accurate::world::{draw, key};
    use crate::{Fact, KindSettings, Mode, ObjectFact, Version};

    #[test]
    fn in_accurates_hierarchy_nothing_is_a_fault_here() {
        let mut forest = draw("n, r root, s ^r, t template, i ~t");
        let watched: Vec<_> = forest.kinds().map(|(_, it)| it.kind.clone()).collect();
        forest.apply(Fact::Kinds(
            watched.into_iter().map(|it| KindSettings::new(it, Mode::Propagate)).collect(),
        ));
        let key = key("Role", "x");
        for (name, wanted) in [("n", 1), ("r", 0), ("s", 0), ("t", 0), ("i", 0)] {
            let fact = ObjectFact::new(name.into(), "x".into(), Version::default());
            let fact = ObjectFact { excluded: Some(FINALIZERS.into()), ..fact };
            forest.apply(Fact::Object(key.kind, fact));
            let found = of_sources(&forest, forest.id(name).unwrap(), &ObjectScope::All);
            assert_eq!(found.len(), wanted, "{name}");
        }
    }
}
