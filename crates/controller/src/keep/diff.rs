//! What of an object in the cluster is ours, and what it would take to put that right. Pure: objects in, objects out.
//!
//! Which authority has signed the webhook's certificate is ours only where the controller makes that certificate.
//!
//! Objects are JSON as the API server wrote them, so that a field which this version does not know survives.

use hns_api::names;
use serde_json::{Map, Value, json};

/// The webhooks that these settings may leave out. Found without being wanted, they are taken away; every other unknown
/// entry belongs to somebody else.
const OPTIONAL: [&str; 3] =
    [names::webhooks::INITIAL_ADMIN, names::webhooks::AWAITED_NAMESPACES, names::webhooks::LATE_NAMESPACES];

/// How a webhook configuration should be.
#[derive(Debug, PartialEq)]
pub(super) struct Repair {
    /// The whole object to write, if it differs from the one found.
    pub(super) object: Option<Value>,
    /// The entries that are missing and cannot be added, because nothing in the object says which authority signs the
    /// webhook's certificate.
    pub(super) impossible: Vec<String>,
}

/// Puts our entries right, by name; leaves who is called (`clientConfig`) and everybody else's entries alone.
///
/// An entry that is missing is called as its siblings of ours are, under its own path; without siblings at its Service, if
/// the `authority` (as in `caBundle`) of the webhook's certificate is known.
pub(super) fn webhooks(found: &Value, wanted: &Value, authority: Option<&Value>) -> Repair {
    let wanted_entries = entries(wanted);
    let mut result: Vec<Value> =
        entries(found).iter().filter(|entry| !is_surplus(entry, wanted_entries)).cloned().collect();
    let sibling = result.iter().find(|entry| by_name(wanted_entries, entry).is_some());
    let sibling = sibling.map(|entry| entry["clientConfig"].clone());
    let mut impossible = Vec::new();
    for entry in wanted_entries {
        match result.iter_mut().find(|found| found["name"] == entry["name"]) {
            Some(found) => *found = with_client_config(entry, found["clientConfig"].clone()),
            None => match (&sibling, authority) {
                (Some(sibling), _) => result.push(with_client_config(entry, like(sibling, entry))),
                (None, Some(authority)) => result.push(trusting(entry, authority)),
                (None, None) => impossible.push(entry["name"].as_str().unwrap_or_default().to_owned()),
            },
        }
    }
    let changed = entries(found) != result;
    let object = changed.then(|| with_field(found, "webhooks", Value::Array(result)));
    Repair { object, impossible }
}

/// The object with the entry of the awaited names put right and nothing else, if names are awaited and it differs.
pub(super) fn awaited(found: &Value, wanted: &Value, authority: Option<&Value>) -> Option<Value> {
    let name = json!({ "name": names::webhooks::AWAITED_NAMESPACES });
    by_name(entries(wanted), &name)?;
    let repaired = webhooks(found, wanted, authority).object?;
    let entry = by_name(entries(&repaired), &name)?;
    if by_name(entries(found), &name) == Some(entry) {
        return None;
    }
    let others = entries(found).iter().filter(|other| other["name"] != name["name"]);
    Some(with_field(found, "webhooks", others.chain([entry]).cloned().collect()))
}

/// The object with this authority in each entry that is wanted, if one has another.
pub(super) fn authority(found: &Value, wanted: &Value, authority: &Value) -> Option<Value> {
    let ours = |entry: &Value| by_name(entries(wanted), entry).is_some();
    let differs = |entry: &Value| ours(entry) && entry["clientConfig"]["caBundle"] != *authority;
    let repaired = |entry: &Value| if ours(entry) { trusting(entry, authority) } else { entry.clone() };
    let repair = || with_field(found, "webhooks", entries(found).iter().map(repaired).collect());
    entries(found).iter().any(differs).then(repair)
}

/// The authorities (as in `caBundle`) that the entries found of those wanted name.
pub(super) fn authorities<'a>(found: &'a Value, wanted: &'a Value) -> impl Iterator<Item = &'a Value> {
    let ours = entries(found).iter().filter(|entry| by_name(entries(wanted), entry).is_some());
    ours.map(|entry| &entry["clientConfig"]["caBundle"])
}

/// The object with the `spec` that is wanted, if it has another one.
pub(super) fn spec(found: &Value, wanted: &Value) -> Option<Value> {
    (found["spec"] != wanted["spec"]).then(|| with_field(found, "spec", wanted["spec"].clone()))
}

/// What of an object is compared: all but its metadata and status.
pub(super) fn content(object: &Value) -> Value {
    let field = if object["webhooks"].is_array() { "webhooks" } else { "spec" };
    object[field].clone()
}

fn entries(object: &Value) -> &[Value] {
    object["webhooks"].as_array().map_or(&[], Vec::as_slice)
}

fn by_name<'a>(entries: &'a [Value], like: &Value) -> Option<&'a Value> {
    entries.iter().find(|entry| entry["name"] == like["name"])
}

fn is_surplus(entry: &Value, wanted: &[Value]) -> bool {
    let name = entry["name"].as_str().unwrap_or_default();
    OPTIONAL.contains(&name) && by_name(wanted, entry).is_none()
}

fn trusting(entry: &Value, authority: &Value) -> Value {
    with_client_config(entry, with_field(&entry["clientConfig"], "caBundle", authority.clone()))
}

fn with_client_config(entry: &Value, client_config: Value) -> Value {
    with_field(entry, "clientConfig", client_config)
}

/// The sibling's address and authority with the path of `entry`.
fn like(sibling: &Value, entry: &Value) -> Value {
    let mut config = sibling.clone();
    let path = &entry["clientConfig"]["service"]["path"];
    if config["service"].is_object() {
        config["service"]["path"] = path.clone();
    } else if let (Some(url), Some(path)) = (config["url"].as_str(), path.as_str()) {
        // After the scheme's two slashes, the path begins with the next one.
        let host = url.find("://").map_or(0, |scheme| scheme + 3);
        let end = url[host..].find('/').map_or(url.len(), |slash| host + slash);
        config["url"] = Value::String(format!("{}{path}", &url[..end]));
    }
    config
}

fn with_field(object: &Value, field: &str, value: Value) -> Value {
    let mut object = object.as_object().cloned().unwrap_or_else(Map::new);
    object.insert(field.to_owned(), value);
    Value::Object(object)
}

#[cfg(test)]
mod tests;
