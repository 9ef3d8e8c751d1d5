//! Labels and annotations that the hierarchy sets: they may be restrictions, such as Pod Security labels.
//!
//! The controller restores them, but a moment later. A user who may patch a namespace must not use that moment.

use super::{Request, Review};
use crate::hnc::plan::{Labelling, managed, sets_no_managed};
use crate::hnc::rules::{Check, Denial, hierarchy};

impl Review<'_> {
    /// A key for which the hierarchy has a value can be set to this value alone.
    pub(super) fn managed_values(&self) -> Check {
        self.stay(Labelling::Labels)?;
        self.stay(Labelling::Annotations)
    }

    fn stay(&self, which: Labelling) -> Check {
        let Request { name, old, new, .. } = self.request;
        let (what, old, new) = match which {
            Labelling::Labels => ("label", &old.labels, &new.labels),
            Labelling::Annotations => ("annotation", &old.annotations, &new.annotations),
        };
        let forest = self.forest;
        let keys = old.iter().chain(new.iter()).map(|(key, _)| key);
        let is_changed = |key: &&str| which.manages(forest.settings(), key) && old.get(key) != new.get(key);
        let mut changed = keys.filter(is_changed).peekable();
        if changed.peek().is_none() {
            return Ok(());
        }
        hierarchy::structure_is_known(forest)?;
        let Some(id) = forest.existing(name).filter(|id| !sets_no_managed(forest, *id)) else {
            return Ok(());
        };
        let values = managed(forest, &forest.labelling(id), which);
        let wrong = changed.find_map(|key| {
            values.get(key).filter(|it| new.get(key) != Some(&*it.value)).map(|it| (key, it))
        });
        let Some((key, it)) = wrong else { return Ok(()) };
        let anchor = forest.id(&it.from).and_then(|id| forest.deciding_anchor(id));
        let object = match anchor {
            Some((holder, anchor)) => format!("anchor {:?} in namespace {holder:?}", anchor.name),
            None => format!("HierarchyConfiguration of {:?}", it.from),
        };
        Err(Denial::forbidden(format!(
            "the {what} {key} of namespace {name:?} has the value {:?} from the hierarchy and cannot be changed or removed by hand; change \
             spec.{what}s of the {object}",
            it.value
        ))
        .into())
    }
}
