//! The anchors in a file of `create -f`, or what is wrong with it.

use std::borrow::Cow;
use std::path::Path;

use hns_api::{API_VERSION, SubnamespaceAnchor};
use hns_cluster::error_text::not_yaml;
use serde_json::Value;

use crate::Failure;

/// The text of the file, or of standard input for `-`.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::new(format!("Error: {} cannot be read: {error}", shown(path))))
}

fn shown(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() }
}

/// The anchors in a file; those without a namespace are in the `default` one. As with kubectl, others must be in the namespace that
/// was `named` with -n, if one was.
pub(super) fn anchors(
    text: &str,
    path: &Path,
    (named, default): (Option<&str>, &str),
) -> Result<Vec<SubnamespaceAnchor>, Failure> {
    let path = shown(path);
    let invalid = |why: &dyn std::fmt::Display| Failure::new(format!("Error: {path} is invalid: {why}"));
    // As with kubectl, JSON documents need nothing between them.
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let documents =
        json.or_else(|_| serde_saphyr::from_multiple(text).map_err(|error| invalid(&not_yaml(&error))))?;
    let read = |(place, object): (String, Value)| anchor(&place, &object, (named, default));
    let anchors: Result<Vec<_>, String> = objects(documents).into_iter().map(read).collect();
    let anchors = anchors.map_err(|why| invalid(&why))?;
    if anchors.is_empty() {
        return Err(Failure::new(format!("Error: no SubnamespaceAnchor was given: {path} has none")));
    }
    Ok(anchors)
}

/// The documents that are not empty, each with its place in the file. Instead of a list, as `kubectl get -o yaml` writes it, its items.
fn objects(documents: Vec<Value>) -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    for (at, mut document) in documents.into_iter().enumerate() {
        let place = format!("document {}", at + 1);
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match document.get_mut("items") {
            Some(Value::Array(items)) if is_list => {
                let items = std::mem::take(items).into_iter().enumerate();
                objects.extend(items.map(|(at, item)| (format!("item {} of {place}", at + 1), item)));
            }
            _ => objects.push((place, document)),
        }
    }
    objects.retain(|(_, object)| !object.is_null());
    objects
}

/// The anchor at this place of the file, or what is wrong with it.
fn anchor(
    place: &str,
    object: &Value,
    (named, default): (Option<&str>, &str),
) -> Result<SubnamespaceAnchor, String> {
    let (version, kind, name) = (&object["apiVersion"], &object["kind"], &object["metadata"]["name"]);
    if (version, kind) != (&Value::from(API_VERSION), &Value::from("SubnamespaceAnchor")) {
        let fields = [("apiVersion", version), ("kind", kind), ("name", name)];
        let shown = fields.map(|(field, value)| match value {
            Value::Null => format!("no {field}"),
            value => format!("{field} {value}"),
        });
        return Err(format!(
            "{place} ({}) must have apiVersion {API_VERSION:?} and kind \"SubnamespaceAnchor\"; correct it, or remove it from the file",
            shown.join(", ")
        ));
    }
    if name.is_null() {
        return Err(format!("{place} (SubnamespaceAnchor) has no name"));
    }
    let place = format!("{place} (SubnamespaceAnchor {name})");
    let mut anchor: SubnamespaceAnchor = serde_path_to_error::deserialize(object)
        .map_err(|error| format!("{place}: {}: {}", error.path(), error.inner()))?;
    let known = serde_json::to_value(&anchor).unwrap_or_default();
    if let Some(field) = unknown(object, &known) {
        return Err(format!("{place}: unknown field {field}"));
    }
    // `kubectl get -o yaml` writes both: the API server creates no object with a resourceVersion, and the status is the controller's.
    (anchor.metadata.resource_version, anchor.status) = (None, None);
    let namespace = anchor.metadata.namespace.get_or_insert_with(|| default.to_owned());
    match named.filter(|named| named != namespace) {
        Some(named) => {
            Err(format!("{place} is in namespace {namespace:?}, and -n names {named:?}; nothing was changed"))
        }
        None => Ok(anchor),
    }
}

