//! What to do about a fault of the hierarchy?

use forest::Name;
use hns_api::conditions::{self, activities_halted};
use hns_api::{annotations, labels};

use super::anchors::has_anchor;
use super::some;
use crate::failure::CONVERT;
use crate::structure::Structure;

/// How a member leaves a cycle. A subnamespace cannot become a root.
pub(super) fn way_out(structure: &Structure, cycle: &[Name]) -> String {
    let elsewhere = |name: &str| elsewhere(structure, name, "PARENT");
    match cycle.iter().find(|name| !structure.is_subnamespace(name)) {
        Some(name) => format!(
            "Make {name} a root (`kubectl hns set {name} --root`), or a child of a namespace outside the cycle ({}).",
            elsewhere(name)
        ),
        None => format!("Give one of them a parent outside the cycle, such as: {}.", elsewhere(&cycle[0])),
    }
}

/// The command that gives a namespace another parent.
fn elsewhere(structure: &Structure, name: &str, to: &str) -> String {
    if structure.is_subnamespace(name) {
        format!("`kubectl hns move {name} --to {to}`")
    } else {
        format!("`kubectl hns set {name} --parent {to}`")
    }
}

/// What to do about a namespace whose parent is missing. Its tree labels still say where it was.
pub(super) fn adoption(structure: &Structure, parent: &str, orphan: &str) -> String {
    let elsewhere = |to: &str| elsewhere(structure, orphan, to);
    let Some(ancestor) = former_ancestor(structure, parent, orphan) else {
        // A subnamespace cannot become a root.
        let or_root = if structure.is_subnamespace(orphan) { "" } else { ", or --root" };
        return format!(
            "Create namespace {parent}, or set another parent: {}{or_root}.",
            elsewhere("PARENT")
        );
    };
    format!(
        "{orphan} was below {ancestor}, whose copies and restrictions it keeps: {} leaves it there. If you create {parent} as a root, \
         {orphan} leaves the tree of {ancestor}, and loses these.",
        elsewhere(ancestor)
    )
}

/// The nearest ancestor in the tree labels of `orphan`, other than its missing parent, that exists or cannot be read.
pub(super) fn former_ancestor<'a>(structure: &'a Structure, parent: &str, orphan: &str) -> Option<&'a str> {
    let marks = structure.namespaces.get(orphan)?.labels.iter();
    let depth = |(key, value): (&'a str, &str)| {
        let ancestor = labels::tree_label_namespace(key)?;
        let may_exist = !structure.is_whole || structure.namespaces.contains_key(ancestor);
        let is_other = ancestor != orphan && ancestor != parent && may_exist;
        Some((value.parse::<u64>().ok().filter(|_| is_other)?, ancestor))
    };
    marks.filter_map(depth).min().map(|(_, ancestor)| ancestor)
}

/// What the controller says of conflicts.
const IN_THE_WAY: &str = "stand in the way of";

/// The advice for the first of these namespaces, as one for all of them.
pub(super) fn for_all(hint: &str, names: &[String]) -> String {
    let others = &names[1..];
    let mut words = hint.split(|it: char| it != '-' && !it.is_ascii_alphanumeric());
    if others.is_empty() || !words.any(|it| it == names[0]) {
        return hint.to_owned();
    }
    format!("{hint} The same applies to {}.", some(others))
}

/// Whether the advice names the object that sets the managed values.
pub(super) fn is_about_values(reason: &str) -> bool {
    use conditions::bad_namespace::{ILLEGAL_MANAGED_ANNOTATION, ILLEGAL_MANAGED_LABEL};
    [ILLEGAL_MANAGED_LABEL, ILLEGAL_MANAGED_ANNOTATION, "OverriddenByAncestor"].contains(&reason)
}

/// The object that sets the managed values of a namespace: those of a subnamespace follow its anchor, if it has one.
pub(super) fn holder(structure: &Structure, name: &str, knows_anchors: bool) -> String {
    match holding_parent(structure, name, knows_anchors) {
        Some(parent) => format!("the anchor {name} in {parent}"),
        None => format!("the HierarchyConfiguration of {name}"),
    }
}

