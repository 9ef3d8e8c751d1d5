//! Requests for objects by name, with each name encoded as a segment of the URL.
//!
//! kube inserts names into URLs unencoded. Names of some kinds, such as those of RBAC, may have every character except
//! `/` and `%`: `?` and `#` would end the path, so that the request addresses the whole collection, and a space makes
//! the URL invalid. All programs use this type; clippy forbids kube's own methods.
//!
//! An answer is read even if its `managedFields` are nested very deeply, because users can write any `managedFields`.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Deref;

use either::Either;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams};
use kube::core::response::Status;
use kube::core::{DynamicResourceScope, PartialObjectMeta, Request};
use kube::{Client, Error, Resource, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api_object;

/// The characters that must be encoded in a path segment.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as one segment of the path of a URL.
///
/// No object can have the name `.` or `..`, or a `/` in its name; a decoded path with them would be another path. They
/// are encoded twice, so that the API server looks for an object that cannot exist.
pub fn path_segment(name: &str) -> Cow<'_, str> {
    match name {
        "." | ".." => name.replace('.', "%252E").into(),
        _ if name.contains('/') => encoded(&name.replace('/', "%2F")).into_owned().into(),
        _ => encoded(name),
    }
}

fn encoded(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, RESERVED).into()
}

/// How many objects of a list are read at a time. A page is in memory twice, several lists are read at once, and users can make objects
/// of more than 1 MB, also of what counts as metadata.
pub const PAGE: u32 = 50;

/// kube's `Api`, with names encoded.
#[derive(Clone)]
pub struct Api<K>(kube::Api<K>);

impl<K: Resource> Api<K> {
    /// The objects of a kind in all namespaces.
    pub fn all(client: Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self(kube::Api::all(client))
    }

    /// The objects of this kind in all namespaces.
    pub fn all_with(client: Client, kind: &K::DynamicType) -> Self {
        Self(kube::Api::all_with(client, kind))
    }

    /// The objects of a kind in a namespace.
    #[expect(clippy::disallowed_methods, reason = "the namespace is encoded")]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Self(kube::Api::namespaced(client, &path_segment(namespace)))
    }

    /// The objects of this kind in a namespace.
    #[expect(clippy::disallowed_methods, reason = "the namespace is encoded")]
    pub fn namespaced_with(client: Client, namespace: &str, kind: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self(kube::Api::namespaced_with(client, &path_segment(namespace), kind))
    }
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Api<K> {
    /// Reads an object.
    pub async fn get(&self, name: &str) -> Result<K> {
        self.send(|it| it.get(&path_segment(name), &GetParams::default())).await
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        found(self.get(name).await)
    }

    /// Reads the metadata of an object.
    pub async fn get_metadata(&self, name: &str) -> Result<PartialObjectMeta<K>> {
        self.send(|it| it.get_metadata(&path_segment(name), &GetParams::default())).await
    }

    /// Reads the metadata of an object; `None` if it does not exist.
    pub async fn get_metadata_opt(&self, name: &str) -> Result<Option<PartialObjectMeta<K>>> {
        found(self.get_metadata(name).await)
    }

    /// Lists objects.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>> {
        self.send(|it| it.list(params)).await
    }

    /// Lists the metadata of objects.
    pub async fn list_metadata(&self, params: &ListParams) -> Result<ObjectList<PartialObjectMeta<K>>> {
        self.send(|it| it.list_metadata(params)).await
    }

    /// Lists objects in pages, and returns what `keep` takes of each. Users decide how large objects are, and how many there are.
    ///
    /// # Errors
    /// Also if the list expires before its last page is read.
    pub async fn list_in_pages<T>(
        &self,
        params: &ListParams,
        keep: impl Fn(K) -> Option<T>,
    ) -> Result<Vec<T>> {
        in_pages(params, |params| async move { self.list(&params).await }, keep).await
    }

    /// The same for the metadata of objects.
    pub async fn list_metadata_in_pages<T>(
        &self,
        params: &ListParams,
        keep: impl Fn(ObjectMeta) -> Option<T>,
    ) -> Result<Vec<T>> {
        let keep = |it: PartialObjectMeta<K>| keep(it.metadata);
        in_pages(params, |params| async move { self.list_metadata(&params).await }, keep).await
    }

    /// Patches an object.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.send(|it| it.patch(&path_segment(name), params, patch)).await
    }

    /// Patches the status of an object.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.send(|it| it.patch_subresource("status", &path_segment(name), params, patch)).await
    }

    /// Patches an object and returns its metadata.
    pub async fn patch_metadata<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<PartialObjectMeta<K>> {
        self.send(|it| it.patch_metadata(&path_segment(name), params, patch)).await
    }

    /// Replaces an object. Its `managedFields` stay as the API server has them: those of `object` may be incomplete.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let mut object = serde_json::to_value(object).map_err(Error::SerdeError)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let body = object.to_string().into_bytes();
        self.send(|it| it.replace(&path_segment(name), params, body)).await
    }

    /// Deletes an object; returns it if its deletion is pending.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Either<K, Status>> {
        let answer: Value = self.send(|it| it.delete(&path_segment(name), params)).await?;
        let answer = if answer["kind"] == "Status" {
            serde_json::from_value(answer).map(Either::Right)
        } else {
            serde_json::from_value(answer).map(Either::Left)
        };
        answer.map_err(Error::SerdeError)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: impl FnOnce(&Request) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T> {
        let request = request(&Request::new(self.0.resource_url())).map_err(Error::BuildRequest)?;
        let text = self.0.clone().into_client().request_text(request).await?;
        api_object::parse(&text).map_err(Error::SerdeError)
    }
}

