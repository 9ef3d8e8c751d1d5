//! The configuration file of Accurate (section 5 of its contract): its keys, their defaults, and the checks in Accurate's order.

use forest::Kind;
use forest::accurate::glob::Keys;
use forest::accurate::naming;
use hns_api::accurate::KEY_PREFIX;
use kube::core::discovery::v2::APIGroupDiscovery;
use serde::{Deserialize, Serialize};

use super::super::Invalid;
use super::super::document::{quoted, read};
use super::super::section::sections;
use super::{Watch, or_default, watches};

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
    #[serde(deserialize_with = "sections")]
    pub watches: Vec<Watch>,
    /// Patterns of the labels that copies do not get.
    #[serde(deserialize_with = "or_default")]
    pub propagate_label_key_excludes: Vec<String>,
    /// The same for annotations.
    #[serde(deserialize_with = "or_default")]
    pub propagate_annotation_key_excludes: Vec<String>,
    /// Which names sub-namespaces may have.
    #[serde(deserialize_with = "sections")]
    pub naming_policies: Vec<NamingPolicy>,
}

/// A naming policy as configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamingPolicy {
    /// A regular expression: the policy applies below roots in whose name it matches.
    #[serde(deserialize_with = "or_default")]
    pub root: String,
    /// The template of a regular expression, which must match in the name of the sub-namespace.
    #[serde(deserialize_with = "or_default")]
    pub r#match: String,
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
        self.rules().map(drop)
    }

    /// What rules and plans depend on, without the names of the resources of the watched kinds. Only [`Config::resolve`] and the
    /// requests to the API server need them, so a kind that is not served at the moment is not forgotten.
    ///
    /// # Errors
    /// The first thing that is wrong, in Accurate's order.
    pub fn rules(&self) -> Result<forest::accurate::Settings, Invalid> {
        self.read(|watch| Ok(watch.kind(String::new())))
    }

    /// What rules and plans depend on. Checks everything, with what the API server serves.
    ///
    /// # Errors
    /// The first thing that is wrong, in Accurate's order.
    pub fn resolve(&self, served: &[APIGroupDiscovery]) -> Result<forest::accurate::Settings, Invalid> {
        self.read(|watch| watch.resolve(served))
    }

    /// The fields are read in Accurate's order.
    fn read(
        &self,
        resolve: impl Fn(&Watch) -> Result<Kind, String>,
    ) -> Result<forest::accurate::Settings, Invalid> {
        Ok(forest::accurate::Settings {
            label_keys: upstream_keys("labelKeys", &self.label_keys)?,
            annotation_keys: upstream_keys("annotationKeys", &self.annotation_keys)?,
            sub_namespace_label_keys: upstream_keys("subNamespaceLabelKeys", &self.sub_namespace_label_keys)?,
            sub_namespace_annotation_keys: upstream_keys(
                "subNamespaceAnnotationKeys",
                &self.sub_namespace_annotation_keys,
            )?,
            watches: self.kinds(resolve)?,
            label_excludes: keys("propagateLabelKeyExcludes", &self.propagate_label_key_excludes)?,
            annotation_excludes: keys(
                "propagateAnnotationKeyExcludes",
                &self.propagate_annotation_key_excludes,
            )?,
            naming_policies: self.naming()?,
            ..forest::accurate::Settings::default()
        })
    }

    fn kinds(&self, resolve: impl Fn(&Watch) -> Result<Kind, String>) -> Result<Vec<Kind>, Invalid> {
        let at = |(index, reason)| Invalid::new(format!("watches[{index}]"), reason);
        watches::check(&self.watches).map_err(at)?;
        let watches = self.watches.iter().enumerate();
        watches.map(|(index, watch)| resolve(watch).map_err(|reason| at((index, reason)))).collect()
    }

    fn naming(&self) -> Result<Vec<naming::NamingPolicy>, Invalid> {
        let policies = self.naming_policies.iter().enumerate();
        let compiled = policies.map(|(index, NamingPolicy { root, r#match })| {
            naming::NamingPolicy::new(root, r#match)
                .map_err(|(key, reason)| Invalid::new(format!("namingPolicies[{index}].{key}"), reason))
        });
        compiled.collect()
    }
}

/// Reads patterns of keys. The first that is wrong is named, or the first that begins with a reserved prefix.
fn upstream_keys(key: &str, patterns: &[String]) -> Result<Keys, Invalid> {
    let reserved = patterns.iter().position(|pattern| pattern.starts_with(KEY_PREFIX));
    let (before, _) = patterns.split_at(reserved.unwrap_or(patterns.len()));
    let keys = keys(key, before)?;
    let Some(index) = reserved else { return Ok(keys) };
    let reason = format!("keys with the prefix {KEY_PREFIX} are reserved");
    Err(Invalid::new(format!("{key}[{index}]"), quoted(&patterns[index], &reason)))
}

/// Reads patterns of keys.
fn keys(key: &str, patterns: &[String]) -> Result<Keys, Invalid> {
    Keys::new(patterns).map_err(|bad| Invalid::new(format!("{key}[{}]", bad.index), bad))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            ("labelKeys: a", "labelKeys", "expected a list"),
            ("labelKeys: [1]", "labelKeys[0]", "expected a string"),
            ("watches: [{group: a, resource: b}]", "watches[0].resource", "unknown field `resource`"),
            ("watches: [{kind: Secret}]", "watches[0]", "expected version and kind"),
            ("watches: [['', v1, Secret]]", "watches[0]", "expected a map"),
            (
                "namingPolicies: [{root: a, matches: b}]",
                "namingPolicies[0].matches",
                "unknown field `matches`",
            ),
            ("labelKeys: [a, '[']", "labelKeys[1]", "\"[\": a class"),
            ("labelKeys: [a, accurate.cybozu.com/a, '[']", "labelKeys[1]", "reserved"),
            ("labelKeys: ['[', accurate.cybozu.com/a]", "labelKeys[0]", "a class"),
            ("annotationKeys: ['accurate.cybozu.com/*']", "annotationKeys[0]", "reserved"),
            ("subNamespaceLabelKeys: ['accurate.cybozu.com/']", "subNamespaceLabelKeys[0]", "reserved"),
            ("subNamespaceAnnotationKeys: ['[a-]']", "subNamespaceAnnotationKeys[0]", "[a-]"),
            ("propagateLabelKeyExcludes: ['\\']", "propagateLabelKeyExcludes[0]", "no character follows"),
            ("propagateAnnotationKeyExcludes: ['[]']", "propagateAnnotationKeyExcludes[0]", "[]"),
            ("namingPolicies: [{root: a}, {root: '('}]", "namingPolicies[1].root", "\"(\": "),
            ("namingPolicies: [{root: a, match: '[a&&b]'}]", "namingPolicies[0].match", "\"[a&&b]\": "),
        ] {
            let invalid = Config::parse(text).expect_err(text);
            assert_eq!(invalid.key, key, "{text}: {invalid}");
            assert!(invalid.reason.contains(reason), "{text}: {invalid}");
        }
        for text in ["labelKeys: ['*.cybozu.com/*']", "namingPolicies: [{root: (a), match: 'a{$1}'}]"] {
            assert!(Config::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_file_says_what_rules_and_plans_depend_on() {
        let secrets = json!({ "metadata": {}, "versions": [{ "version": "v1", "resources": [
            { "resource": "secrets", "responseKind": { "kind": "Secret" }, "scope": "Namespaced", "verbs": ["list"] },
        ] }] });
        let served = [serde_json::from_value(secrets).unwrap()];
        let mut config = Config::parse(FILE).unwrap();
        assert_eq!(config.resolve(&served).unwrap_err().key, "watches[0]");
        config.watches.remove(0);
        config.annotation_keys = vec!["note".into()];
        config.sub_namespace_annotation_keys = vec!["owner".into()];
        let found = config.resolve(&served).unwrap();
        let keys = |patterns: &[&str]| Keys::new(patterns).unwrap();
        assert_eq!(found.label_keys, keys(&["team", "*.example.com/*"]));
        assert_eq!(found.annotation_keys, keys(&["note"]));
        assert_eq!(found.sub_namespace_label_keys, keys(&["app"]));
        assert_eq!(found.sub_namespace_annotation_keys, keys(&["owner"]));
        assert_eq!(found.label_excludes, keys(&["*kubernetes.io/*"]));
        assert_eq!(found.annotation_excludes, keys(&["*kubernetes.io/*", "accurate.cybozu.com/x"]));
        let resources: Vec<&str> = found.watches.iter().map(|it| &*it.resource).collect();
        assert_eq!(resources, ["secrets"]);
        let policies: Vec<String> = found.naming_policies.iter().map(ToString::to_string).collect();
        assert_eq!(policies, ["root=^app-(?P<team>.*) match=^app-${team}-.*"]);
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
