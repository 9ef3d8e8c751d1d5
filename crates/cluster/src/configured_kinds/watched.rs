//! The kinds that Accurate's API watches, as the API server serves them.
//!
//! A kind that is not served is not watched, and watched as soon as it is. Like the configured kinds, a kind is not dropped because
//! its group is unavailable.

use std::collections::BTreeMap;

use forest::{Kind, KindSettings, Mode};
use kube::core::discovery::v2::APIGroupDiscovery;

use crate::settings::accurate::Watch;

/// The watched kinds.
#[derive(Debug, Default)]
pub(super) struct WatchedKinds {
    watches: Vec<Watch>,
    found: Vec<Kind>,
    /// Why the others are not watched, by group and kind.
    missing: BTreeMap<(String, String), String>,
}

impl WatchedKinds {
    /// Those of the settings. None is found yet.
    pub(super) fn new(settings: Option<&forest::accurate::Settings>) -> Self {
        let watch = |Kind { group, version, kind, .. }: &Kind| {
            let (group, version, kind) = (group.clone(), version.clone(), kind.clone());
            Watch { group, version, kind }
        };
        let watches = settings.into_iter().flat_map(|settings| &settings.watches).map(watch).collect();
        Self { watches, ..Self::default() }
    }

    /// Finds them in an answer of the API server. An earlier finding is kept where `is_in_doubt` says that the answer may be
    /// incomplete. Returns whether all are found.
    pub(super) fn discovered(
        &mut self,
        groups: &[APIGroupDiscovery],
        is_in_doubt: impl Fn(&Kind) -> bool,
    ) -> bool {
        let before = std::mem::take(&mut self.found);
        let mut missing = BTreeMap::new();
        for watch in &self.watches {
            let is_it = |kind: &&Kind| kind.group == watch.group && kind.kind == watch.kind;
            let known = before.iter().find(is_it).filter(|kind| is_in_doubt(kind));
            match watch.resolve(groups).or_else(|why| known.cloned().ok_or(why)) {
                Ok(kind) => self.found.push(kind),
                Err(why) => drop(missing.insert((watch.group.clone(), watch.kind.clone()), why)),
            }
        }
        for why in missing.iter().filter(|(kind, _)| !self.missing.contains_key(kind)).map(|(_, why)| why) {
            tracing::warn!(why, "a kind of accurate.config.watches is not watched");
        }
        self.missing = missing;
        self.missing.is_empty()
    }

    /// These kinds and the watched ones. HNC ignores a kind that only Accurate's API watches.
    pub(super) fn with<'a>(&self, kinds: impl Iterator<Item = &'a KindSettings>) -> Vec<KindSettings> {
        let mut all: Vec<KindSettings> = kinds.cloned().collect();
        for kind in &self.found {
            if !all.iter().any(|it| it.kind.group == kind.group && it.kind.kind == kind.kind) {
                all.push(KindSettings::new(kind.clone(), Mode::Ignore));
            }
        }
        all
    }

    /// Why some are not watched, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        let all: Vec<&str> = self.missing.values().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(group: &str, kind: &str, resource: &str) -> Kind {
        Kind { group: group.into(), version: "v1".into(), kind: kind.into(), resource: resource.into() }
    }

    fn served(resources: &[(&str, &str)]) -> Vec<APIGroupDiscovery> {
        let resource = |(plural, kind): &(&str, &str)| json!({ "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced", "verbs": ["list"] });
        let resources: Vec<_> = resources.iter().map(resource).collect();
        let groups = json!([{ "metadata": { "name": "x.io" }, "versions": [{ "version": "v1", "resources": resources }] }]);
        serde_json::from_value(groups).unwrap()
    }

    #[test]
    fn a_watched_kind_is_added_once_it_is_served_and_kept_while_that_is_in_doubt() {
        let settings = forest::accurate::Settings {
            watches: vec![kind("x.io", "Thing", ""), kind("x.io", "Task", "")],
            ..forest::accurate::Settings::default()
        };
        let mut watched = WatchedKinds::new(Some(&settings));
        let hnc = [KindSettings::new(kind("x.io", "Thing", "things"), Mode::Propagate)];
        let shown = |watched: &WatchedKinds| -> Vec<String> {
            let all = watched.with(hnc.iter()).into_iter();
            all.map(|it| format!("{} {}", it.kind.group_resource(), it.mode)).collect()
        };
        assert!(!watched.discovered(&served(&[("things", "Thing")]), |_| false));
        assert_eq!(shown(&watched), ["things.x.io Propagate"]);
        assert_eq!(watched.trouble().as_deref(), Some("the API server does not serve Task in x.io/v1"));
        assert!(watched.discovered(&served(&[("things", "Thing"), ("tasks", "Task")]), |_| false));
        assert_eq!(shown(&watched), ["things.x.io Propagate", "tasks.x.io Ignore"]);
        assert!(watched.discovered(&served(&[]), |_| true), "kept");
        assert_eq!((shown(&watched).len(), watched.trouble()), (2, None));
        assert!(!watched.discovered(&served(&[]), |kind| kind.kind == "Thing"));
        assert_eq!(shown(&watched), ["things.x.io Propagate"]);

        let mut none = WatchedKinds::new(None);
        assert!(none.discovered(&served(&[]), |_| false));
        assert_eq!(none.with(hnc.iter()), hnc);
    }
}
