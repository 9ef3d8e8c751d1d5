//! Expressions about namespaces of Accurate's hierarchy. Only namespaces that are managed by hns are in one.

use hns_api::accurate::labels::{PARENT, TEMPLATE, TYPE, TYPE_ROOT, TYPE_TEMPLATE};

use super::super::RegistrationSettings;
use super::super::cel::{all_of, any_of, list, literal};
use super::{NEW_NAME, managed};

/// The labels that say where a namespace is.
const PLACE: [&str; 3] = [TYPE, PARENT, TEMPLATE];

/// Whether a label that says where a namespace is changes. A namespace that is being deleted may lose such labels: its upstream
/// namespace may be gone already. The loop is over three keys, not over the labels.
pub(in super::super) fn place_differs(settings: &RegistrationSettings) -> String {
    let differs = "object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k]";
    let is_judged =
        "(object.metadata.?labels[?k].hasValue() || !oldObject.?metadata.?deletionTimestamp.hasValue())";
    let keys = list(&PLACE);
    let changes = format!("{keys}.exists(k, {differs} &&\n{is_judged})");
    format!("({})", all_of(&[managed(settings, NEW_NAME), changes]))
}

/// The same for a managed namespace that is being created.
pub(in super::super) fn new_has_place() -> String {
    format!("{}.exists(k, object.metadata.?labels[?k].hasValue())", list(&PLACE))
}

/// Whether the old object, a namespace, can be the parent or the template of others. Which ones name it, only the webhook knows.
pub(in super::super) fn old_can_be_upstream(settings: &RegistrationSettings) -> String {
    let value = |key: &str| format!("oldObject.metadata.?labels[?{}].orValue('')", literal(key));
    let leads = any_of(&[
        format!("{} in {}", value(TYPE), list(&[TYPE_ROOT, TYPE_TEMPLATE])),
        format!("{} != ''", value(PARENT)),
    ]);
    format!("({})", all_of(&[managed(settings, "oldObject.metadata.name"), format!("({leads})")]))
}
