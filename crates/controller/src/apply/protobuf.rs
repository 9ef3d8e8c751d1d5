//! Bodies of requests in protobuf, which cost the API server less to read than JSON.
//!
//! Only objects of a few kinds that many namespaces have, and of these only such as have no field that is not known here: whatever
//! a later Kubernetes adds is sent as JSON. Nothing is ever left out. Answers are asked for as JSON, and nothing is read here.
//!
//! The form is that of `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`: four bytes, then a message that names the type and holds the
//! object's own message.

mod messages;

use forest::Kind;
use http::header::{CONTENT_TYPE, HeaderValue};
use prost::Message;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use self::messages::{ConfigMap, NetworkPolicy, Role, RoleBinding, Secret, TypeMeta, Unknown};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// How every body begins.
const BEGINNING: &[u8] = b"k8s\0";

/// The media type is not one that is taken. API servers take protobuf for these kinds; somebody who stands before them may not.
pub(super) const UNSUPPORTED: u16 = 415;

/// The whole of an object of this kind; `None` if anything of it is not known here.
pub(super) fn object(kind: &Kind, manifest: &Value) -> Option<Vec<u8>> {
    let message = match (&*kind.group, &*kind.version, &*kind.kind) {
        ("", "v1", "ConfigMap") => message::<ConfigMap>,
        ("", "v1", "Secret") => message::<Secret>,
        ("networking.k8s.io", "v1", "NetworkPolicy") => message::<NetworkPolicy>,
        ("rbac.authorization.k8s.io", "v1", "Role") => message::<Role>,
        ("rbac.authorization.k8s.io", "v1", "RoleBinding") => message::<RoleBinding>,
        _ => return None,
    };
    Some(body(kind.api_version(), kind.kind.clone(), message(manifest)?))
}

/// The same request with another body, and the name of its form.
pub(super) fn with_body(mut request: http::Request<Vec<u8>>, body: Vec<u8>) -> http::Request<Vec<u8>> {
    request.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    *request.body_mut() = body;
    request
}

/// An object's own message. What the type is called is not in it.
fn message<T: Message + DeserializeOwned>(manifest: &Value) -> Option<Vec<u8>> {
    let fields = manifest.as_object()?.iter().filter(|(key, _)| !matches!(&***key, "apiVersion" | "kind"));
    let fields = fields.map(|(key, value)| (&**key, value));
    let object = T::deserialize(MapDeserializer::<_, serde_json::Error>::new(fields)).ok()?;
    Some(object.encode_to_vec())
}

fn body(api_version: String, kind: String, raw: Vec<u8>) -> Vec<u8> {
    let named = Unknown { type_meta: Some(TypeMeta { api_version, kind }), raw };
    let mut body = Vec::with_capacity(BEGINNING.len() + named.encoded_len());
    body.extend_from_slice(BEGINNING);
    // A vector has room for everything.
    let _ = named.encode(&mut body);
    body
}

#[cfg(test)]
pub(crate) mod tests;
