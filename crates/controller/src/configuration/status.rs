//! The required status of the `HNCConfiguration` (sections 2.3 and 4.3 of docs/compatibility.md). Pure.

use std::collections::{BTreeMap, BTreeSet};

use forest::configuration::rights::Lack;
use forest::configuration::{Finding, Resolution, Resolved};
use forest::text::{MESSAGE, limited};
use forest::{Forest, KindId, Mode, Name, Reason, Stream, StreamState};
use hns_api::conditions::{
    BAD_CONFIGURATION, NAMESPACE_CONDITION, OUT_OF_SYNC, STATUS_TRUE, bad_configuration,
};
use hns_api::{Condition, HNCConfigurationStatus, ResourceStatus, SynchronizationMode};
use hns_cluster::settings::refusal;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The maximum number of namespaces in a condition.
const NAMED: usize = 3;

/// The required status without the times of its conditions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    resources: Vec<ResourceStatus>,
    conditions: Vec<Draft>,
}

/// A condition without its time. Its identity does not include the message.
#[derive(Debug, Clone, PartialEq)]
struct Draft {
    type_: &'static str,
    reason: String,
    message: String,
}

/// Problems of the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Troubles<'a> {
    /// The rights that the service accounts lack.
    pub(super) lacks: &'a [Lack],
    /// Why the configuration itself is not current.
    pub(super) outdated: Option<&'a str>,
    /// Why the document of the settings is not in force.
    pub(super) settings: Option<&'a str>,
}

/// The required status, from the forest, the configuration and its problems.
pub(super) fn wanted(forest: &Forest, resolution: &Resolution, troubles: &Troubles<'_>) -> Wanted {
    let Troubles { lacks, outdated, settings } = *troubles;
    let outdated = outdated.map(|why| {
        draft(
            BAD_CONFIGURATION,
            bad_configuration::UNKNOWN,
            format!("The configuration is not up to date: {why}"),
        )
    });
    let settings = settings.map(settings_refused);
    let findings = resolution.findings.iter().map(finding);
    let conditions = outdated.into_iter().chain(settings).chain(findings).chain(lacks.iter().map(lack));
    let conditions = conditions.chain(lost(forest, lacks)).chain(namespaces(forest));
    Wanted { resources: resources(forest, resolution), conditions: conditions.collect() }
}

/// Whether a status shows this refusal of the settings, or none if there is none.
pub(super) fn shows_refusal(shown: &HNCConfigurationStatus, refused: Option<&str>) -> bool {
    let is_it = |it: &&Condition| it.reason == bad_configuration::SETTINGS_REFUSED;
    let said = shown.conditions.iter().find(is_it).map(|it| &*it.message);
    said == refused.map(settings_refused).as_ref().map(|it| &*it.message)
}

fn settings_refused(why: &str) -> Draft {
    draft(BAD_CONFIGURATION, bad_configuration::SETTINGS_REFUSED, sentence(&refusal(why)))
}

fn draft(type_: &'static str, reason: impl Into<String>, message: impl AsRef<str>) -> Draft {
    Draft { type_, reason: reason.into(), message: limited(message.as_ref(), MESSAGE).into() }
}

fn finding(finding: &Finding) -> Draft {
    draft(BAD_CONFIGURATION, finding.fault.reason(), finding.to_string())
}

fn lack(lack: &Lack) -> Draft {
    draft(OUT_OF_SYNC, bad_configuration::MISSING_RIGHTS, sentence(&lack.to_string()))
}

fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The kinds that cannot be listed for another reason than a missing right that is already known.
fn lost<'a>(forest: &'a Forest, lacks: &'a [Lack]) -> impl Iterator<Item = Draft> + 'a {
    let is_explained = |kind: &forest::Kind| lacks.iter().any(|lack| lack.kind == *kind);
    forest.kinds().filter(move |(_, settings)| !is_explained(&settings.kind)).filter_map(|(id, settings)| {
        let StreamState::Lost(why) = forest.stream(Stream::Kind(id)) else { return None };
        let message = format!(
            "{} cannot be listed, so nothing is done with them: {why}",
            settings.kind.group_resource()
        );
        Some(draft(OUT_OF_SYNC, bad_configuration::UNKNOWN, message))
    })
}

