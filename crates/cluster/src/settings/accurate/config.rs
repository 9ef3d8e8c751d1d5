//! The configuration file of Accurate (section 5 of its contract): its keys, their defaults, and the checks in Accurate's order.

use forest::Kind;
use kube::core::discovery::v2::APIGroupDiscovery;
use serde::{Deserialize, Serialize};

use super::super::Invalid;
use super::super::document::{quoted, read};
use super::naming::{NamingPolicies, NamingPolicy};
use super::{Watch, or_default, validate_glob, watches};

/// What is propagated, and which names are allowed. A key that is absent or null is an empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Patterns of the labels that namespaces get from the namespace above them or from their template.
    #[serde(deserialize_with = "or_default")]
    pub label_keys: Vec<String>,
    /// The same for annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotation_keys: Vec<String>,
    /// Patterns of the labels that a `SubNamespace` may set.
    #[serde(deserialize_with = "or_default")]
    pub sub_namespace_label_keys: Vec<String>,
    /// The same for annotations.
    #[serde(deserialize_with = "or_default")]
    pub sub_namespace_annotation_keys: Vec<String>,
    /// The kinds whose objects may be propagated.
    #[serde(deserialize_with = "or_default")]
    pub watches: Vec<Watch>,
    /// Patterns of the labels that copies do not get.
    #[serde(deserialize_with = "or_default")]
    pub propagate_label_key_excludes: Vec<String>,
    /// The same for annotations.
    #[serde(deserialize_with = "or_default")]
    pub propagate_annotation_key_excludes: Vec<String>,
    /// Which names sub-namespaces may have.
    #[serde(deserialize_with = "or_default")]
    pub naming_policies: Vec<NamingPolicy>,
}

impl Config {
    /// Reads Accurate's configuration file, in YAML or JSON, and checks it. An empty file has the defaults.
    ///
    /// # Errors
    /// The first thing that is wrong. An unknown key is wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let config: Self = read(text)?;
        config.check()?;
        Ok(config)
    }

    /// Checks what needs no cluster.
    ///
    /// # Errors
    /// The first thing that is wrong, in Accurate's order.
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_with(|_| Ok(()))?;
        Ok(())
    }

    /// Checks everything, with what the API server serves. Returns the watched kinds, in order.
    ///
    /// # Errors
    /// The first thing that is wrong, in Accurate's order.
    pub fn resolve(&self, served: &[APIGroupDiscovery]) -> Result<Vec<Kind>, Invalid> {
        self.check_with(|watch| watch.resolve(served))
    }

    /// The naming policies, ready to be applied.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn naming(&self) -> Result<NamingPolicies, Invalid> {
        let policies = &self.naming_policies;
        NamingPolicies::new(policies).map_err(|(index, reason)| {
            Invalid::new(format!("namingPolicies[{index}].root"), quoted(&policies[index].root, &reason))
        })
    }

    fn check_with<T>(&self, resolve: impl Fn(&Watch) -> Result<T, String>) -> Result<Vec<T>, Invalid> {
        let upstream = [
            ("labelKeys", &self.label_keys),
            ("annotationKeys", &self.annotation_keys),
            ("subNamespaceLabelKeys", &self.sub_namespace_label_keys),
            ("subNamespaceAnnotationKeys", &self.sub_namespace_annotation_keys),
        ];
        for (key, patterns) in upstream {
            globs(key, patterns, true)?;
        }
        let at = |(index, reason)| Invalid::new(format!("watches[{index}]"), reason);
        watches::check(&self.watches).map_err(at)?;
        let watches = self.watches.iter().enumerate();
        let found = watches.map(|(index, watch)| resolve(watch).map_err(|reason| at((index, reason))));
        let found = found.collect::<Result<_, _>>()?;
        globs("propagateLabelKeyExcludes", &self.propagate_label_key_excludes, false)?;
        globs("propagateAnnotationKeyExcludes", &self.propagate_annotation_key_excludes, false)?;
        self.naming()?;
        Ok(found)
    }
}

