//! An object in an admission request: its metadata as far as rules need it, and its other fields unparsed.
//!
//! All values borrow from the request's text, and the rest, above all `managedFields`, is skipped. A value that is not
//! an object, or that has a duplicate field, is an error.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use forest::rules::{Fields, Pairs};
use forest::{Name, Version};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object of any kind.
#[derive(Debug, Default)]
pub struct RequestObject<'a> {
    /// The metadata.
    pub metadata: Metadata<'a>,
    /// The status, unparsed.
    pub status: Option<Cow<'a, RawValue>>,
    /// The other top-level fields except `apiVersion` and `kind`.
    pub fields: Fields<'a>,
}

/// The metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    /// The labels; `None` if the field is absent.
    #[serde(borrow, deserialize_with = "pairs")]
    pub labels: Option<Pairs<'a>>,
    /// The annotations; `None` if the field is absent.
    #[serde(borrow, deserialize_with = "pairs")]
    pub annotations: Option<Pairs<'a>>,
    #[serde(borrow)]
    finalizers: Option<Vec<Text<'a>>>,
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<Time>,
}

impl<'a> Metadata<'a> {
    /// The name; empty if it is still to be generated.
    pub fn name(&self) -> Name {
        text(self.name.as_ref()).into()
    }

    /// The version of the object.
    pub fn version(&self) -> Version {
        Version {
            uid: text(self.uid.as_ref()).into(),
            resource_version: text(self.resource_version.as_ref()).into(),
        }
    }

    /// All finalizers.
    pub fn finalizers(&self) -> Vec<Cow<'a, str>> {
        self.finalizers.iter().flatten().map(|it| it.0.clone()).collect()
    }

    /// All owner references.
    pub fn owner_references(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// Whether it has a `deletionTimestamp`.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

fn text<'t>(text: Option<&'t Text<'_>>) -> &'t str {
    text.map_or("", |text| &text.0)
}

/// A string, borrowed unless it has escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A struct that is parsed from an object only; derived parsers also accept a list of the fields.
#[derive(Debug)]
pub struct ByName<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_object(deserializer).map(Self)
    }
}

fn from_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Reader<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Reader(PhantomData))
}

fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pairs<'de>>, D::Error> {
    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = Option<Pairs<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut pairs = Vec::with_capacity(12);
            while let Some((Text(key), Text(value))) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(Some(pairs.into_iter().collect()))
        }
    }

    deserializer.deserialize_any(Reader)
}

impl<'de: 'a, 'a> Deserialize<'de> for RequestObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestObjectReader)
    }
}

struct RequestObjectReader;

impl<'de> Visitor<'de> for RequestObjectReader {
    type Value = RequestObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RequestObject<'de>, M::Error> {
        let (mut metadata, mut status) = (None, None);
        let mut fields: Vec<(Cow<'de, str>, Cow<'de, RawValue>)> = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "metadata" if metadata.is_some() => return Err(M::Error::duplicate_field("metadata")),
                "metadata" => metadata = Some(map.next_value::<ByName<_>>()?.0),
                "status" if status.is_some() => return Err(M::Error::duplicate_field("status")),
                "status" => status = Some(Cow::Borrowed(map.next_value()?)),
                "apiVersion" | "kind" => drop(map.next_value::<IgnoredAny>()?),
                _ => fields.push((name, Cow::Borrowed(map.next_value()?))),
            }
        }
        let fields =
            Fields::new(fields).map_err(|name| M::Error::custom(format_args!("duplicate field `{name}`")))?;
        Ok(RequestObject { metadata: metadata.unwrap_or_default(), status, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_fields_are_parsed() {
        let text = r#"{"apiVersion":"v1","kind":"Secret","status":{},"type":"x/y","metadata":{"name":"s","namespace":"n",
            "uid":"u","resourceVersion":"7","generation":3,"labels":{"b":"\"","a":"1"},"annotations":null,
            "finalizers":["f/g"],"deletionTimestamp":"2020-01-01T00:00:00Z","managedFields":[{"fieldsV1":{"f:x":{}}}],
            "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o"}]},"data":{"k":[1, 2]}}"#;
        let RequestObject { metadata, status, fields } = serde_json::from_str(text).unwrap();
        assert_eq!(&*metadata.name(), "s");
        assert_eq!(metadata.version(), Version { uid: "u".into(), resource_version: "7".into() });
        let labels = metadata.labels.as_ref().unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "\"")]);
        assert!(metadata.annotations.is_none() && metadata.is_terminating());
        assert_eq!((metadata.finalizers(), &*metadata.owner_references()[0].name), (vec!["f/g".into()], "p"));
        assert_eq!(fields.get("data"), Some(serde_json::json!({ "k": [1, 2] })));
        assert_eq!((fields.get("type"), fields.get("status")), (Some("x/y".into()), None));
        assert_eq!(status.map(|it| it.get().to_owned()).as_deref(), Some("{}"));
    }

    #[test]
    fn duplicate_fields_and_other_types_are_errors() {
        for text in [
            "7",
            "[]",
            r#"["s"]"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":null}"#,
            r#"{"metadata":{"labels":[1]}}"#,
            r#"{"metadata":{"labels":{"a":1}}}"#,
            r#"{"metadata":{"labels":{}},"metadata":{}}"#,
            r#"{"metadata":{"labels":{},"labels":{}}}"#,
            r#"{"metadata":{"deletionTimestamp":"soon"}}"#,
            r#"{"data":1,"data":2}"#,
            r#"{"status":{},"status":{}}"#,
            r#"{"data":1,"d\u0061ta":2}"#,
            r#"{"data":}"#,
            r#"{"managedFields":[}"#,
        ] {
            assert!(serde_json::from_str::<RequestObject<'_>>(text).is_err(), "{text}");
        }
    }
}
