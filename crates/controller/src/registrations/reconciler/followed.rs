//! What registrations and policies depend on in the cluster: the propagated kinds and the awaited names of the forest. Until the
//! configuration is known, the registered kinds are used.

use std::collections::BTreeSet;
use std::time::Duration;

use forest::{Forest, Name};
use hns_api::names;
use hns_cluster::handle::ForestHandle;
use serde_json::Value;
use tokio::sync::watch;

/// API group and plural of each kind whose copies are protected, sorted; `None` until the configuration is known.
pub(super) type Kinds = Option<Vec<(String, String)>>;

/// The part of the cluster's state that registrations and policies depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Followed {
    /// The kinds whose objects must be reviewed.
    pub(super) kinds: Kinds,
    /// The names that namespaces wait for as their parent, sorted; `None` until the structure is known.
    pub(super) awaited: Option<Vec<String>>,
    /// The names of all other parents, sorted; `None` until the structure is known.
    pub(super) parents: Option<Vec<String>>,
}

/// The pause after a change is sent: API servers compile all conditions again after each change.
const CALM: Duration = Duration::from_millis(100);

/// The state of the forest, now and after each change.
pub(crate) fn follow(mut forest: ForestHandle) -> watch::Receiver<Followed> {
    let (sender, receiver) = watch::channel(forest.read(Followed::of));
    tokio::spawn(async move {
        while forest.progressed().await && !sender.is_closed() {
            let now = forest.read(Followed::of);
            let is_sent = sender.send_if_modified(|known| {
                let now = Followed {
                    kinds: now.kinds.or_else(|| known.kinds.clone()),
                    awaited: now.awaited.or_else(|| known.awaited.clone()),
                    parents: now.parents.or_else(|| known.parents.clone()),
                };
                let differs = *known != now;
                *known = now;
                differs
            });
            if is_sent {
                tokio::time::sleep(CALM).await;
            }
        }
    });
    receiver
}

impl Followed {
    fn of(forest: &Forest) -> Self {
        let is_known = forest.structure_gap().is_none();
        let owned = |names: Vec<&Name>| names.into_iter().map(ToString::to_string).collect();
        Self {
            kinds: configured(forest),
            awaited: is_known.then(|| owned(forest.awaited_names())),
            parents: is_known.then(|| owned(forest.parent_names())),
        }
    }
}

/// The kinds whose objects must be reviewed.
fn configured(forest: &Forest) -> Kinds {
    let propagated = || {
        let kinds = forest.kinds().filter(|(_, settings)| settings.mode.protects());
        let kinds: BTreeSet<_> = kinds
            .map(|(_, settings)| (settings.kind.group.clone(), settings.kind.resource.clone()))
            .collect();
        kinds.into_iter().collect()
    };
    forest.is_configured().then(propagated)
}