/// Checks patterns of keys. The reserved keys may only be named where they are left out.
fn globs(key: &str, patterns: &[String], reserved: bool) -> Result<(), Invalid> {
    for (index, pattern) in patterns.iter().enumerate() {
        let checked = validate_glob(pattern).and_then(|()| {
            let prefix = hns_api::accurate::KEY_PREFIX;
            let is_reserved = reserved && pattern.starts_with(prefix);
            if is_reserved { Err(format!("keys with the prefix {prefix} are reserved")) } else { Ok(()) }
        });
        checked.map_err(|reason| Invalid::new(format!("{key}[{index}]"), quoted(pattern, &reason)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Accurate's chart, and one key of each kind more.
    const FILE: &str = r#"
labelKeys: [team, "*.example.com/*"]
annotationKeys:
subNamespaceLabelKeys: ['app']
watches:
- group: rbac.authorization.k8s.io
  version: v1
  kind: Role
- {version: v1, kind: Secret}
propagateLabelKeyExcludes: ['*kubernetes.io/*']
propagateAnnotationKeyExcludes: ['*kubernetes.io/*', 'accurate.cybozu.com/x']
namingPolicies:
- root: ^app-(?P<team>.*)
  match: ^app-${team}-.*
"#;

    #[test]
    fn a_file_is_read_as_yaml_and_as_json() {
        let config = Config::parse(FILE).unwrap();
        assert_eq!(config.label_keys, ["team", "*.example.com/*"]);
        assert!(config.annotation_keys.is_empty() && config.sub_namespace_annotation_keys.is_empty());
        assert_eq!(
            config.watches[1],
            Watch { group: String::new(), version: "v1".into(), kind: "Secret".into() }
        );
        assert_eq!(config.naming_policies[0].r#match, "^app-${team}-.*");
        assert!(config.naming().unwrap().review("app-a", "app-a-1").is_ok());
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(Config::parse(&json).unwrap(), config);
        for empty in ["", "{}", "---\n", "# nothing\n", "null", "labelKeys: null\nnamingPolicies:\n"] {
            assert_eq!(Config::parse(empty).unwrap(), Config::default(), "{empty:?}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_key() {
        for (text, key, reason) in [
            ("- a", "", "expected keys with values"),
            ("{", "", "not YAML"),
            ("labelkeys: []", "labelkeys", "unknown field `labelkeys`"),
            ("labelKeys: []\nlabelKeys: [a]", "", "duplicate"),
            ("labelKeys: a", "labelKeys", "expected a sequence"),
            ("labelKeys: [1]", "labelKeys[0]", "expected a string"),
            ("watches: [{group: a, resource: b}]", "watches[0].resource", "unknown field `resource`"),
            ("watches: [{kind: Secret}]", "watches[0]", "expected version and kind"),
            (
                "namingPolicies: [{root: a, matches: b}]",
                "namingPolicies[0].matches",
                "unknown field `matches`",
            ),
            ("labelKeys: [a, '[']", "labelKeys[1]", "\"[\": a class"),
            ("annotationKeys: ['accurate.cybozu.com/*']", "annotationKeys[0]", "reserved"),
            ("subNamespaceLabelKeys: ['accurate.cybozu.com/']", "subNamespaceLabelKeys[0]", "reserved"),
            ("subNamespaceAnnotationKeys: ['[a-]']", "subNamespaceAnnotationKeys[0]", "[a-]"),
            ("propagateLabelKeyExcludes: ['\\']", "propagateLabelKeyExcludes[0]", "no character follows"),
            ("propagateAnnotationKeyExcludes: ['[]']", "propagateAnnotationKeyExcludes[0]", "[]"),
            ("namingPolicies: [{root: a}, {root: '('}]", "namingPolicies[1].root", "\"(\": "),
        ] {
            let invalid = Config::parse(text).expect_err(text);
            assert_eq!(invalid.key, key, "{text}: {invalid}");
            assert!(invalid.reason.contains(reason), "{text}: {invalid}");
        }
        for text in ["labelKeys: ['*.cybozu.com/*']", "namingPolicies: [{root: a, match: '('}]"] {
            assert!(Config::parse(text).is_ok(), "{text}");
        }
    }

    /// The first mistake in Accurate's order is reported: mend it, and the next one is.
    #[test]
    fn mistakes_are_found_in_the_order_of_accurate() {
        let wrong = || vec!["[".to_owned()];
        let mut config = Config {
            label_keys: wrong(),
            annotation_keys: wrong(),
            sub_namespace_label_keys: wrong(),
            sub_namespace_annotation_keys: wrong(),
            watches: vec![Watch { group: String::new(), version: "v1".into(), kind: "Node".into() }],
            propagate_label_key_excludes: wrong(),
            propagate_annotation_key_excludes: wrong(),
            naming_policies: vec![NamingPolicy { root: "[".into(), r#match: String::new() }],
        };
        let mut found = Vec::new();
        while let Err(Invalid { key, .. }) = config.resolve(&[]) {
            match key.split_once('[').expect("an index").0 {
                "labelKeys" => config.label_keys.clear(),
                "annotationKeys" => config.annotation_keys.clear(),
                "subNamespaceLabelKeys" => config.sub_namespace_label_keys.clear(),
                "subNamespaceAnnotationKeys" => config.sub_namespace_annotation_keys.clear(),
                "watches" => config.watches.clear(),
                "propagateLabelKeyExcludes" => config.propagate_label_key_excludes.clear(),
                "propagateAnnotationKeyExcludes" => config.propagate_annotation_key_excludes.clear(),
                _ => config.naming_policies.clear(),
            }
            found.push(key);
        }
        assert_eq!(
            found,
            [
                "labelKeys[0]",
                "annotationKeys[0]",
                "subNamespaceLabelKeys[0]",
                "subNamespaceAnnotationKeys[0]",
                "watches[0]",
                "propagateLabelKeyExcludes[0]",
                "propagateAnnotationKeyExcludes[0]",
                "namingPolicies[0].root",
            ]
        );
    }
}
