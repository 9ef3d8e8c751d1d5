//! Rows 1 to 6: the annotations that say where a source propagates.
//!
//! Values that do not change are not judged, except in row 1, and not even there while the object is being deleted: its last
//! finalizer must be removable even if the annotations are invalid.

use super::{Review, State};
use crate::hnc::exceptions::{EXCEPTIONS, Exceptions, is_reserved};
use crate::hnc::rules::{Check, Denial, DenialKind};

impl Review<'_> {
    pub(super) fn annotations(&self, new: &State<'_>) -> Check {
        if !new.terminating {
            only_known_keys(new)?;
        }
        let old = |key| self.request.old.as_ref().map_or("", |old| old.annotation(key));
        let changed: Vec<&str> =
            EXCEPTIONS.into_iter().filter(|key| old(key) != new.annotation(key)).collect();
        for key in &changed {
            makes_sense(key, new.annotation(key))?;
        }
        if changed.is_empty() { Ok(()) } else { only_one(new) }
    }
}

/// Row 1: a user who writes such a key means an exception, and would not notice that it has no effect.
fn only_known_keys(new: &State<'_>) -> Check {
    let keys = new.annotations.iter().map(|(key, _)| key);
    let unknown = keys.into_iter().find(|key| is_reserved(key) && !EXCEPTIONS.contains(key));
    match unknown {
        None => Ok(()),
        Some(key) => Err(bad_request(format!(
            "the annotation {key} means nothing; remove it, or use one of {}",
            EXCEPTIONS.join(", ")
        ))),
    }
}

/// Rows 2 to 5.
fn makes_sense(key: &str, value: &str) -> Check {
    match Exceptions::parse(|asked| (asked == key).then_some(value)) {
        Ok(_) => Ok(()),
        Err(unparsable) => Err(bad_request(format!("{unparsable}; correct or remove it"))),
    }
}

/// Row 6.
fn only_one(new: &State<'_>) -> Check {
    let present: Vec<&str> = EXCEPTIONS.into_iter().filter(|key| !new.annotation(key).is_empty()).collect();
    if present.len() <= 1 {
        return Ok(());
    }
    Err(bad_request(format!(
        "an object can have one of the annotations that say where it goes, and this one would have {}; remove all but one",
        present.join(", ")
    )))
}

fn bad_request(message: String) -> crate::hnc::rules::Verdict {
    Denial::new(DenialKind::BadRequest, message).into()
}
