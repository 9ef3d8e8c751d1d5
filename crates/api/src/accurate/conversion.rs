//! The conversion of `SubNamespaces` between versions (section 4 of Accurate's contract), and the answer to the API server's
//! request for it. Pure: it reads and returns JSON, so that metadata stays as it is.
//!
//! Versions v2 and v2alpha1 have the same fields. The status of v1 is a word; what it cannot express is in two annotations. An
//! absent status, an empty one and one with zero values only mean the same, and all become absent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::annotations::{CONDITIONS, OBSERVED_GENERATION};
use super::conditions::{STALLED, V1_CONFLICT, V1_OK};
use super::{SubNamespaceStatus, Version};
use crate::conditions::STATUS_TRUE;

/// Why an object cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unconvertible {
    /// It is no `SubNamespace` of a known version.
    #[error("apiVersion {api_version:?}, kind {kind:?}: not a SubNamespace of a known version")]
    Unknown {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// An annotation of v1 is not what the conversion to v1 writes.
    #[error("annotation {key}: {reason}; correct or remove it")]
    Annotation {
        /// The key of the annotation.
        key: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// A field does not fit the schema.
    #[error("{field}: {reason}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// The answer to a body that the API server has sent. Every object is converted, or none: the first that cannot be converted is
/// named.
///
/// # Errors
/// The body is no request of `apiextensions.k8s.io/v1` for a conversion.
pub fn answer(body: &[u8]) -> Result<ConversionReview, String> {
    let review: ConversionReview =
        serde_json::from_slice(body).map_err(|error| format!("not a ConversionReview: {error}"))?;
    let (api_version, kind) = (&review.types.api_version, &review.types.kind);
    if (&**api_version, &**kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        return Err(format!(
            "expected a ConversionReview of apiextensions.k8s.io/v1, not {kind} of {api_version}"
        ));
    }
    let request = ConversionRequest::from_review(review).map_err(|error| error.to_string())?;
    Ok(respond(request).into_review())
}

fn respond(mut request: ConversionRequest) -> ConversionResponse {
    let objects = std::mem::take(&mut request.objects);
    let desired = request.desired_api_version.clone();
    let response = ConversionResponse::for_request(request);
    let Some(version) = Version::of(&desired) else {
        let message = format!("desiredAPIVersion {desired:?}: SubNamespace has no such version");
        return response.failure(Status::failure(&message, "BadRequest"));
    };
    let converted = objects.into_iter().map(|object| {
        let subject = subject(&object);
        convert(object, version).map_err(|error| format!("SubNamespace {subject}: {error}"))
    });
    match converted.collect() {
        Ok(converted) => response.success(converted),
        Err(message) => response.failure(Status::failure(&message, "Invalid")),
    }
}

fn subject(object: &Value) -> String {
    let field = |name| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", field("namespace"), field("name"))
}

/// The object in version `to`. Only its `apiVersion` changes, its status, and, from and to v1, the two annotations that v1 has for
/// the status. There and back again, the object is the same, but for the word that is the status of v1.
///
/// # Errors
/// It cannot be converted.
pub fn convert(mut object: Value, to: Version) -> Result<Value, Unconvertible> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let from = Version::of(&api_version).filter(|_| kind == "SubNamespace");
    let (Some(from), Some(fields)) = (from, object.as_object_mut()) else {
        return Err(Unconvertible::Unknown { api_version, kind });
    };
    if !fields.entry("metadata").or_insert_with(|| Map::new().into()).is_object() {
        return Err(Unconvertible::Field { field: "metadata", reason: "expected a map".to_owned() });
    }
    match (from, to) {
        _ if from == to => {}
        (Version::V1, _) => status_from_annotations(fields)?,
        (_, Version::V1) => status_to_annotations(fields)?,
        _ => {}
    }
    fields.insert("apiVersion".into(), to.api_version().into());
    Ok(object)
}

/// From v1: its word is dropped, and its annotations become the status.
fn status_from_annotations(object: &mut Map<String, Value>) -> Result<(), Unconvertible> {
    let wrong = |key, reason: &dyn ToString| Unconvertible::Annotation { key, reason: reason.to_string() };
    object.remove("status");
    let mut status = Map::new();
    if let Some(text) = take_annotation(object, OBSERVED_GENERATION) {
        let generation: i64 =
            text.parse().map_err(|error| wrong(OBSERVED_GENERATION, &format!("{text:?}: {error}")))?;
        if generation != 0 {
            status.insert("observedGeneration".into(), generation.into());
        }
    }
    if let Some(text) = take_annotation(object, CONDITIONS) {
        let conditions: Value = serde_json::from_str(&text).map_err(|error| wrong(CONDITIONS, &error))?;
        // As in Go, `null` is an empty list.
        let known = Option::<Vec<Condition>>::deserialize(&conditions);
        if known.map_err(|error| wrong(CONDITIONS, &error))?.is_some_and(|known| !known.is_empty()) {
            status.insert("conditions".into(), conditions);
        }
    }
    if !status.is_empty() {
        object.insert("status".into(), status.into());
    }
    Ok(())
}

/// To v1: the status becomes a word and annotations. If a user has set these annotations on the object, they are dropped: they
/// would become a status.
fn status_to_annotations(object: &mut Map<String, Value>) -> Result<(), Unconvertible> {
    let value = object.remove("status").unwrap_or_default();
    let status = Option::<SubNamespaceStatus>::deserialize(&value);
    let status = status
        .map_err(|error| Unconvertible::Field { field: "status", reason: error.to_string() })?
        .unwrap_or_default();
    let observed = status.observed_generation.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let metadata = object.get("metadata");
    let generation = metadata.and_then(|metadata| metadata["generation"].as_i64()).unwrap_or_default();

    let is_stalled = conditions.iter().any(|it| it.type_ == STALLED && it.status == STATUS_TRUE);
    let is_current = observed != 0 && observed == generation && conditions.is_empty();
    if is_stalled || is_current {
        let word = if is_stalled { V1_CONFLICT } else { V1_OK };
        object.insert("status".into(), word.into());
    }
    take_annotation(object, OBSERVED_GENERATION);
    take_annotation(object, CONDITIONS);
    if observed != 0 {
        annotate(object, OBSERVED_GENERATION, observed.to_string());
    }
    if !conditions.is_empty() {
        annotate(object, CONDITIONS, value["conditions"].to_string());
    }
    Ok(())
}

/// Removes the annotation, and the map of annotations if it is empty then.
fn take_annotation(object: &mut Map<String, Value>, key: &str) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let value = annotations.remove(key);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    value?.as_str().map(str::to_owned)
}

fn annotate(object: &mut Map<String, Value>, key: &str, value: String) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Map::new().into();
    }
    annotations[key] = value.into();
}
