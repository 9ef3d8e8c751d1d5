//! What is said when a subnamespace is not deleted, and what to do instead.

use forest::Settings;
use forest::core::name::PERMANENT;
use hns_api::accurate::labels::{PARENT, TYPE, TYPE_ROOT, TYPE_TEMPLATE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::consequences::{by_itself, excluded};
use crate::Failure;
use crate::failure::Problem;
use crate::installation::without_definitions;
use crate::structure::subnamespace_of;

pub(super) fn held(child: &str) -> String {
    format!(
        "The deletion goes on when nothing holds the namespace any more: `kubectl hns describe {child}` shows what it waits for."
    )
}

/// Whether the deletion was refused because of namespaces below.
pub(super) fn is_about_children(problem: &Problem) -> bool {
    problem.code() == 403 && names_permission(&problem.to_string())
}

/// Whether the reason of a refusal is that there are namespaces below.
pub(in crate::commands) fn names_permission(reason: &str) -> bool {
    reason.contains("allowCascadingDeletion")
}

/// How to delete a namespace whose deletion is refused for this reason, which names the permission.
pub(in crate::commands) fn despite_children(name: &str, reason: &str) -> String {
    // Of a subnamespace, the anchor is deleted.
    if !reason.contains(" has subnamespaces, which ") {
        return with_children(name);
    }
    format!(
        "To delete the subnamespaces below as well: `kubectl hns set {name} -a`, then `kubectl delete namespace {name}`; full namespaces \
         below stay with all below them, and lose their parent. The first command needs the right to update hierarchyconfigurations in {name}."
    )
}

/// How to delete a subnamespace with children.
pub(super) fn with_children(name: &str) -> String {
    format!(
        "With -a (--allowCascadingDeletion) the subnamespaces below are deleted as well; a full namespace below stays with all below \
         it, and loses its parent. This needs the right to update hierarchyconfigurations in {name}. Without it, first delete each of these \
         subnamespaces, and give each full namespace another parent: `kubectl hns set NAME --parent PARENT`."
    )
}

/// What else is said if cascading deletion cannot be allowed at present.
pub(in crate::commands) fn not_at_present(refusal: &str) -> String {
    let why = refusal.split_once(" is forbidden: ").map_or(refusal, |(_, why)| why);
    format!("At present, cascading deletion cannot be allowed: {why}.")
}

pub(super) fn allowed_above(child: &str, ancestor: &str) -> String {
    format!("Cascading deletion for '{child}' is already allowed by {ancestor}, which is above it; unchanged")
}

/// What became of a deletion before which cascading deletion could not be allowed; `is_accepted` means that the API server accepts it as it
/// is: there is nothing below, or an ancestor that the user may not read allows it.
pub(super) fn nothing_deleted(is_accepted: bool) -> &'static str {
    if is_accepted {
        "Nothing was deleted. Leave out -a: the API server accepts the deletion without it."
    } else {
        "Nothing was deleted."
    }
}

/// The failure with what became of the permission that was given first.
pub(super) fn with_state(failure: Failure, child: &str, undone: bool) -> Failure {
    let state = if undone {
        format!("Cascading deletion on '{child}' is forbidden again.")
    } else {
        format!(
            "Cascading deletion on '{child}' stays allowed; `kubectl hns set {child} -f` forbids it again."
        )
    };
    failure.and_hint(&state)
}

/// The failure if the anchor is being deleted, but not its namespace: the definition of anchors is being deleted.
pub(super) fn without_namespace(child: &str, parent: &str) -> Failure {
    without_definitions(format_args!(
        "only the subnamespace anchor {child} in {parent} is being deleted; the namespace {child} stays"
    ))
}

/// HNC's message, without a blank line.
pub(super) fn could_not(child: &str, problem: &Problem) -> Failure {
    let failure = Failure::new(format!("Could not delete subnamespace anchor.\nReason: {problem}"));
    match problem.hint() {
        Some(hint) => failure.with_hint(hint),
        None if is_about_children(problem) => failure.with_hint(with_children(child)),
        None => failure,
    }
}

/// How to delete a sub-namespace of Accurate's API that has a `SubNamespace`: as long as that exists, hns creates the namespace again. Where
/// the settings exclude the namespace or its parent, it does not delete the namespace either.
pub(in crate::commands) fn of_accurate((parent, child): (&str, &str), settings: &Settings) -> String {
    let is = format!("{child} is a sub-namespace of {parent} in Accurate's hierarchy");
    let command = format!("`kubectl accurate sub delete {child}`");
    let excluded = [child, parent].into_iter().find_map(|it| Some((it, settings.unmanaged(it)?)));
    match excluded {
        Some((excluded, why)) => format!(
            "{is}, and {excluded} {why}: {command} deletes only the SubNamespace; the namespace stays. If only the namespace is deleted, hns creates it again when {excluded} is included again."
        ),
        None => format!(
            "{is}: `kubectl accurate plan sub delete {child}` shows whether it can be deleted, and what goes with it; {command} deletes it. If only the namespace is deleted, hns creates it again, with its copies but without its own \
             objects."
        ),
    }
}

