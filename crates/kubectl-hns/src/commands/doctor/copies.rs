//! Checks that copies are where they should be, and nowhere else.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use forest::{Name, Settings};

use super::{Finding, some};
use crate::copies::{Objects, Wrong};
use crate::lines::printable;
use crate::session::Session;
use crate::structure::Structure;

pub(super) async fn check(session: &Session, structure: Structure, settings: &Settings) -> Vec<Finding> {
    let everywhere: BTreeSet<Name> =
        structure.namespaces.keys().filter(|it| settings.is_managed(it)).cloned().collect();
    match Objects::read(session, structure).await {
        Ok(objects) => {
            let (halted, active): (BTreeSet<Name>, BTreeSet<Name>) =
                everywhere.iter().cloned().partition(|name| objects.is_halted(name));
            let mut findings = vec![copies(&objects.wrong(&everywhere), objects.copies(&active))];
            findings.extend(unchanged(objects.copies(&halted), &objects.without_source()));
            findings.extend(left_over(&objects.left_over()));
            findings.extend(objects.notes().iter().map(|note| Finding::note("copies", note)));
            findings
        }
        Err(failure) => vec![Finding::note("copies", failure.clause())],
    }
}

fn copies(wrong: &[Wrong], all: usize) -> Finding {
    if wrong.is_empty() {
        let copies = if all == 1 { "copy" } else { "copies" };
        return Finding::ok("copies", format!("{all} {copies}, all in the right namespaces"));
    }
    let line = |it: &Wrong| {
        let (object, namespace) = (format!("{} {}", it.resource, printable(&it.name)), &it.namespace);
        match (&it.source, &it.why) {
            (Some(source), _) => format!("{object} of {source} is not in {namespace}"),
            (None, None) => format!("{object} should not be in {namespace}"),
            (None, Some(why)) => format!("{object} should not be in {namespace}: {why}"),
        }
    };
    let lines: Vec<String> = wrong.iter().map(line).collect();
    Finding::wrong(
        "copies",
        format!(
            "{} {} not right: {}",
            wrong.len(),
            if wrong.len() == 1 { "is" } else { "are" },
            some(&lines)
        ),
        "The controller writes them, if it runs and may: see above.",
    )
}

/// Copies in namespaces where activities are halted, which is a finding of its own; `without_source` are those of them whose source is gone.
fn unchanged(halted: usize, without_source: &[String]) -> Option<Finding> {
    let (are, them) = match halted {
        0 => return None,
        1 => ("copy is", "it"),
        _ => ("copies are", "them"),
    };
    let mut text =
        format!("{halted} {are} in namespaces with halted activities, where nothing updates {them}");
    if without_source.is_empty() {
        return Some(Finding::note("copies", text));
    }
    let _ = write!(text, "; without a source: {}", some(without_source));
    let hint = "Repair these namespaces first; then the controller removes copies without a source. Until then, these copies stay, and \
                the rights that a RoleBinding among them gives.";
    Some(Finding { hint: Some(hint.to_owned()), ..Finding::note("copies", text) })
}

/// Copies that stay in excluded namespaces. To exclude them was a decision, so nothing is wrong.
fn left_over(copies: &[String]) -> Option<Finding> {
    let (are, subject, object) = match copies.len() {
        0 => return None,
        1 => ("copy is", "It does", "it"),
        _ => ("copies are", "They do", "them"),
    };
    let text = format!("{} {are} in excluded namespaces: {}", copies.len(), some(copies));
    let hint = format!(
        "{subject} not follow the source any more, also if it is deleted; of a RoleBinding, the rights stay. Delete {object}, or include the \
         namespace again."
    );
    Some(Finding { hint: Some(hint), ..Finding::note("copies", text) })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn wrong_copies_are_counted_and_the_first_ones_named() {
        let wrong = Wrong {
            namespace: "b".into(),
            resource: "roles.rbac.authorization.k8s.io".into(),
            name: "r".into(),
            source: Some("a".into()),
            why: None,
        };
        let surplus = Wrong { source: None, why: Some("no reason".into()), ..wrong.clone() };
        let finding = copies(&[wrong, surplus], 3);
        assert_eq!(finding.level, Level::Wrong);
        assert_eq!(
            finding.text,
            "2 are not right: roles.rbac.authorization.k8s.io r of a is not in b, roles.rbac.authorization.k8s.io r should \
             not be in b: no reason"
        );
        assert_eq!(copies(&[], 3), Finding::ok("copies", "3 copies, all in the right namespaces"));
    }

    #[test]
    fn copies_in_halted_namespaces_are_noted() {
        assert_eq!(unchanged(0, &[]), None);
        let stays = unchanged(1, &[]).unwrap();
        let (one, two) = (
            "1 copy is in namespaces with halted activities, where nothing updates it",
            "2 copies are in namespaces with halted activities, where nothing updates them; without a source: roles r in a",
        );
        assert_eq!((&*stays.text, stays.hint), (one, None));
        let found = unchanged(2, &["roles r in a".to_owned()]).unwrap();
        assert_eq!((found.level, &*found.text), (Level::Note, two));
        assert!(found.hint.unwrap().starts_with("Repair these namespaces first"));
    }

    #[test]
    fn copies_in_excluded_namespaces_are_noted() {
        assert_eq!(left_over(&[]), None);
        let names = ["roles r in a", "roles r in b"].map(str::to_owned);
        for (copies, text, hint) in [
            (&names[..1], "1 copy is in excluded namespaces: roles r in a", "It does not"),
            (&names, "2 copies are in excluded namespaces: roles r in a, roles r in b", "They do not"),
        ] {
            let finding = left_over(copies).unwrap();
            assert_eq!((finding.level, &*finding.text), (Level::Note, text));
            assert!(finding.hint.unwrap().starts_with(hint));
        }
    }
}
