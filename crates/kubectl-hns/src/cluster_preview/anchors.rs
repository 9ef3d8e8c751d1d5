//! Anchors that the lists lack: who may not list anchors may be allowed to get them by name.

use std::collections::BTreeSet;

use forest::Name;
use futures::future::join_all;
use hns_cluster::api::Api;
use hns_cluster::ingest;
use kube::api::DynamicObject;

use crate::session::{AT_ONCE, Session};
use crate::structure::{self, Structure, presumed_anchor};

/// Adds the anchor of `child` in `parent`, and those of namespaces from `child` on that cannot be read. If the user may not get the
/// anchor in `parent`, which is named, it is taken to exist: the API server says if it does not.
pub(crate) async fn add_unlisted(
    session: &Session,
    structure: &mut Structure,
    (parent, child): (Option<&str>, &str),
) {
    let named = parent.map(|parent| (Name::from(parent), Name::from(child)));
    let wanted: Vec<_> = unlisted(structure, named.as_ref(), child).into_iter().collect();
    for some in wanted.chunks(AT_ONCE) {
        let gets = some.iter().map(async |(parent, child)| {
            let anchors =
                Api::<DynamicObject>::namespaced_with(session.client.clone(), parent, &structure::anchors());
            session.call(anchors.get_opt(child)).await
        });
        for (pair, found) in some.iter().zip(join_all(gets).await) {
            match found {
                Ok(Some(anchor)) => structure.anchors.push(ingest::anchor(anchor)),
                Err(problem) if problem.is_forbidden() && Some(pair) == named.as_ref() => {
                    structure.anchors.push((pair.0.clone(), presumed_anchor(&pair.1)));
                }
                _ => {}
            }
        }
    }
}

/// The parents and names of the anchors that may exist although no list has them.
fn unlisted(structure: &Structure, named: Option<&(Name, Name)>, child: &str) -> BTreeSet<(Name, Name)> {
    let forest = structure.forest();
    let is_below = |name: &&Name| forest.ancestry(name).iter().any(|it| **it == *child);
    let unread = structure.hierarchies.keys().filter(|name| !structure.namespaces.contains_key(*name));
    let below = unread.filter(is_below).filter_map(|name| Some((forest.parent(name)?.clone(), name.clone())));
    let all = named.cloned().into_iter().chain(below);
    all.filter(|(parent, name)| !forest.has_anchor(parent, name)).collect()
}

#[cfg(test)]
mod tests {
    use forest::AnchorFact;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn anchors_of_namespaces_that_cannot_be_read_are_got_by_name() {
        let mut structure = sketch(&["top < out", "k1 < top", "k2 < k1", "full < k1", "out"]);
        for name in ["out", "top", "k1", "k2"] {
            structure.namespaces.remove(name);
        }
        let anchor = |parent: &str, child: &str| (Name::from(parent), Name::from(child));
        let named = anchor("top", "k1");
        for (named, wanted) in [
            (Some(&named), vec![anchor("k1", "k2"), named.clone()]),
            (None, vec![anchor("k1", "k2"), named.clone()]),
            (Some(&anchor("other", "k1")), vec![anchor("k1", "k2"), anchor("other", "k1"), named.clone()]),
        ] {
            assert_eq!(unlisted(&structure, named, "k1"), wanted.into_iter().collect());
        }
        let known = AnchorFact { name: "k1".into(), ..AnchorFact::default() };
        structure.anchors.push(("top".into(), known));
        assert_eq!(unlisted(&structure, Some(&named), "k1"), [anchor("k1", "k2")].into());
    }
}
