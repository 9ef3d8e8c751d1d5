//! `namespaces.hnc.x-k8s.io`: what may happen to a namespace (section 7.6 of HNC's contract).
//!
//! Serves requests for `namespaces`, `namespaces/status` and `namespaces/finalize` alike: labels can be written through
//! all three. Never looks at the forest: what it judges here is in the request.

use super::{Denial, Verdict};
use crate::Labels;
use crate::tree::TREE_LABEL;

/// A namespace that is to be created or changed.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its labels so far; none when it is created.
    pub old: Labels,
    /// Its labels afterwards.
    pub new: Labels,
}

/// Rule c: tree labels say who is above whom, and network policies and selectors trust them, so nobody but the controller
/// adds, changes or removes one, on any namespace.
pub fn review(request: &Request) -> Verdict {
    let Request { old, new } = request;
    let is_tree = |(key, _): &(&str, &str)| key.contains(TREE_LABEL);
    let set = new.iter().filter(is_tree).filter(|(key, value)| old.get(key) != Some(*value));
    let removed = old.iter().filter(is_tree).filter(|(key, _)| new.get(key).is_none());
    let touched: Vec<&str> = set.chain(removed).map(|(key, _)| key).collect();
    if touched.is_empty() {
        return Verdict::allow();
    }
    Denial::forbidden(format!(
        "tree labels follow the hierarchy and cannot be set, changed or removed by hand: {}; to move a namespace, set \
         spec.parent of its HierarchyConfiguration",
        touched.join(", ")
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::DenialKind;

    #[test]
    fn tree_labels_are_nobodys_to_write() {
        const A: &str = "a.tree.hnc.x-k8s.io/depth";
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: [(&str, Pairs, Pairs, Option<&str>); 9] = [
            ("created without", &[], &[("team", "red")], None),
            ("created with", &[], &[(A, "0")], Some(A)),
            ("kept", &[(A, "1")], &[(A, "1"), ("team", "red")], None),
            ("changed", &[(A, "1")], &[(A, "2")], Some(A)),
            ("removed", &[(A, "1")], &[], Some(A)),
            ("all labels gone", &[(A, "1"), ("team", "red")], &[], Some(A)),
            ("added to others", &[("team", "red")], &[(A, "1"), ("team", "red")], Some(A)),
            ("contained in a longer key", &[], &[("a.tree.hnc.x-k8s.io/depths", "0")], Some("depths")),
            ("a foreign key changes", &[("team", "red")], &[("team", "blue")], None),
        ];
        for (case, old, new, refused) in cases {
            let request = Request { old: old.iter().copied().collect(), new: new.iter().copied().collect() };
            match (review(&request), refused) {
                (Verdict::Allow { .. }, None) => {}
                (Verdict::Deny(denial), Some(named)) => {
                    assert_eq!(denial.kind, DenialKind::Forbidden, "{case}");
                    assert!(denial.message.contains(named), "{case}: {}", denial.message);
                }
                (verdict, _) => panic!("{case}: {verdict:?}"),
            }
        }
    }
}
