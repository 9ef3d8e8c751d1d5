//! An object on the command line, `KIND/NAME`, and the kind that it means.

use std::str::FromStr;

use forest::Kind;
use forest::configuration::{Entry, Served};

use crate::Failure;

/// A kind and a name: `secret/registry`, `cm/x`, `roles.rbac.authorization.k8s.io/x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectArgument {
    kind: String,
    pub(crate) name: String,
}

impl FromStr for ObjectArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.into(), name: name.into() })
            }
            _ => Err("must be KIND/NAME, for instance secret/registry or role/viewer".into()),
        }
    }
}

impl ObjectArgument {
    /// The kind of the object.
    ///
    /// # Errors
    /// There is no such kind, there are several, or it is cluster-scoped.
    pub(crate) fn kind(&self, served: &Served) -> Result<Kind, Failure> {
        let entry = as_typed(served, &self.kind);
        let found =
            served.named(&entry).map_err(|(_, why)| Failure::new(format!("Error: {entry}: {why}")))?;
        if !found.namespaced {
            let text = format!(
                "Error: {} are cluster-scoped, so they are never propagated",
                found.kind.group_resource()
            );
            return Err(Failure::new(text));
        }
        Ok(found.kind.clone())
    }
}

/// The resource that `RESOURCE`, `RESOURCE.GROUP` or kubectl's `RESOURCE.VERSION.GROUP` means. Every version has the same objects.
pub(crate) fn as_typed(served: &Served, text: &str) -> Entry {
    let entry = |(resource, group): (&str, &str)| Entry {
        resource: resource.into(),
        group: group.into(),
        ..Entry::default()
    };
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    let (version, rest) = group.split_once('.').unwrap_or((group, ""));
    let with_version = Some(entry((resource, rest))).filter(|_| is_version(version));
    let as_typed = entry((resource, group));
    // A group may be called like a version.
    with_version.filter(|it| served.named(&as_typed).is_err() && served.named(it).is_ok()).unwrap_or(as_typed)
}

/// `v1`, `v2beta1`.
fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()))
}

#[cfg(test)]
pub(crate) mod tests {
    use forest::configuration::ServedKind;

    use super::*;

    /// A namespaced kind that the API server serves.
    pub(crate) fn served_kind(group: &str, kind: &str, short_names: &[&str]) -> ServedKind {
        ServedKind {
            kind: Kind {
                group: group.into(),
                version: "v1".into(),
                kind: kind.into(),
                resource: format!("{}s", kind.to_lowercase()),
            },
            singular: kind.to_lowercase(),
            short_names: short_names.iter().map(|it| (*it).to_owned()).collect(),
            namespaced: true,
            verbs: Vec::new(),
        }
    }

    fn served() -> Served {
        let kinds = vec![
            served_kind("", "ConfigMap", &["cm"]),
            ServedKind { namespaced: false, ..served_kind("", "Node", &["no"]) },
            served_kind("a.example.com", "Thing", &["t"]),
            served_kind("b.example.com", "Thing", &["t"]),
        ];
        Served { kinds, ..Served::default() }
    }

    #[test]
    fn kinds_have_the_names_of_kubectl() {
        for (text, expected) in [
            ("cm/x", Ok("v1, Kind=ConfigMap")),
            ("ConfigMap/x", Ok("v1, Kind=ConfigMap")),
            ("configmaps/x", Ok("v1, Kind=ConfigMap")),
            ("thing.b.example.com/x", Ok("b.example.com/v1, Kind=Thing")),
            ("configmaps.v1/x", Ok("v1, Kind=ConfigMap")),
            ("configmaps.v1./x", Ok("v1, Kind=ConfigMap")),
            ("things.v1beta1.b.example.com/x", Ok("b.example.com/v1, Kind=Thing")),
            ("thing/x", Err("a.example.com")),
            ("configmaps.vx/x", Err("the API server serves no such resource")),
            ("node/x", Err("Error: nodes are cluster-scoped")),
            ("nonsense/x", Err("the API server serves no such resource")),
        ] {
            let found = text.parse::<ObjectArgument>().unwrap().kind(&served());
            match (found.map(|it| it.to_string()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(failure), Err(expected)) => {
                    assert!(failure.text.contains(expected), "{text}: {failure}");
                    assert!(!failure.text.contains("delete-type"), "there is no entry: {failure}");
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
        for wrong in ["x", "/x", "cm/", "cm/x/y", ""] {
            assert!(wrong.parse::<ObjectArgument>().is_err(), "{wrong}");
        }
    }
}
