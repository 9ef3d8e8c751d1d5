//! What must change in an object so that it is as the settings require. Pure: objects in, objects out.
//!
//! Objects are JSON as the API server returns it, so that a field that this version does not know survives.

use hns_api::names;
use serde_json::{Value, json};

/// What objects contain that does not follow from the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Context {
    /// The certificates to trust, as in `caBundle`. `None` if another program writes this field, or if they are not known yet.
    pub(super) bundle: Option<Value>,
    /// The reference to the object that all objects are deleted with. `None` until that object has been read.
    pub(super) owner: Option<Value>,
}

/// `found` with the required content; `None` if nothing differs.
///
/// Labels and annotations of others stay. All webhooks and the whole `spec` are ours: HNC has other webhooks in the same object, and
/// any addition could exempt requests.
pub(super) fn repaired(found: &Value, required: &Value, context: &Context) -> Option<Value> {
    let mut object = found.clone();
    if required["webhooks"].is_array() {
        let webhooks = webhooks(found, required, context.bundle.as_ref());
        // The API server leaves out an empty list.
        if entries(found) != webhooks {
            object["webhooks"] = webhooks.into();
        }
    } else {
        object["spec"] = required["spec"].clone();
    }
    for field in ["labels", "annotations"] {
        for (key, value) in required["metadata"][field].as_object().into_iter().flatten() {
            object["metadata"][field][key] = value.clone();
        }
    }
    if let Some(owner) = &context.owner {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    (object != *found).then_some(object)
}

/// The required object as it is created.
pub(super) fn complete(required: &Value, context: &Context) -> Value {
    repaired(required, required, context).unwrap_or_else(|| required.clone())
}

/// `found` with the required webhook of the awaited names, and otherwise unchanged; `None` if nothing differs.
pub(super) fn awaiting(found: &Value, required: &Value, context: &Context) -> Option<Value> {
    let is_it = |entry: &Value| entry["name"] == names::webhooks::AWAITED_NAMESPACES;
    let webhooks = webhooks(found, required, context.bundle.as_ref());
    let position = entries(required).iter().position(is_it)?;
    if entries(found).iter().find(|entry| is_it(entry)) == Some(&webhooks[position]) {
        return None;
    }
    let mut entries: Vec<Value> = entries(found).iter().filter(|entry| !is_it(entry)).cloned().collect();
    entries.insert(position.min(entries.len()), webhooks[position].clone());
    let mut object = found.clone();
    object["webhooks"] = entries.into();
    Some(object)
}

/// `found` with the required rules of the webhook for objects, and otherwise unchanged; `None` if nothing differs.
pub(super) fn judging(found: &Value, required: &Value) -> Option<Value> {
    let is_it = |entry: &Value| entry["name"] == names::webhooks::OBJECTS;
    let rules = &entries(required).iter().find(|entry| is_it(entry))?["rules"];
    let position = entries(found).iter().position(|entry| is_it(entry) && entry["rules"] != *rules)?;
    let mut object = found.clone();
    object["webhooks"][position]["rules"] = rules.clone();
    Some(object)
}

/// `found` with these certificates in each required webhook; `None` if nothing differs.
pub(super) fn trusting(found: &Value, required: &Value, bundle: &Value) -> Option<Value> {
    let mut object = found.clone();
    for entry in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        if by_name(entries(required), entry).is_some() {
            entry["clientConfig"]["caBundle"] = bundle.clone();
        }
    }
    (object != *found).then_some(object)
}

/// The `caBundle` of each required webhook in `found`.
pub(super) fn bundles<'a>(found: &'a Value, required: &'a Value) -> impl Iterator<Item = &'a Value> {
    let ours = entries(found).iter().filter(|entry| by_name(entries(required), entry).is_some());
    ours.map(|entry| &entry["clientConfig"]["caBundle"])
}

/// The part of an object that this module compares.
pub(super) fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let fields = [&object["webhooks"], &object["spec"], &metadata["ownerReferences"], &metadata["labels"]];
    json!([fields, metadata["annotations"]])
}

/// The required webhooks. If no bundle is given, each keeps the one that it has; a new webhook takes that of another one.
fn webhooks(found: &Value, required: &Value, bundle: Option<&Value>) -> Vec<Value> {
    let is_bundle = |bundle: &&Value| !bundle.is_null();
    let any = bundles(found, required).find(is_bundle);
    let with_bundle = |entry: &Value| {
        let present = by_name(entries(found), entry).map(|it| &it["clientConfig"]["caBundle"]);
        let mut entry = entry.clone();
        if let Some(bundle) = bundle.or(present.filter(is_bundle)).or(any) {
            entry["clientConfig"]["caBundle"] = bundle.clone();
        }
        entry
    };
    entries(required).iter().map(with_bundle).collect()
}

fn entries(object: &Value) -> &[Value] {
    object["webhooks"].as_array().map_or(&[], Vec::as_slice)
}

fn by_name<'a>(entries: &'a [Value], like: &Value) -> Option<&'a Value> {
    entries.iter().find(|entry| entry["name"] == like["name"])
}

#[cfg(test)]
mod tests;
