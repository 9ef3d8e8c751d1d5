//! Which copies are not as they should be, by the plans of a [`Forest`] built from lists. Only metadata is read: nobody needs
//! to see a Secret's content to know whether it arrived.
//!
//! Contents are not compared: a copy counts as right when it is there and comes from where it should.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forest::plan::{Action, plan};
use forest::{Fact, Forest, Kind, KindSettings, Mode, Name, ObjectFact, ObjectScope, Scope};
use hns_api::{HNCConfiguration, ResourceStatus, SynchronizationMode, names};
use hns_runtime::ingest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Map;

use crate::Failure;
use crate::evidence::Evidence;
use crate::failure::Problem;
use crate::published;
use crate::session::Session;

/// Secrets that no installation reads, as they are never propagated and may be many.
const SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";

/// A forest that knows the objects of all propagated kinds that the user may list.
pub(crate) struct Objects {
    forest: Forest,
    facts: Vec<(String, ObjectFact)>,
    /// What could not be read, for people.
    pub(crate) notes: Vec<String>,
}

/// A copy that is not right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wrong {
    pub(crate) namespace: Name,
    /// `rolebindings.rbac.authorization.k8s.io`.
    pub(crate) resource: String,
    pub(crate) name: Name,
    /// Where it should come from; none if it should not be there.
    pub(crate) source: Option<Name>,
}

impl Objects {
    /// Reads the objects of every propagated kind, as the installation in this namespace sees them.
    ///
    /// # Errors
    /// A list failed for another reason than rights.
    pub(crate) async fn read(
        session: &Session,
        evidence: &Evidence,
        installation: &str,
    ) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let kinds = kinds(session, &mut notes).await?;
        let (settings, note) = published::settings(session, installation).await;
        notes.extend(note);
        let forest = evidence.forest_under(Arc::new(settings));
        let mut objects = Self { forest, facts: Vec::new(), notes };
        objects.forest.apply(Fact::Kinds(kinds.clone()));
        for settings in kinds.iter().filter(|it| it.mode != Mode::Ignore) {
            objects.add(session, &settings.kind).await?;
        }
        Ok(objects)
    }

    async fn add(&mut self, session: &Session, kind: &Kind) -> Result<(), Failure> {
        let Some(id) = self.forest.kind_named(&kind.group, &kind.kind) else { return Ok(()) };
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.resource);
        let api = Api::<DynamicObject>::all_with(session.client.clone(), &resource);
        let is_secret = kind.group.is_empty() && kind.kind == "Secret";
        let params = if is_secret { ListParams::default().fields(SECRETS) } else { ListParams::default() };
        let listed = match session.list_metadata(&api, &params).await {
            Ok(listed) => listed,
            Err(problem) if problem.is_forbidden() => {
                self.notes.push(format!(
                    "you may not list {} in the whole cluster, so their copies were not looked at",
                    kind.group_resource()
                ));
                return Ok(());
            }
            Err(problem) => {
                return Err(Failure::because(
                    format!("{} cannot be listed", kind.group_resource()),
                    &problem,
                ));
            }
        };
        let settings = self.forest.settings();
        let content = Some(Map::new());
        let facts: Vec<ObjectFact> = listed
            .into_iter()
            .map(|object| ingest::object(kind, settings, object.metadata, content.clone()))
            .collect();
        self.facts.extend(facts.iter().map(|fact| (kind.group_resource(), fact.clone())));
        self.forest.apply(Fact::Objects(id, facts));
        Ok(())
    }

    /// How many copies there are in these namespaces.
    pub(crate) fn copies(&self, namespaces: &BTreeSet<Name>) -> usize {
        let is_one =
            |fact: &ObjectFact| fact.inherited_from.is_some() && namespaces.contains(&fact.namespace);
        self.facts.iter().filter(|(_, fact)| is_one(fact)).count()
    }

    /// The copies in these namespaces that are missing, left over, or from elsewhere.
    pub(crate) fn wrong(&self, namespaces: &BTreeSet<Name>) -> Vec<Wrong> {
        let origins: BTreeMap<(&str, &str, &str), Option<&Name>> = self
            .facts
            .iter()
            .map(|(resource, fact)| {
                ((&**resource, &*fact.namespace, &*fact.name), fact.inherited_from.as_ref())
            })
            .collect();
        let scope = Scope { structure: false, objects: ObjectScope::All };
        let mut wrong: Vec<Wrong> = Vec::new();
        for namespace in namespaces {
            for action in plan(&self.forest, namespace, &scope).actions() {
                wrong.extend(self.judge(namespace, action, &origins));
            }
        }
        wrong.sort();
        wrong.dedup();
        wrong
    }

    fn judge(
        &self,
        namespace: &Name,
        action: &Action,
        origins: &BTreeMap<(&str, &str, &str), Option<&Name>>,
    ) -> Option<Wrong> {
        let key = action.key()?;
        let resource = self.forest.kind(key.kind).group_resource();
        let origin = origins.get(&(&*resource, &**namespace, &*key.name)).copied().flatten();
        let source = match action {
            Action::Delete { .. } => None,
            // It is where it should be from; what else differs may be what flags say.
            Action::Replace { source, .. } if origin == Some(source) => return None,
            Action::Create { source, .. } | Action::Replace { source, .. } => Some(source.clone()),
            _ => return None,
        };
        Some(Wrong { namespace: namespace.clone(), resource, name: key.name.clone(), source })
    }
}

