//! What the programs share beside the hierarchy, each in a `ConfigMap` in the namespace of the installation.
//!
//! The webhook's replicas and the leading controller replace it by compare-and-swap: a write carries the version that it changes.

use hns_api::names::FIELD_MANAGER;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Client, Result};
use serde_json::json;

use crate::api::Api;

/// What is stored in a `ConfigMap`.
pub trait Content: Sized + Clone {
    /// The name of the object.
    const NAME: &'static str;

    /// The key of the data.
    const KEY: &'static str;

    /// The text that is stored.
    ///
    /// # Errors
    /// It cannot be written as text.
    fn to_text(&self) -> serde_json::Result<String>;

    /// The content of a text; an empty one if there are no data.
    ///
    /// # Errors
    /// It cannot be understood.
    fn of_text(text: &str) -> serde_json::Result<Self>;
}

/// The content, and the object that it was read from.
#[derive(Debug, Clone, Default)]
pub struct Stored<T> {
    /// The content.
    pub content: T,
    /// The metadata of the object. Its `resourceVersion` is the precondition of a write.
    pub(crate) metadata: ObjectMeta,
}

impl<T: Default> Stored<T> {
    /// An object whose content is not known, to replace it.
    pub fn of(metadata: ObjectMeta) -> Self {
        Self { content: T::default(), metadata }
    }
}

/// The objects in the cluster.
#[derive(Clone)]
pub struct Store(Api<ConfigMap>);

impl Store {
    /// The objects of the installation in `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }

    /// The `ConfigMaps` in its namespace.
    pub fn api(&self) -> &Api<ConfigMap> {
        &self.0
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub async fn read<T: Content>(&self) -> Result<Stored<T>> {
        parse(self.0.get(T::NAME).await?)
    }

    /// Replaces `stored`. Returns `None` if it has changed in the meantime.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn replace<T: Content>(&self, stored: &Stored<T>, content: &T) -> Result<Option<Stored<T>>> {
        let object = object(stored.metadata.clone(), content)?;
        match self.0.replace(T::NAME, &PostParams::default(), &object).await {
            Ok(written) => Ok(Some(Stored { content: content.clone(), metadata: written.metadata })),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object, which is deleted with `owner`. An existing one stays as it is.
    ///
    /// # Errors
    /// It cannot be created.
    pub async fn create<T: Content>(&self, owner: OwnerReference, content: &T) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": T::NAME, "ownerReferences": [owner] },
            "data": object(ObjectMeta::default(), content)?.data,
        });
        // Applied, because RBAC cannot limit the right to create objects to a name. A conflict means that another client has
        // written it.
        match self.0.patch(T::NAME, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop),
        }
    }
}

/// The content of an object.
///
/// # Errors
/// It cannot be understood.
pub fn parse<T: Content>(object: ConfigMap) -> Result<Stored<T>> {
    let text = object.data.as_ref().and_then(|data| data.get(T::KEY)).map_or("", String::as_str);
    let content = T::of_text(text).map_err(kube::Error::SerdeError)?;
    Ok(Stored { content, metadata: object.metadata })
}

pub(crate) fn object<T: Content>(metadata: ObjectMeta, content: &T) -> Result<ConfigMap> {
    let text = content.to_text().map_err(kube::Error::SerdeError)?;
    let metadata = ObjectMeta { name: Some(T::NAME.to_owned()), ..metadata };
    Ok(ConfigMap { metadata, data: Some([(T::KEY.to_owned(), text)].into()), ..ConfigMap::default() })
}
