//! What is to be said of sources to those who keep them: events, in the end. Never about copies.

use super::{Complaint, ComplaintReason};
use crate::exclusion::{FINALIZERS, NAME_TOO_LONG};
use crate::object::Source;
use crate::text::{MESSAGE, limited};
use crate::tree::Id;
use crate::{Forest, ObjectKey, ObjectScope};

/// What is wrong with the sources in this namespace that are in `scope`. A source that does not go anywhere because its
/// keeper said so is as it should be.
pub(super) fn of_sources(forest: &Forest, id: Id, scope: &ObjectScope) -> Vec<Complaint> {
    if *scope == ObjectScope::None || !forest.tree.node(id).managed {
        return Vec::new();
    }
    let sources = forest.objects.within(id).filter_map(|(key, object)| Some((key, object.source()?)));
    let propagated = sources.filter(|(key, source)| {
        let mode = forest.kind_settings(key.kind).map(|settings| settings.mode);
        scope.includes(key) && !source.terminating && mode.is_some_and(crate::Mode::propagates)
    });
    propagated.filter_map(|(key, source)| complaint(key, source)).collect()
}

fn complaint(key: &ObjectKey, source: &Source) -> Option<Complaint> {
    let (reason, message) = if let Some(Err(unparsable)) = source.exceptions.as_deref() {
        (ComplaintReason::CannotParseSelector, format!("Not propagated: {unparsable}."))
    } else if let Some(why @ (FINALIZERS | NAME_TOO_LONG)) = source.excluded.as_deref() {
        (ComplaintReason::CannotPropagateObject, format!("Not propagated: {why}."))
    } else {
        return None;
    };
    let message = limited(&message, MESSAGE).into();
    Some(Complaint { key: key.clone(), version: source.version.get(), reason, message })
}