/// The kinds that are propagated: those that always are, and those that the configuration shows to be.
async fn kinds(session: &Session, notes: &mut Vec<String>) -> Result<Vec<KindSettings>, Failure> {
    let mut kinds: Vec<KindSettings> =
        [Kind::role(), Kind::role_binding()].map(|kind| KindSettings::new(kind, Mode::Propagate)).into();
    let api = session.all::<HNCConfiguration>();
    let config = match session.call(api.get_opt(names::HNC_CONFIGURATION)).await {
        Ok(config) => config.and_then(|it| it.status).unwrap_or_default(),
        Err(problem) if problem.is_forbidden() => {
            notes.push(
                "you may not read the HNCConfiguration, so only roles and rolebindings were looked at".into(),
            );
            return Ok(kinds);
        }
        Err(problem) => return Err(Failure::because("the HNCConfiguration cannot be read", &problem)),
    };
    for shown in &config.resources {
        let always =
            kinds.iter().any(|it| it.kind.group == shown.group && it.kind.resource == shown.resource);
        if always {
            continue;
        }
        match resolve(session, shown).await {
            Ok(Some(kind)) => kinds.push(KindSettings::new(kind, mode(shown))),
            Ok(None) => {}
            Err(problem) => {
                notes.push(format!("{} could not be looked at: {problem}", shown.resource));
            }
        }
    }
    Ok(kinds)
}

fn mode(shown: &ResourceStatus) -> Mode {
    use SynchronizationMode::{AllowPropagate, Ignore, Propagate, Remove, Unknown};
    match shown.mode.clone().unwrap_or_default() {
        Propagate => Mode::Propagate,
        AllowPropagate => Mode::AllowPropagate,
        Remove => Mode::Remove,
        Ignore | Unknown(_) => Mode::Ignore,
    }
}

/// The kind behind a resource, by discovery.
async fn resolve(session: &Session, shown: &ResourceStatus) -> Result<Option<Kind>, Problem> {
    let ResourceStatus { group, version, resource, .. } = shown;
    let list = if group.is_empty() {
        session.call(session.client.list_core_api_resources(version)).await?
    } else {
        session.call(session.client.list_api_group_resources(&format!("{group}/{version}"))).await?
    };
    let is_meant = |it: &&APIResource| it.name == *resource || it.singular_name == *resource;
    Ok(list.resources.iter().find(is_meant).map(|it| Kind {
        group: group.clone(),
        version: version.clone(),
        kind: it.kind.clone(),
        resource: it.name.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::evidence;
    use crate::evidence::tests::sketch;

    fn objects(lines: &[&str], roles: &[(&str, &str, Option<&str>)]) -> Objects {
        let mut forest = sketch(lines).forest();
        let kind = Kind::role();
        forest.apply(Fact::Kinds(vec![KindSettings::new(kind.clone(), Mode::Propagate)]));
        let id = forest.kind_named(&kind.group, &kind.kind).unwrap();
        let fact = |(namespace, name, from): &(&str, &str, Option<&str>)| {
            let label = from.map(|from| (hns_api::labels::INHERITED_FROM.to_owned(), from.to_owned()));
            let metadata = ObjectMeta {
                namespace: Some((*namespace).to_owned()),
                name: Some((*name).to_owned()),
                labels: label.map(|label| BTreeMap::from([label])),
                ..ObjectMeta::default()
            };
            ingest::object(&kind, &evidence::settings(), metadata, Some(Map::new()))
        };
        let facts: Vec<ObjectFact> = roles.iter().map(fact).collect();
        forest.apply(Fact::Objects(id, facts.clone()));
        let facts = facts.into_iter().map(|fact| (kind.group_resource(), fact)).collect();
        Objects { forest, facts, notes: Vec::new() }
    }

    fn wrong(objects: &Objects, namespaces: &[&str]) -> Vec<(String, Option<String>)> {
        let namespaces = namespaces.iter().map(|it| Name::from(*it)).collect();
        let shown = |it: Wrong| (format!("{}/{}", it.namespace, it.name), it.source.map(|it| it.to_string()));
        objects.wrong(&namespaces).into_iter().map(shown).collect()
    }

    #[test]
    fn missing_surplus_and_misplaced_copies_are_wrong() {
        let objects = objects(
            &["a", "b < a", "c < a", "x"],
            &[
                ("a", "r", None),
                ("b", "r", Some("a")),
                ("b", "stale", Some("a")),
                ("b", "foreign", Some("x")),
            ],
        );
        assert_eq!(
            wrong(&objects, &["a", "b", "c"]),
            [
                ("b/foreign".to_owned(), None),
                ("b/stale".to_owned(), None),
                ("c/r".to_owned(), Some("a".to_owned())),
            ]
        );
        assert_eq!(wrong(&objects, &["a"]), []);
        assert_eq!(objects.copies(&BTreeSet::from(["b".into()])), 3);
    }

    #[test]
    fn a_copy_from_another_ancestor_is_wrong() {
        let objects = objects(
            &["a", "b < a", "c < b"],
            &[("a", "r", None), ("b", "r", Some("a")), ("c", "r", Some("b"))],
        );
        assert_eq!(wrong(&objects, &["c"]), [("c/r".to_owned(), Some("a".to_owned()))]);
    }
}