/// The path of a field that is lost in `known`, which has only the fields of the type.
fn unknown(document: &Value, known: &Value) -> Option<String> {
    let join = |step: String, rest: String| {
        let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        format!("{step}{dot}{rest}")
    };
    match (document, known) {
        (Value::Object(fields), _) => {
            fields.iter().filter(|(_, value)| !value.is_null()).find_map(|(key, value)| {
                let rest = known.get(key).map_or_else(|| Some(String::new()), |known| unknown(value, known));
                Some(join(key.clone(), rest?))
            })
        }
        (Value::Array(all), Value::Array(known)) => {
            let mut pairs = all.iter().zip(known).enumerate();
            pairs.find_map(|(at, (one, known))| Some(join(format!("[{at}]"), unknown(one, known)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_found() {
        let known = json!({ "spec": { "labels": [{ "key": "a" }] } });
        for (document, path) in [
            (json!({ "spec": { "labels": [{ "key": "a" }] }, "status": null }), None),
            (json!({ "spec": { "lables": [] } }), Some("spec.lables")),
            (json!({ "spec": { "labels": [{ "key": "a", "vlaue": 1 }] } }), Some("spec.labels[0].vlaue")),
            (json!({ "sepc": {} }), Some("sepc")),
        ] {
            assert_eq!(unknown(&document, &known).as_deref(), path, "{document}");
        }
    }

    #[test]
    fn files_are_named_and_must_fit_the_namespace() {
        let anchor = "apiVersion: hnc.x-k8s.io/v1alpha2\nkind: SubnamespaceAnchor\nmetadata: { name: x, namespace: a }\n";
        let read = |text: &str, named| anchors(text, Path::new("f.yaml"), (named, "d"));
        assert_eq!(read(anchor, None).unwrap()[0].metadata.namespace.as_deref(), Some("a"));
        assert_eq!(read(anchor, Some("a")).unwrap().len(), 1);
        let other = read(anchor, Some("b")).unwrap_err().text;
        assert!(
            other.contains("document 1 (SubnamespaceAnchor \"x\") is in namespace \"a\", and -n names \"b\""),
            "{other}"
        );
        let without = anchor.replace(", namespace: a", "");
        assert_eq!(read(&without, Some("d")).unwrap()[0].metadata.namespace.as_deref(), Some("d"));
        assert_eq!(
            anchors("", Path::new("-"), (None, "d")).unwrap_err().text,
            "Error: no SubnamespaceAnchor was given: standard input has none"
        );
        for wrong in ["a: [", "{ a: 'x\nb: ]"] {
            let text = read(wrong, None).unwrap_err().text;
            assert!(text.starts_with("Error: f.yaml is invalid: not YAML: "), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_anchor_is_named_with_its_place() {
        let head = format!("apiVersion: {API_VERSION}\nkind: SubnamespaceAnchor\nmetadata: {{ name: x }}\n");
        let must =
            "must have apiVersion \"hnc.x-k8s.io/v1alpha2\" and kind \"SubnamespaceAnchor\"; correct it,";
        let older = "(apiVersion \"hnc.x-k8s.io/v1alpha1\", kind \"SubnamespaceAnchor\", name \"x\")";
        for (text, why) in [
            (
                format!("{head}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: c }}\n"),
                format!("document 2 (apiVersion \"v1\", kind \"ConfigMap\", name \"c\") {must}"),
            ),
            (head.replace("v1alpha2", "v1alpha1"), format!("document 1 {older} {must}")),
            (
                "kind: SubnamespaceAnchor".to_owned(),
                format!("document 1 (no apiVersion, kind \"SubnamespaceAnchor\", no name) {must}"),
            ),
            ("text".to_owned(), format!("document 1 (no apiVersion, no kind, no name) {must}")),
            (head.replace("name: x", ""), "document 1 (SubnamespaceAnchor) has no name".to_owned()),
            (
                format!("{head}spec: {{ labels: [{{ key: a, value: 1 }}] }}"),
                "document 1 (SubnamespaceAnchor \"x\"): spec.labels[0].value: invalid type: integer `1`"
                    .to_owned(),
            ),
            (
                head.replace("name: x", "name: 1"),
                "document 1 (SubnamespaceAnchor 1): metadata.name: invalid type: integer `1`".to_owned(),
            ),
        ] {
            let found = anchors(&text, Path::new("f.yaml"), (None, "d")).unwrap_err().text;
            assert!(found.starts_with(&format!("Error: f.yaml is invalid: {why}")), "{found}");
        }
    }

    #[test]
    fn the_items_of_a_list_are_taken() {
        let item = |name: &str| {
            json!({
                "apiVersion": API_VERSION, "kind": "SubnamespaceAnchor",
                "metadata": { "name": name, "namespace": "a", "resourceVersion": "7", "uid": "u" },
                "spec": {}, "status": { "status": "Ok" },
            })
        };
        let list = |items: &[Value]| json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let read = |list: Value| anchors(&list.to_string(), Path::new("f"), (None, "d"));
        let taken = read(list(&[item("x"), item("y")])).unwrap();
        let names: Vec<_> = taken.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
        assert_eq!(names, ["x", "y"]);
        assert_eq!((&taken[0].metadata.resource_version, &taken[0].status), (&None, &None));
        let other = read(list(&[item("x"), json!({ "kind": "Secret" })])).unwrap_err().text;
        assert!(
            other.contains("item 2 of document 1 (no apiVersion, kind \"Secret\", no name) must"),
            "{other}"
        );
        let two = format!("{}\n{}", item("x"), item("y"));
        assert_eq!(anchors(&two, Path::new("f"), (None, "d")).unwrap().len(), 2);
        let none = read(list(&[])).unwrap_err().text;
        assert!(none.starts_with("Error: no SubnamespaceAnchor was given"), "{none}");
    }
}