/// The parent that has the anchor of a namespace. Where anchors are not known, every parent that exists is taken to have it.
pub(super) fn holding_parent<'a>(
    structure: &'a Structure,
    name: &str,
    knows_anchors: bool,
) -> Option<&'a str> {
    let annotations = structure.namespaces.get(name).map(|it| &it.annotations);
    let has_anchor = |parent: &&str| {
        if knows_anchors {
            has_anchor(structure, parent, name)
        } else {
            structure.namespaces.contains_key(*parent)
        }
    };
    annotations?.get(annotations::SUBNAMESPACE_OF).filter(has_anchor)
}

/// What to do about a condition with this reason and message in the namespace `name`; the table of conditions in docs/concepts.md says the same.
pub(super) fn remedy(
    (reason, message): (&str, &str),
    name: &str,
    (structure, knows_anchors): (&Structure, bool),
) -> String {
    use conditions::bad_namespace;
    let holder = holder(structure, name, knows_anchors);
    match reason {
        // Without the labels, it would lose its copies.
        activities_halted::ILLEGAL_PARENT if message.contains(hns_api::accurate::GROUP) => format!(
            "{CONVERT} If a conversion was interrupted, run it again. Otherwise, remove its labels accurate.cybozu.com/…, after those of the \
             namespaces that name it, or, if it has no children here, its parent here."
        ),
        activities_halted::ILLEGAL_PARENT => {
            let way = elsewhere(structure, name, "PARENT");
            // The namespace of hns is always excluded.
            if message.ends_with("; choose another parent") {
                return format!("Choose another parent: {way}.");
            }
            let annotations = structure.namespaces.get(name).map(|it| &it.annotations);
            let holder = annotations.and_then(|it| it.get(annotations::SUBNAMESPACE_OF)).filter(|it| !it.is_empty());
            let hierarchy = structure.hierarchies.get(name).and_then(|it| it.parent.as_deref());
            let is_missing = |parent| structure.is_whole && !structure.namespaces.contains_key(parent);
            if holder.or(hierarchy).is_some_and(is_missing) {
                format!("The parent does not exist. Choose another one: {way}.")
            } else {
                format!("Choose another parent: {way}; or include the excluded one in the settings.")
            }
        }
        activities_halted::IN_CYCLE | activities_halted::ANCESTOR_HALT_ACTIVITIES => {
            "Ask an admin of the namespaces that the message names: `kubectl hns doctor` tells them what to do.".to_owned()
        }
        activities_halted::DELETING_CRD => {
            "Wait until the definitions are deleted. Before you apply them again, read docs/repair.md, \"The definitions were deleted by \
             mistake\"."
                .to_owned()
        }
        "Unreadable" => format!("Correct the object that the message names: `kubectl edit hierarchyconfiguration hierarchy -n {name}`."),
        bad_namespace::SUBNAMESPACE_ANCHOR_MISSING => format!(
            "Create the anchor again, with the labels and annotations of {name}: `kubectl hns move {name} --to PARENT`, with its present \
             parent; or make it a full namespace: `kubectl hns convert {name} --to full`."
        ),
        bad_namespace::ILLEGAL_MANAGED_LABEL | bad_namespace::ILLEGAL_MANAGED_ANNOTATION => format!(
            "Remove the key from {holder}, or declare it as managed in the settings (docs/settings.md). Namespaces keep a value that was set \
             while the key was managed, until somebody removes it."
        ),
        "OverriddenByAncestor" => format!(
            "Remove the value from {holder}, or ask an administrator of the ancestor to change theirs."
        ),
        "QuotaNotInForce" => {
            "Wait. If it lasts, check that kube-controller-manager runs its resourcequota controller, or stop propagating the quota."
                .to_owned()
        }
        "CannotPropagateObject" => {
            let what = if message.contains("exceeded quota") {
                "A ResourceQuota leaves no room for the copy: raise it, or delete objects that it counts"
            } else if message.contains(IN_THE_WAY) {
                "Rename or delete one of the two objects of the same name"
            } else {
                "Solve what the message says; the controller tries again"
            };
            let (object, place) = first_object(message, name).unwrap_or_else(|| ("KIND/NAME".to_owned(), name));
            format!("{what}. `kubectl hns explain {object} -n {place}` shows the reason for one object.")
        }
        _ => format!("`kubectl hns describe {name}` shows all conditions and the recent events."),
    }
}

