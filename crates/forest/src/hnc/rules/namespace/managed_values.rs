//! Labels and annotations that the hierarchy sets: they may be restrictions, such as Pod Security labels.
//!
//! The controller restores them, but a moment later. A user who may patch a namespace must not use that moment.

use super::{Request, Review};
use crate::hnc::plan::{Labelling, managed};
use crate::hnc::rules::{Check, Denial, Pairs, hierarchy};

impl Review<'_> {
    /// A key for which the hierarchy has a value can be set to this value alone.
    pub(super) fn managed_values(&self) -> Check {
        let Request { old, new, .. } = self.request;
        let settings = self.forest.settings();
        self.stay((&old.labels, &new.labels), Labelling::Labels, |key| settings.is_managed_label(key))?;
        let is_managed = |key: &str| settings.is_managed_annotation(key);
        self.stay((&old.annotations, &new.annotations), Labelling::Annotations, is_managed)
    }

    fn stay(
        &self,
        (old, new): (&Pairs<'_>, &Pairs<'_>),
        which: Labelling,
        is_managed: impl Fn(&str) -> bool,
    ) -> Check {
        let keys = old.iter().chain(new.iter()).map(|(key, _)| key);
        let mut changed = keys.filter(|key| is_managed(key) && old.get(key) != new.get(key)).peekable();
        if changed.peek().is_none() {
            return Ok(());
        }
        hierarchy::structure_is_known(self.forest)?;
        let name = &self.request.name;
        let forest = self.forest;
        let Some(id) = forest.existing(name).filter(|id| forest.is_managed(*id) && !forest.is_external(*id))
        else {
            return Ok(());
        };
        let values = managed(forest, &forest.labelling(id), which);
        let wrong = changed.find_map(|key| {
            values.get(key).filter(|it| new.get(key) != Some(&*it.value)).map(|it| (key, it))
        });
        let Some((key, it)) = wrong else { return Ok(()) };
        let what = match which {
            Labelling::Labels => "label",
            Labelling::Annotations => "annotation",
        };
        Err(Denial::forbidden(format!(
            "the {what} {key} of namespace {name:?} has the value {:?} from the hierarchy and cannot be changed or removed by hand; change \
             spec.{what}s of the HierarchyConfiguration of {:?}, or of its anchor",
            it.value, &*it.from
        ))
        .into())
    }
}
