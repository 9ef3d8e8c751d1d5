//! The tree labels of namespaces: does the controller write them?

use std::time::Duration;

use forest::preview::{NamespaceChange, Preview};
use forest::{Forest, Settings};
use hns_api::labels::tree_label_namespace;
use tokio::time::sleep;

use super::{Finding, some};
use crate::session::Session;
use crate::structure::{Extent, Structure};
use crate::{published, structure};

/// Namespaces whose tree labels stay outdated: those that the controller is about to write are right a moment later.
pub(super) async fn check(session: &Session, structure: &Structure, settings: &Settings) -> Option<Finding> {
    let mut late = outdated(structure.put_into(published::forest(session, settings.clone()).await));
    if late.is_empty() {
        return None;
    }
    sleep(LABELLED).await;
    let mut structure = structure::read(session, Extent::Below(&[])).await.ok()?;
    structure::add_anchors(session, &mut structure).await.ok()?;
    let still = outdated(structure.put_into(published::forest(session, settings.clone()).await));
    late.retain(|name| still.contains(name));
    let are = || format!("those of {} are not up to date", some(&late));
    (!late.is_empty()).then(|| Finding::wrong("tree labels", are(), NOT_LABELLED))
}

/// Namespaces whose tree labels are not those that the controller writes. A halted namespace has a finding of its own.
fn outdated(forest: Forest) -> Vec<String> {
    let mut preview = Preview::new(forest);
    preview.keep(preview.forest().names().cloned().collect());
    preview.settle();
    let forest = preview.forest();
    let is_late = |it: &NamespaceChange| {
        let changes = || it.labels().iter().any(|(key, ..)| tree_label_namespace(key).is_some());
        let is_settled = || !forest.is_terminating(&it.name) && forest.halted_root(&it.name).is_none();
        it.before.is_some() && changes() && is_settled()
    };
    let outcome = preview.outcome();
    outcome.namespaces.iter().filter(|it| is_late(it)).map(|it| it.name.to_string()).collect()
}

/// How long the controller may take to write labels.
const LABELLED: Duration = Duration::from_secs(2);

/// What to do about tree labels that are to be written.
const NOT_LABELLED: &str = "The controller has not written them: its log says why, for example because a policy refused it. See also the \
                            lease above.";

#[cfg(test)]
mod tests {
    use forest::AnchorFact;

    use super::*;
    use crate::structure::tests::sketch;

    #[test]
    fn tree_labels_that_the_controller_does_not_write_are_named() {
        let labelled = |lines: &[&str], labels: &[(&str, &[(&str, &str)])]| {
            let mut structure = sketch(lines);
            for (name, depths) in labels {
                let marks =
                    depths.iter().map(|(of, depth)| (format!("{of}.tree.hnc.x-k8s.io/depth"), *depth));
                let marks: Vec<(String, &str)> = marks.collect();
                let namespace = structure.namespaces.get_mut(*name).unwrap();
                namespace.labels = marks.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            }
            structure
        };
        let (a, b) = (("a", &[("a", "0")][..]), ("b", &[("b", "0"), ("a", "1")][..]));
        let lone = ("b", &[("b", "0")][..]);
        let tree = ["a", "b < a"];
        let accurate = || forest::accurate::Settings::default();
        for (lines, labels, wanted) in [
            (&tree[..], &[a, b][..], &[][..]),
            (&tree, &[a, lone], &["b"]),
            (&tree, &[a, ("b", &[("b", "0"), ("a", "2")])], &["b"]),
            (&tree, &[a, ("b", &[("b", "0"), ("a", "1"), ("old", "2")])], &["b"]),
            (&tree, &[], &["a", "b"]),
            // What is halted has a finding of its own.
            (&["b < gone"], &[lone], &[]),
            (&["a < b", "b < a"], &[lone], &[]),
            // Of these, the settings exclude one.
            (&["a", "out"], &[a], &[]),
        ] {
            let structure = labelled(lines, labels);
            let settings = Settings::new("home", ["out"], ".*").unwrap();
            for accurate in [None, Some(accurate())] {
                let found = outdated(structure.put_into(published::empty(settings.clone(), accurate)));
                assert_eq!(found, wanted, "{lines:?} {labels:?}");
            }
        }
        let mut structure = labelled(&tree, &[a, lone]);
        structure.namespaces.get_mut("b").unwrap().terminating = true;
        assert_eq!(outdated(structure.forest()), [""; 0], "it keeps its labels");
        structure.anchors = vec![("a".into(), AnchorFact { name: "new".into(), ..AnchorFact::default() })];
        assert_eq!(
            outdated(structure.forest()),
            [""; 0],
            "a namespace that is not created yet has no labels"
        );
    }
}