/// Whether a status has the configured kinds, whatever its counts.
pub(super) fn shows_kinds(shown: &HNCConfigurationStatus, forest: &Forest, resolution: &Resolution) -> bool {
    let kinds = |resources: &[ResourceStatus]| -> Vec<ResourceStatus> {
        let without_numbers = |it: &ResourceStatus| ResourceStatus {
            num_propagated_objects: None,
            num_source_objects: None,
            ..it.clone()
        };
        resources.iter().map(without_numbers).collect()
    };
    kinds(&shown.resources) == kinds(&resources(forest, resolution))
}

fn resources(forest: &Forest, resolution: &Resolution) -> Vec<ResourceStatus> {
    let mut resources: Vec<ResourceStatus> =
        resolution.kinds.iter().map(|resolved| resource(forest, resolved)).collect();
    resources.sort_by(|one, other| (&one.group, &one.resource).cmp(&(&other.group, &other.resource)));
    resources
}

fn resource(forest: &Forest, Resolved { settings, resource, .. }: &Resolved) -> ResourceStatus {
    let id: Option<KindId> = forest.kind_named(&settings.kind.group, &settings.kind.kind);
    // A partial count would look like the whole.
    let known = id.filter(|id| forest.stream(Stream::Kind(*id)).is_synced());
    let counts = known.map(|id| forest.counts(id)).unwrap_or_default();
    let number = |count: usize| known.and_then(|_| u64::try_from(count).ok());
    let (mode, copies, sources) = match settings.mode {
        Mode::Propagate => (SynchronizationMode::Propagate, true, true),
        Mode::AllowPropagate => (SynchronizationMode::AllowPropagate, true, true),
        Mode::Remove => (SynchronizationMode::Remove, true, false),
        Mode::Ignore => (SynchronizationMode::Ignore, false, false),
    };
    ResourceStatus {
        group: settings.kind.group.clone(),
        version: settings.kind.version.clone(),
        resource: resource.clone(),
        mode: Some(mode),
        num_propagated_objects: number(counts.copies).filter(|_| copies),
        num_source_objects: number(counts.sources).filter(|_| sources),
    }
}

