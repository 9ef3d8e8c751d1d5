//! With `--refuse-label-conflicts`: which managed values below a change would override.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Review, Spec};
use crate::core::tree::Id;
use crate::hnc::plan::{Labelling, asked_for, managed};
use crate::hnc::rules::{Check, Denial};

/// How many conflicts a message names.
const NAMED: usize = 20;

impl Review<'_> {
    /// Denies when a managed value that a descendant sets would be overridden by this change, and is not yet.
    pub(super) fn overrides_nothing_below(&self) -> Check {
        let request = self.request;
        if !self.forest.settings().refuse_label_conflicts || request.old == request.new {
            return Ok(());
        }
        let Some(id) = self.forest.id(&request.namespace) else { return Ok(()) };
        let found: Vec<String> = [Labelling::Labels, Labelling::Annotations]
            .into_iter()
            .flat_map(|which| {
                let before: HashSet<String> = self.overridden(id, which, &request.old).into_iter().collect();
                let after = self.overridden(id, which, &request.new).into_iter();
                after.filter(move |it| !before.contains(it))
            })
            .take(NAMED)
            .collect();
        if found.is_empty() {
            return Ok(());
        }
        Err(Denial::conflict(format!(
            "these managed values would be overridden, which refuseLabelConflicts in the settings forbids: {}; first remove or change \
             one of the two values",
            found.join("; ")
        ))
        .into())
    }

    /// The values that are overridden at and below a namespace with this `HierarchyConfiguration`.
    fn overridden(&self, id: Id, which: Labelling, spec: &Spec) -> Vec<String> {
        let forest = self.forest;
        let own = match which {
            Labelling::Labels => &spec.labels,
            Labelling::Annotations => &spec.annotations,
        };
        let parent = spec.parent.as_ref().and_then(|parent| forest.existing(parent));
        let from_above = parent.map(|id| managed(forest, &forest.labelling(id), which)).unwrap_or_default();
        // If a key has several values, the last one counts.
        let last: HashMap<&str, &str> =
            own.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let deciding = |key: &str| {
            let above = from_above.get(key).map(|it| it.value.as_str());
            above.or_else(|| last.get(key).copied())
        };
        let own = own.iter().map(|(key, value)| (id, Cow::from(key), value.as_str()));
        let below = forest.descendants(id).into_iter();
        let below =
            below.flat_map(|id| asked_for(forest, id, which).into_iter().map(move |(key, it)| (id, key, it)));
        own.chain(below)
            .filter_map(|(id, key, value)| {
                let by = deciding(&key).filter(|it| *it != value)?;
                Some(format!("{key}={value} of {:?} by {by} from above", forest.name(id)))
            })
            .collect()
    }
}