async fn in_pages<O: Clone, T, R: Future<Output = Result<ObjectList<O>>>>(
    params: &ListParams,
    list: impl Fn(ListParams) -> R,
    keep: impl Fn(O) -> Option<T>,
) -> Result<Vec<T>> {
    let (mut params, mut kept) = (params.clone().limit(PAGE), Vec::new());
    loop {
        let ObjectList { metadata, items, .. } = list(params.clone()).await?;
        kept.extend(items.into_iter().filter_map(&keep));
        params.continue_token = metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(kept);
        }
    }
}

fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

/// Requests for collections have no object name, so kube's own methods are safe.
impl<K> Deref for Api<K> {
    type Target = kube::Api<K>;

    fn deref(&self) -> &kube::Api<K> {
        &self.0
    }
}

impl<K> From<Api<K>> for kube::Api<K> {
    fn from(api: Api<K>) -> Self {
        api.0
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    /// The path of a request as the API server sees it: split where it is not encoded, then decoded; and whether the
    /// URL has nothing but the path.
    fn received(name: &str) -> (Vec<String>, bool) {
        let uri = |request: http::Request<Vec<u8>>| request.uri().clone();
        let request = Request::new("/api/v1/namespaces/a/secrets");
        let segment = path_segment(name);
        let uris = [
            uri(request.get(&segment, &GetParams::default()).unwrap()),
            uri(request.delete(&segment, &DeleteParams::default()).unwrap()),
            uri(request.replace(&segment, &PostParams::default(), vec![]).unwrap()),
        ];
        let paths = uris.each_ref().map(http::Uri::path);
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
        // Go decodes the whole path, and Kubernetes splits the result.
        let decoded = percent_decode_str(paths[0]).decode_utf8().unwrap().into_owned();
        let is_all = uris.iter().all(|uri| uri.query().unwrap_or_default().is_empty());
        (decoded.split('/').skip(6).map(str::to_owned).collect(), is_all)
    }

    proptest! {
        #[test]
        fn every_legal_name_arrives_unchanged(name in "\\PC{1,40}|[ -~]{1,20}|[\\x00-\\x1f?#:@ +&=]{1,9}") {
            prop_assume!(name != "." && name != ".." && !name.contains(['/', '%']));
            prop_assert_eq!(received(&name), (vec![name], true));
        }

        #[test]
        fn no_name_changes_the_path(name in "[./%2EF?#a]{1,9}") {
            let (segments, is_all) = received(&name);
            prop_assert!(is_all && segments.len() == 1, "{segments:?}");
            prop_assert!(!matches!(&*segments[0], "." | ".." | ""), "{segments:?}");
        }
    }

    #[test]
    fn ordinary_names_are_not_encoded() {
        for name in ["reader", "kube-root-ca.crt", "a.b-c"] {
            assert!(matches!(path_segment(name), Cow::Borrowed(same) if same == name));
        }
        assert_eq!(path_segment("on call"), "on%20call");
        assert_eq!(path_segment("system:x?y#z"), "system%3Ax%3Fy%23z");
    }
}
