//! Objects that another object has created, and whose owner asks for their propagation (section 8.4 of Accurate's contract).
//! Deprecated, and off by default.

use std::collections::BTreeMap;

use super::keys;
use crate::core::kind::Kind;

type Pairs = BTreeMap<String, String>;

/// Whether an owner may ask for the propagation of objects of this kind. A user who may not grant a role may still write the owner
/// references of an existing binding, and so must not have it copied.
pub fn is_asked_for(kind: &Kind) -> bool {
    !kind.is_rbac()
}

/// Whether the owner of an object still has to decide about its propagation. An owner does not decide about a copy.
pub fn is_undecided(annotations: &Pairs) -> bool {
    let has = |key: &str| annotations.get(key).is_some_and(|value| !value.is_empty());
    let is_denied = annotations.get(keys::GENERATED).is_some_and(|value| value == keys::GENERATED_FALSE);
    !has(keys::PROPAGATE) && !has(keys::FROM) && !is_denied
}

/// The annotation that the object gets, by the annotations of its owner.
pub fn decision(owner: &Pairs) -> (&'static str, &'static str) {
    match owner.get(keys::PROPAGATE_GENERATED).map(String::as_str) {
        Some("create") => (keys::PROPAGATE, "create"),
        Some("update") => (keys::PROPAGATE, "update"),
        _ => (keys::GENERATED, keys::GENERATED_FALSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn no_owner_asks_for_rights_to_be_copied() {
        let secret = Kind {
            group: String::new(),
            version: "v1".into(),
            kind: "Secret".into(),
            resource: "secrets".into(),
        };
        assert_eq!(
            [Kind::role(), Kind::role_binding(), secret].map(|kind| is_asked_for(&kind)),
            [false, false, true]
        );
    }

    #[test]
    fn an_owner_decides_once_about_what_is_no_copy() {
        for (annotations, undecided) in [
            (&[][..], true),
            (&[("a", "b"), (keys::PROPAGATE, ""), (keys::GENERATED, "true")], true),
            (&[(keys::PROPAGATE, "create")], false),
            (&[(keys::PROPAGATE, "unknown")], false),
            (&[(keys::FROM, "root")], false),
            (&[(keys::GENERATED, "false")], false),
        ] {
            assert_eq!(is_undecided(&pairs(annotations)), undecided, "{annotations:?}");
        }
        for (owner, wanted) in [
            (&[(keys::PROPAGATE_GENERATED, "create")][..], (keys::PROPAGATE, "create")),
            (&[(keys::PROPAGATE_GENERATED, "update")], (keys::PROPAGATE, "update")),
            (&[(keys::PROPAGATE_GENERATED, "")], (keys::GENERATED, "false")),
            // It speaks of the owner itself.
            (&[(keys::PROPAGATE, "update")], (keys::GENERATED, "false")),
        ] {
            assert_eq!(decision(&pairs(owner)), wanted, "{owner:?}");
            assert!(!is_undecided(&pairs(&[wanted])), "it is decided then");
        }
    }
}
