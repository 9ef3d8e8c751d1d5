//! The API of Accurate: the types of `accurate.cybozu.com`, and the exact spelling of every key and name that its users and their
//! programs compare against (sections 2 to 4 of its contract).
//!
//! Like the types of HNC, these are lenient: an object without `spec` or `metadata` parses.

pub mod annotations;
pub mod conditions;
pub mod conversion;
pub mod labels;
pub mod names;

mod sub_namespace;

pub use sub_namespace::{SubNamespace, SubNamespaceSpec, SubNamespaceStatus, crd};

/// The API group of `SubNamespace`.
pub const GROUP: &str = "accurate.cybozu.com";

/// The prefix of the labels and annotations that are reserved for Accurate.
pub const KEY_PREFIX: &str = "accurate.cybozu.com/";

/// A version of the API. Only [`Version::V2`] is served and stored; objects that were stored in the others can still be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// Its status is one word.
    V1,
    /// Its fields are those of [`Version::V2`].
    V2Alpha1,
    /// The type [`SubNamespace`].
    V2,
}

impl Version {
    /// Sorted by name.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V2Alpha1];

    /// As in the `CustomResourceDefinition`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2Alpha1 => "v2alpha1",
            Self::V2 => "v2",
        }
    }

    /// The `apiVersion` of objects.
    ///
    /// ```
    /// assert_eq!(hns_api::accurate::Version::V2.api_version(), "accurate.cybozu.com/v2");
    /// ```
    pub fn api_version(self) -> String {
        format!("{GROUP}/{}", self.name())
    }

    /// The version that this `apiVersion` names.
    pub fn of(api_version: &str) -> Option<Self> {
        let name = api_version.strip_prefix(GROUP)?.strip_prefix('/')?;
        Self::ALL.into_iter().find(|version| version.name() == name)
    }
}