/// The first object that a condition of the namespace `name` is about, as KIND/NAME, and its namespace. `None` if its name cannot be
/// part of a command line.
fn first_object<'a>(message: &'a str, name: &'a str) -> Option<(String, &'a str)> {
    let (_, line) = message.split_once(": ")?;
    let (place, line) = match line.strip_prefix("in namespace \"") {
        Some(line) => line.split_once("\", ")?,
        None => (name, line),
    };
    let (resource, line) = line.split_once(" \"")?;
    let (object, _) = line.split_once("\": ")?;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || ".-_:".contains(it);
    (resource.chars().chain(object.chars()).all(is_plain)).then(|| (format!("{resource}/{object}"), place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tests::sketch;

    /// A new root of the name of the missing parent would take the namespace out of its tree.
    #[test]
    fn an_orphan_is_advised_to_stay_in_its_tree() {
        let mut structure = sketch(&["a", "b < a", "o < gone", "x < gone"]);
        structure.is_whole = true;
        let mark = |name: &str, depth: &str| (format!("{name}.tree.hnc.x-k8s.io/depth"), depth.to_owned());
        let marks = [mark("a", "3"), mark("b", "2"), mark("gone", "1"), mark("o", "0"), mark("lost", "1")];
        let labels = marks.iter().map(|(key, value)| (&**key, &**value)).collect();
        structure.namespaces.get_mut("o").unwrap().labels = labels;
        let hint = adoption(&structure, "gone", "o");
        assert!(
            hint.contains("below b") && hint.contains("`kubectl hns set o --parent b` leaves it"),
            "{hint}"
        );
        assert!(hint.contains("o leaves the tree of b, and loses"), "{hint}");
        assert_eq!(
            adoption(&structure, "gone", "x"),
            "Create namespace gone, or set another parent: `kubectl hns set x --parent PARENT`, or --root."
        );
    }

    #[test]
    fn a_namespace_in_two_hierarchies_is_converted() {
        let said = |message: &str| remedy(("IllegalParent", message), "n", (&Structure::default(), true));
        let crossed = said("Namespace is also in a hierarchy of accurate.cybozu.com, and");
        let at = |what: &str| crossed.find(what).unwrap();
        assert!(at("kubectl hns convert ROOT --to hnc") < at("remove its labels"), "{crossed}");
        assert!(
            said("The parent \"e\" is excluded").starts_with("Choose another parent: `kubectl hns set n")
        );
    }

    #[test]
    fn what_could_not_be_written_is_solved_by_its_cause() {
        let said =
            |message: &str| remedy(("CannotPropagateObject", message), "n", (&Structure::default(), true));
        assert!(said("secrets \"s\": exceeded quota: q").contains("raise it"));
        let said_of =
            |objects: &str| said(&format!("These objects stand in the way of others from above: {objects}"));
        let conflict =
            said_of("in namespace \"low\", configmaps \"c1\": x; in namespace \"n\", secrets \"s\": y");
        assert!(
            conflict.contains("Rename or delete") && conflict.contains("configmaps/c1 -n low`"),
            "{conflict}"
        );
        let failed = said("These objects could not be written or removed: jobs.batch \"j\": no");
        assert!(failed.contains("explain jobs.batch/j -n n`"), "{failed}");
        assert!(said_of("roles \"a b\": x").contains("explain KIND/NAME -n n`"));
        assert!(said("too rich").starts_with("Solve what the message says"));
    }
}