/// For the printer column: `jsonPath` finds the first element of a list only.
fn summary(resources: &[ResourceStatus]) -> String {
    let is_ambiguous = |it: &ResourceStatus| {
        !it.group.is_empty() && resources.iter().filter(|other| other.resource == it.resource).count() > 1
    };
    let names = resources.iter().map(|it| {
        let ResourceStatus { resource, group, .. } = it;
        let name = if is_ambiguous(it) { format!("{resource}.{group}") } else { resource.clone() };
        match &it.mode {
            Some(SynchronizationMode::AllowPropagate) => format!("{name} (AllowPropagate)"),
            Some(SynchronizationMode::Remove) => format!("{name} (Remove)"),
            Some(SynchronizationMode::Ignore) => format!("{name} (Ignore)"),
            _ => name,
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

/// One condition for each condition that namespaces have.
fn namespaces(forest: &Forest) -> Vec<Draft> {
    let mut shown: BTreeMap<(&str, &str), BTreeSet<&Name>> = BTreeMap::new();
    for (namespace, conditions) in forest.conditions_by_namespace() {
        // One of a user's could make the whole status invalid.
        for condition in conditions.iter().filter(|it| Reason::of(it).is_some()) {
            shown.entry((&condition.type_, &condition.reason)).or_default().insert(namespace);
        }
    }
    let summaries = shown
        .into_iter()
        .map(|((type_, reason), names)| draft(NAMESPACE_CONDITION, type_, affected(&names, reason)));
    summaries.collect()
}

/// With HNC's messages.
fn affected(names: &BTreeSet<&Name>, reason: &str) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("{name:?}")).collect();
    let first = first.join(", ");
    match names.len() {
        1 => format!("Namespaces {first} is affected by {reason:?}"),
        count if count <= NAMED => format!("{count} namespaces {first} are affected by {reason:?}"),
        count => format!("{count} namespaces {first} ... are affected by {reason:?}"),
    }
}

impl Wanted {
    /// The status to write if `shown` exists; `None` if it says the same. A condition that existed before keeps its time.
    pub(super) fn against(
        self,
        shown: &HNCConfigurationStatus,
        now: &Time,
    ) -> Option<HNCConfigurationStatus> {
        let began = |draft: &Draft| {
            let before = shown.conditions.iter().find(|it| draft.is_about_the_same_as(it));
            before.map_or_else(|| now.clone(), |it| it.last_transition_time.clone())
        };
        let conditions = self.conditions.into_iter().map(|draft| Condition {
            last_transition_time: began(&draft),
            type_: draft.type_.to_owned(),
            reason: draft.reason,
            message: draft.message,
            status: STATUS_TRUE.to_owned(),
            observed_generation: None,
        });
        let status = HNCConfigurationStatus {
            resources_summary: summary(&self.resources),
            resources: self.resources,
            conditions: conditions.collect(),
        };
        (status != *shown).then_some(status)
    }
}

impl Draft {
    fn is_about_the_same_as(&self, shown: &Condition) -> bool {
        let same = self.type_ == shown.type_ && self.reason == shown.reason;
        same && if self.type_ == NAMESPACE_CONDITION {
            reason_in(&self.message) == reason_in(&shown.message)
        } else {
            self.message == shown.message
        }
    }
}

/// The condition that a message says namespaces are affected by.
fn reason_in(message: &str) -> Option<&str> {
    message.rsplit_once(" affected by ").map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forest::configuration::rights::Account;
    use forest::configuration::{Entry, Served, ServedKind, resolve};
    use forest::hnc;
    use forest::{
        Fact, HierarchyFact, HierarchyStatus, Kind, KindSettings, NamespaceFact, ObjectFact, Settings,
        Version,
    };
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn kind(kind: &str) -> Kind {
        let resource = format!("{}s", kind.to_lowercase());
        Kind { group: String::new(), version: "v1".into(), kind: kind.into(), resource }
    }

    fn resolution(entries: &[(&str, Mode)]) -> Resolution {
        let verbs = ["list", "watch", "create", "update", "delete"].map(str::to_owned);
        let kinds = ["Secret", "ConfigMap", "Event"].map(|name| ServedKind {
            kind: kind(name),
            singular: name.to_lowercase(),
            short_names: vec![],
            namespaced: true,
            verbs: verbs.clone().into(),
        });
        let served = Served { kinds: kinds.into(), ..Served::default() };
        let entry = |(resource, mode): &(&str, Mode)| {
            Ok(Entry { resource: (*resource).into(), mode: *mode, ..Entry::default() })
        };
        resolve(&entries.iter().map(entry).collect::<Vec<_>>(), &served)
    }

    /// With the conditions that some namespaces show: name, type and reason.
    fn forest(kinds: Vec<KindSettings>, shown: &[(&str, &str, &str)]) -> Forest {
        let settings = Settings::new("hnc-system", [""; 0], ".*").unwrap();
        let mut forest = Forest::unconfigured(Arc::new(settings));
        forest.apply(Fact::Kinds(kinds));
        let version = || Version { uid: "1".into(), resource_version: "1".into() };
        let mut by_name: BTreeMap<&str, Vec<forest::Condition>> = BTreeMap::new();
        for (name, type_, reason) in shown {
            by_name.entry(name).or_default().push(forest::Condition {
                type_: (*type_).into(),
                reason: (*reason).into(),
                message: "".into(),
                since: None,
            });
        }
        for (name, conditions) in by_name {
            let status = HierarchyStatus { conditions, ..HierarchyStatus::default() };
            forest.apply(Fact::Namespace(NamespaceFact {
                name: name.into(),
                version: version(),
                ..NamespaceFact::default()
            }));
            let hierarchy = HierarchyFact { version: version(), status, ..HierarchyFact::default() };
            forest.apply(Fact::Hnc(hnc::Fact::Hierarchy(name.into(), hierarchy)));
        }
        forest
    }

    fn object(at: usize, inherited_from: Option<&str>) -> ObjectFact {
        ObjectFact {
            inherited_from: inherited_from.map(Into::into),
            ..ObjectFact::new(
                format!("n{at}").into(),
                "x".into(),
                Version { uid: at.to_string().into(), resource_version: "1".into() },
            )
        }
    }

    fn lines(wanted: &Wanted) -> Vec<String> {
        let line = |it: &Draft| format!("{} {} {}", it.type_, it.reason, it.message);
        wanted.conditions.iter().map(line).collect()
    }

    #[test]
    fn resources_are_shown_as_typed_with_what_counts_in_their_mode() {
        let resolution = resolution(&[
            ("secrets", Mode::Propagate),
            ("configmap", Mode::Remove),
            ("events", Mode::Ignore),
            ("crontabs", Mode::Propagate),
        ]);
        let mut forest = forest(resolution.settings().cloned().collect(), &[]);
        for name in ["Secret", "ConfigMap"] {
            let id = forest.kind_named("", name).unwrap();
            let all = (0..5).map(|at| object(at, (at > 1).then_some("n0")));
            forest.apply(Fact::Objects(id, all.collect()));
        }
        // Of bindings nothing is known yet.
        let roles = forest.kind_named("rbac.authorization.k8s.io", "Role").unwrap();
        forest.apply(Fact::Objects(roles, vec![]));
        let status = wanted(&forest, &resolution, &Troubles::default());
        let shown: Vec<String> = status
            .resources
            .iter()
            .map(|it| {
                let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
                let mode = serde_json::to_value(&it.mode).unwrap();
                format!(
                    "{}/{} {} {} {} {}",
                    it.group,
                    it.version,
                    it.resource,
                    mode.as_str().unwrap(),
                    count(it.num_source_objects),
                    count(it.num_propagated_objects)
                )
            })
            .collect();
        let expected = [
            "/v1 configmap Remove - 3",
            "/v1 events Ignore - -",
            "/v1 secrets Propagate 2 3",
            "rbac.authorization.k8s.io/v1 rolebindings Propagate - -",
            "rbac.authorization.k8s.io/v1 roles Propagate 0 0",
        ];
        assert_eq!(shown, expected);
        let one_line = "configmap (Remove), events (Ignore), secrets, rolebindings, roles";
        assert_eq!(summary(&status.resources), one_line);
        let events = ["", "events.k8s.io"].map(|group| ResourceStatus {
            group: group.into(),
            resource: "events".into(),
            ..ResourceStatus::default()
        });
        assert_eq!(summary(&events), "events, events.events.k8s.io");
        let [line] = &lines(&status)[..] else { panic!("{status:?}") };
        assert!(
            line.starts_with("BadConfiguration ResourceNotFound spec.resources[3] (\"crontabs\"): "),
            "{line}"
        );
    }

    #[test]
    fn what_namespaces_show_is_summed_up_in_hncs_words() {
        let halted = "ActivitiesHalted";
        let forest = forest(
            vec![],
            &[
                ("a", halted, "InCycle"),
                ("b", halted, "ParentMissing"),
                ("c", halted, "ParentMissing"),
                ("c", "BadConfiguration", "SubnamespaceAnchorMissing"),
                ("d", "BadConfiguration", "SubnamespaceAnchorMissing"),
                ("e", "BadConfiguration", "SubnamespaceAnchorMissing"),
                ("i", halted, "AncestorHaltActivities"),
                ("h", halted, "AncestorHaltActivities"),
                ("g", halted, "AncestorHaltActivities"),
                ("f", halted, "AncestorHaltActivities"),
                // Users can store any others, which may be invalid here.
                ("j", "example.com/x", "InCycle"),
                ("j", halted, "Odd"),
            ],
        );
        let status = wanted(&forest, &Resolution::enforced(), &Troubles::default());
        let expected = [
            r#"NamespaceCondition ActivitiesHalted 4 namespaces "f", "g", "h" ... are affected by "AncestorHaltActivities""#,
            r#"NamespaceCondition ActivitiesHalted Namespaces "a" is affected by "InCycle""#,
            r#"NamespaceCondition ActivitiesHalted 2 namespaces "b", "c" are affected by "ParentMissing""#,
            r#"NamespaceCondition BadConfiguration 3 namespaces "c", "d", "e" are affected by "SubnamespaceAnchorMissing""#,
        ];
        assert_eq!(lines(&status), expected);
    }

    #[test]
    fn kinds_that_cannot_be_handled_are_named_with_the_reason() {
        let resolution = resolution(&[("secrets", Mode::Propagate), ("configmaps", Mode::Propagate)]);
        let mut forest = forest(resolution.settings().cloned().collect(), &[]);
        for name in ["Secret", "ConfigMap"] {
            let id = forest.kind_named("", name).unwrap();
            forest.apply(Fact::StreamLost(Stream::Kind(id), "they are forbidden".into()));
        }
        let lack = Lack { account: Account::Controller, kind: kind("Secret"), verbs: vec!["list"] };
        let troubles = Troubles {
            lacks: &[lack],
            outdated: Some("it cannot be read"),
            settings: Some("ConfigMap hns-config: settings.yaml: x: unknown field `x`"),
        };
        let status = wanted(&forest, &resolution, &troubles);
        let shown = status.clone().against(&HNCConfigurationStatus::default(), &Time(Timestamp::UNIX_EPOCH));
        let shown = shown.unwrap();
        for (refused, is_shown) in [(troubles.settings, true), (Some("another"), false), (None, false)] {
            assert_eq!(shows_refusal(&shown, refused), is_shown, "{refused:?}");
        }
        assert!(shows_refusal(&HNCConfigurationStatus::default(), None));
        let lines = lines(&status);
        let [trouble, settings, rights, lost] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            settings,
            "BadConfiguration SettingsRefused The settings document is refused, and the earlier settings stay in force: ConfigMap \
             hns-config: settings.yaml: x: unknown field `x`"
        );
        assert_eq!(
            trouble,
            "BadConfiguration Unknown The configuration is not up to date: it cannot be read"
        );
        assert!(
            rights.starts_with(
                "OutOfSync MissingRights The service account hns-controller may not list secrets"
            ),
            "{rights}"
        );
        assert!(rights.contains("ClusterRole hns-controller-propagation"), "{rights}");
        assert!(lost.starts_with("OutOfSync Unknown configmaps cannot be listed"), "{lost}");
    }

    #[test]
    fn nothing_is_written_twice_and_times_move_only_with_their_condition() {
        let at = |second| Time(Timestamp::from_second(second).unwrap());
        let condition = |reason: &str, message: &str| draft(BAD_CONFIGURATION, reason, message);
        let affected = |message: &str| draft(NAMESPACE_CONDITION, "ActivitiesHalted", message);
        let wanted = |conditions: &[Draft]| Wanted { resources: vec![], conditions: conditions.to_vec() };
        let times = |status: &HNCConfigurationStatus| -> Vec<i64> {
            status.conditions.iter().map(|it| it.last_transition_time.0.as_second()).collect()
        };

        let nothing = HNCConfigurationStatus::default();
        assert_eq!(wanted(&[]).against(&nothing, &at(1)), None);
        let (first, second) = (condition("ResourceNotFound", "one"), condition("ResourceNotFound", "two"));
        let one = affected(r#"Namespaces "a" is affected by "InCycle""#);
        let other = affected(r#"Namespaces "a" is affected by "ParentMissing""#);
        let shown = wanted(&[first.clone(), one.clone()]).against(&nothing, &at(1)).unwrap();
        assert_eq!(times(&shown), [1, 1]);
        assert_eq!(wanted(&[first.clone(), one.clone()]).against(&shown, &at(2)), None);

        let more = [second, first, affected(r#"2 namespaces "a", "b" are affected by "InCycle""#), other];
        let grown = wanted(&more).against(&shown, &at(3)).unwrap();
        assert_eq!(times(&grown), [3, 1, 1, 3]);
        assert_eq!(wanted(&[]).against(&grown, &at(4)), Some(nothing));
    }
}