/// The kinds in the rules of the webhook for objects; none if the configuration has no such webhook.
pub(super) fn registered(validating: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let words = move |value: &Value| -> Vec<String> {
        list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let entries = list(&validating["webhooks"]);
    let entry = entries.iter().find(|entry| entry["name"] == names::webhooks::OBJECTS);
    let rules = entry.map(|entry| list(&entry["rules"])).unwrap_or_default();
    let mut kinds = BTreeSet::new();
    for rule in &rules {
        for group in words(&rule["apiGroups"]) {
            let resources = words(&rule["resources"]).into_iter().filter(|it| !it.contains('/'));
            kinds.extend(resources.map(|resource| (group.clone(), resource)));
        }
    }
    kinds.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::{
        Fact, HierarchyFact, Kind, KindSettings, Mode, NamespaceFact, Settings, Stream, Version, hnc,
    };
    use hns_cluster::handle::ForestWriter;
    use serde_json::json;

    use super::*;
    use crate::registrations::{RegistrationSettings, admission};

    fn kind(group: &str, resource: &str, mode: Mode) -> KindSettings {
        let kind = Kind {
            group: group.into(),
            version: "v1".into(),
            kind: resource.to_uppercase(),
            resource: resource.into(),
        };
        KindSettings::new(kind, mode)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(group, plural)| ((*group).to_owned(), (*plural).to_owned())).collect()
    }

    #[tokio::test]
    async fn changes_of_the_protected_kinds_are_sent() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let forest = Forest::unconfigured(Arc::new(settings));
        let (writer, handle) = ForestWriter::new(forest, Box::new(|_| {}));
        let mut kinds = follow(handle);
        assert_eq!(*kinds.borrow_and_update(), Followed::default());

        let configuration = || {
            vec![
                kind("x.io", "things", Mode::AllowPropagate),
                kind("", "secrets", Mode::Propagate),
                kind("", "configmaps", Mode::Ignore),
                kind("", "events", Mode::Remove),
            ]
        };
        writer.tell([Fact::Kinds(configuration())]);
        kinds.changed().await.unwrap();
        let expected = Some(pairs(&[("", "events"), ("", "secrets"), ("x.io", "things")]));
        assert_eq!(kinds.borrow_and_update().kinds, expected);

        let mut reversed = configuration();
        reversed.reverse();
        writer.tell([Fact::Kinds(reversed)]);
        writer.tell([Fact::StreamLost(Stream::CONFIGURATION, "gone".into())]);
        tokio::task::yield_now().await;
        assert!(!kinds.has_changed().unwrap());
        writer.tell([Fact::Kinds(vec![kind("", "secrets", Mode::Propagate)])]);
        kinds.changed().await.unwrap();
        assert_eq!(kinds.borrow_and_update().kinds, Some(pairs(&[("", "secrets")])));
        assert!(!kinds.has_changed().unwrap());
    }

    /// The name of a parent is sent when its deletion begins, and until no namespace waits for it.
    #[tokio::test(start_paused = true)]
    async fn awaited_names_are_sent() {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let (writer, handle) = ForestWriter::new(Forest::new(Arc::new(settings), vec![]), Box::new(|_| {}));
        let namespace = |name: &str, state: &str, terminating| NamespaceFact {
            name: name.into(),
            version: Version { uid: name.into(), resource_version: state.into() },
            terminating,
            ..NamespaceFact::default()
        };
        let hierarchy = HierarchyFact { parent: Some("above".into()), ..HierarchyFact::default() };
        let mut followed = follow(handle);
        let mut awaited = async || {
            followed.changed().await.unwrap();
            followed.borrow_and_update().awaited.clone()
        };
        writer.tell([Fact::Namespaces(vec![namespace("above", "1", false), namespace("below", "1", false)])]);
        writer.tell([Fact::Hnc(hnc::Fact::Hierarchies(vec![("below".into(), hierarchy)]))]);
        writer.tell([Fact::Hnc(hnc::Fact::Anchors(vec![]))]);
        assert_eq!(awaited().await, Some(vec![]));
        writer.tell([Fact::Namespace(namespace("above", "2", true))]);
        assert_eq!(awaited().await, Some(vec!["above".to_owned()]));
        writer.tell([Fact::NamespaceGone("above".into(), "above".into())]);
        writer.tell([Fact::StreamLost(Stream::NAMESPACES, "gone".into())]);
        writer.tell([Fact::NamespaceGone("below".into(), "below".into())]);
        writer.tell([Fact::Namespaces(vec![])]);
        assert_eq!(awaited().await, Some(vec![]));
    }

    #[test]
    fn what_is_registered_is_read_back() {
        for policies in [true, false] {
            let settings = RegistrationSettings {
                propagated: pairs(&[("x.io", "things"), ("", "secrets"), ("", "configmaps")]),
                policies,
                ..RegistrationSettings::default()
            };
            let validating = serde_json::to_value(admission(&settings).validating).unwrap();
            let expected = pairs(&[("", "configmaps"), ("", "secrets"), ("x.io", "things")]);
            assert_eq!(registered(&validating), expected);
        }
        assert_eq!(registered(&json!({ "webhooks": [{ "name": names::webhooks::OBJECTS }] })), []);
        assert_eq!(registered(&json!({})), []);
    }
}