pub(in crate::commands) fn of_another(child: &str, holder: &str) -> String {
    format!("{child} is a subnamespace of {holder}: use -n {holder}.")
}

/// How to delete a subnamespace whose parent does not exist.
pub(super) fn without_parent(parent: &str, child: &str) -> String {
    format!(
        "{child} is a subnamespace of {parent}, which does not exist, so it has no anchor: `kubectl delete namespace {child}` deletes it."
    )
}

/// Whether the namespace is a subnamespace of `parent` that is being deleted.
pub(super) fn is_going(parent: &str, metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && subnamespace_of(metadata) == Some(parent)
}

/// The parent in Accurate's hierarchy, if it is in no other one.
pub(super) fn above_in_accurate(metadata: &ObjectMeta) -> Option<&str> {
    let above = metadata.labels.as_ref()?.get(PARENT).filter(|it| !it.is_empty())?;
    subnamespace_of(metadata).is_none().then_some(above)
}

/// What the namespace is if it is at the top of a tree in Accurate's hierarchy, and in no other one.
pub(super) fn top_in_accurate(child: &str, metadata: &ObjectMeta, settings: &Settings) -> Option<String> {
    let kind = metadata.labels.as_ref()?.get(TYPE)?;
    let is_top = [TYPE_ROOT, TYPE_TEMPLATE].contains(&&**kind)
        && settings.is_managed(child)
        && subnamespace_of(metadata).is_none();
    is_top.then(|| format!("{child} is a {kind} in Accurate's hierarchy"))
}

/// Where the child is instead, if the parent has no anchor for it; `found` is its namespace, if it exists. Nothing acts on the labels of
/// Accurate's API if that is not enabled.
pub(super) fn elsewhere(
    (parent, child): (&str, &str),
    found: Option<&ObjectMeta>,
    (settings, is_accurate_enabled): (&Settings, bool),
) -> String {
    let Some(metadata) = found else {
        return format!(
            "There is no namespace {child}. `kubectl get subns -n {parent}` shows the subnamespaces of {parent}."
        );
    };
    match subnamespace_of(metadata) {
        Some(holder) if holder == parent => match excluded((parent, child), settings) {
            Some(why) => format!("{why}; {}.", by_itself(child)),
            None => format!(
                "{child} is a subnamespace of {parent} without an anchor; `kubectl hns doctor` says what to do."
            ),
        },
        Some(holder) => of_another(child, holder),
        None if is_accurate_enabled && let Some(above) = above_in_accurate(metadata) => {
            of_accurate((above, child), settings)
        }
        None => {
            let is = format!(
                "{child} is not a subnamespace of {parent}, but a full namespace; see `kubectl hns describe {child}`."
            );
            let how = "Only `kubectl delete namespace` deletes it, with all its objects.";
            // Only a namespace of tenants may be deleted.
            let may_go = settings.is_managed(child) && !PERMANENT.contains(&child);
            if may_go { format!("{is} {how}") } else { is }
        }
    }
}

#[cfg(test)]
mod tests {
    use hns_api::annotations;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::installation::DEFINITIONS_GO;

    #[test]
    fn why_cascading_deletion_cannot_be_allowed_is_said_without_the_api_servers_words() {
        let refusal = "admission webhook \"w\" denied the request: hierarchyconfigurations.hnc.x-k8s.io \"hierarchy\" is forbidden: no: y is forbidden: x";
        let said = "At present, cascading deletion cannot be allowed: no: y is forbidden: x.";
        assert_eq!(not_at_present(refusal), said);
        assert_eq!(not_at_present("no"), "At present, cascading deletion cannot be allowed: no.");
    }

    #[test]
    fn where_the_child_is_instead_is_said() {
        let of = |parent: Option<&str>| ObjectMeta {
            annotations: parent.map(|it| [(annotations::SUBNAMESPACE_OF.to_owned(), it.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let below_accurate = ObjectMeta {
            labels: Some([(PARENT.to_owned(), "shop".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let settings = Settings::new("home", ["kube-system", "out"], ".*").unwrap();
        for (found, is_accurate_enabled, said) in [
            (None, true, "no namespace child. `kubectl get subns -n p`"),
            (Some(of(None)), true, "a full namespace; see `kubectl hns describe child`"),
            (Some(of(Some("other"))), true, "use -n other"),
            (Some(of(Some("p"))), true, "without an anchor"),
            (Some(below_accurate.clone()), true, "`kubectl accurate sub delete child` deletes it"),
            (Some(below_accurate), false, "a full namespace; see `kubectl hns describe child`"),
        ] {
            let hint = elsewhere(("p", "child"), found.as_ref(), (&settings, is_accurate_enabled));
            assert!(hint.contains(said), "{hint}");
        }
        for (child, may_go) in [("child", true), ("kube-system", false), ("default", false)] {
            let hint = elsewhere(("p", child), Some(&of(None)), (&settings, true));
            assert_eq!(hint.contains("`kubectl delete namespace`"), may_go, "{hint}");
        }
        let excluded = "out is excluded by excludedNamespaces in the settings of hns, so the namespace";
        for (parent, child) in [("p", "out"), ("out", "child")] {
            let hint = elsewhere((parent, child), Some(&of(Some(parent))), (&settings, true));
            let wanted = format!(
                "{excluded} {child} stays; to delete it: `kubectl delete namespace {child}`, after the subnamespaces below it, if there are any."
            );
            assert_eq!(hint, wanted);
        }
    }

    #[test]
    fn a_namespace_that_stays_without_its_sub_namespace_is_said_to_stay() {
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        let (form, excluded) = ("`kubectl accurate sub delete", "is excluded by excludedNamespaces");
        let when_included = "hns creates it again when out is included again.";
        for (place, wanted) in [
            (("p", "n"), [format!("; {form} n` deletes it."), "hns creates it again, with".into()]),
            (("out", "n"), [format!("and out {excluded}"), when_included.into()]),
            (("p", "out"), [format!("and out {excluded}"), when_included.into()]),
        ] {
            let text = of_accurate(place, &settings);
            assert!(wanted.iter().all(|it| text.contains(it)), "{text}");
            let only = format!("{form} {}` deletes only the SubNamespace; the namespace stays. If", place.1);
            assert_eq!(text.contains(&only), place != ("p", "n"), "{text}");
        }
    }

    #[test]
    fn a_subnamespace_is_in_no_hierarchy_of_accurate() {
        let labels = Some([(PARENT.to_owned(), "shop".to_owned())].into());
        let annotations = Some([(annotations::SUBNAMESPACE_OF.to_owned(), "p".to_owned())].into());
        let only_accurate = ObjectMeta { labels: labels.clone(), ..ObjectMeta::default() };
        let empty =
            ObjectMeta { labels: Some([(PARENT.to_owned(), String::new())].into()), ..ObjectMeta::default() };
        let both = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
        for (metadata, wanted) in
            [(only_accurate, Some("shop")), (empty, None), (both, None), (ObjectMeta::default(), None)]
        {
            assert_eq!(above_in_accurate(&metadata), wanted);
        }
    }

    #[test]
    fn a_root_and_a_template_are_at_the_top() {
        let settings = Settings::new("home", ["out"], ".*").unwrap();
        for (name, kind, of, wanted) in [
            ("n", "root", None, Some("n is a root in Accurate's hierarchy")),
            ("n", "template", None, Some("n is a template in Accurate's hierarchy")),
            ("n", "other", None, None),
            ("out", "root", None, None),
            ("n", "root", Some("p"), None),
        ] {
            let of: Option<&str> = of;
            let metadata = ObjectMeta {
                labels: Some([(TYPE.to_owned(), kind.to_owned())].into()),
                annotations: of.map(|it| [(annotations::SUBNAMESPACE_OF.to_owned(), it.to_owned())].into()),
                ..ObjectMeta::default()
            };
            assert_eq!(
                top_in_accurate(name, &metadata, &settings).as_deref(),
                wanted,
                "{name} {kind} {of:?}"
            );
        }
    }

    #[test]
    fn the_deletion_of_a_subnamespace_goes_on_without_its_anchor() {
        for (of, is_terminating, wanted) in [
            (Some("p"), true, true),
            (Some("p"), false, false),
            (Some("other"), true, false),
            (Some(""), true, false),
            (None, true, false),
        ] {
            let metadata = ObjectMeta {
                annotations: of.map(|it| [(annotations::SUBNAMESPACE_OF.to_owned(), it.to_owned())].into()),
                deletion_timestamp: is_terminating.then_some(Time(Timestamp::UNIX_EPOCH)),
                ..ObjectMeta::default()
            };
            assert_eq!(is_going("p", &metadata), wanted, "{of:?} {is_terminating}");
        }
    }

    #[test]
    fn the_namespace_stays_where_the_definition_goes() {
        let failure = without_namespace("s", "c");
        let text = "Error: only the subnamespace anchor s in c is being deleted; the namespace s stays";
        assert_eq!((&*failure.text, failure.hint.as_deref()), (text, Some(DEFINITIONS_GO)));
    }

    #[test]
    fn each_form_is_deleted_in_its_own_way() {
        for (reason, hint) in [
            (
                "the subnamespace \"x\" has children; set spec.allowCascadingDeletion",
                "With -a (--allowCascadingDeletion) ",
            ),
            (
                "namespace \"x\" has subnamespaces, which would be deleted with it: y; set spec.allowCascadingDeletion",
                "To delete the subnamespaces below as well: `kubectl hns set x -a`, then `kubectl delete namespace x`; ",
            ),
        ] {
            assert!(names_permission(reason) && despite_children("x", reason).starts_with(hint), "{reason}");
        }
    }

    #[test]
    fn a_failure_says_what_became_of_the_permission() {
        let failed = || Failure::new("no").with_hint("try again");
        assert_eq!(
            with_state(failed(), "x", false).hint.unwrap(),
            "try again\nCascading deletion on 'x' stays allowed; `kubectl hns set x -f` forbids it again."
        );
        assert_eq!(
            with_state(Failure::new("no"), "x", true).hint.unwrap(),
            "Cascading deletion on 'x' is forbidden again."
        );
    }
}
