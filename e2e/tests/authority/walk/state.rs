//! The state of the cluster, read from the API server, and the rights of users according to its authorizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use forest::hnc;
use forest::plan::{Action, HncAction, plan};
use forest::{Fact, Forest, Kind, KindSettings, Mode, Name, Scope, Settings};
use futures::future::try_join_all;
use hns_api::{HierarchyConfiguration, SubnamespaceAnchor, annotations};
use hns_cluster::ingest;
use hns_e2e::Steps;
use hns_e2e::steps::binding;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectAccessReview,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::{NAMES, USERS};

/// A right, as in `update hierarchyconfigurations.hnc.x-k8s.io`.
pub(crate) type Rights = BTreeSet<String>;

/// By user and namespace.
#[derive(Debug, Default)]
pub(crate) struct Access(BTreeMap<(usize, &'static str), Rights>);

impl Access {
    /// Reads the rights of every user in every namespace.
    pub(crate) async fn ask(users: &[Client]) -> Result<Self> {
        let all = (0..users.len()).flat_map(|user| NAMES.map(|name| (user, name)));
        let asked =
            all.map(async |(user, name)| anyhow::Ok(((user, name), rights(&users[user], name).await?)));
        Ok(Self(try_join_all(asked).await?.into_iter().collect()))
    }

    pub(crate) fn of(&self, user: usize, namespace: &str) -> &Rights {
        static NOTHING: Rights = Rights::new();
        let found = self.0.iter().find(|((who, name), _)| *who == user && *name == namespace);
        found.map_or(&NOTHING, |(_, rights)| rights)
    }
}

async fn rights(user: &Client, namespace: &str) -> Result<Rights> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let answer = Api::all(user.clone()).create(&PostParams::default(), &review).await?;
    let mut rights = Rights::new();
    for rule in answer.status.unwrap_or_default().resource_rules {
        for group in rule.api_groups.unwrap_or_default() {
            let dot = if group.is_empty() { "" } else { "." };
            for resource in rule.resources.iter().flatten() {
                rights.extend(rule.verbs.iter().map(|verb| format!("{verb} {resource}{dot}{group}")));
            }
        }
    }
    Ok(rights)
}

/// A namespace of the walk.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    pub(crate) terminating: bool,
    /// The parent that the annotation names.
    pub(crate) made_by: Option<String>,
}

/// Everything that the walk reads.
pub(crate) struct State {
    pub(crate) forest: Forest,
    pub(crate) namespaces: BTreeMap<String, Seen>,
    /// Objects by resource, namespace and name, and whether they are copies.
    pub(crate) objects: BTreeMap<[String; 3], bool>,
    /// Parents and children.
    pub(crate) anchors: BTreeSet<(String, String)>,
    pub(crate) access: Access,
}

fn secrets() -> Kind {
    Kind { group: String::new(), version: "v1".into(), kind: "Secret".into(), resource: "secrets".into() }
}

fn place(object: &DynamicObject) -> (String, String) {
    let metadata = &object.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn is_ours(name: Option<&String>) -> bool {
    name.is_some_and(|name| NAMES.contains(&name.as_str()))
}

async fn list<K: Resource<DynamicType = ()>>(client: &Client) -> Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let mut items = api.list(&ListParams::default()).await?.items;
    items.retain(|it| is_ours(it.metadata.namespace.as_ref()));
    Ok(items)
}

impl State {
    /// Reads everything but the rights of users.
    pub(crate) async fn look(client: &Client, secrets_are: Mode) -> Result<Self> {
        let (mut namespaces, hierarchies, anchors, roles, bindings, other) = tokio::try_join!(
            async {
                let all = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await?;
                anyhow::Ok(all.items)
            },
            list::<HierarchyConfiguration>(client),
            list::<SubnamespaceAnchor>(client),
            list::<Role>(client),
            list::<RoleBinding>(client),
            list::<Secret>(client),
        )?;
        namespaces.retain(|it| is_ours(it.metadata.name.as_ref()));
        let kinds = [Kind::role(), Kind::role_binding(), secrets()];
        let settings = Arc::new(Settings::new("hnc-system", [""; 0], ".*")?);
        let mut state = Self {
            forest: Forest::new(settings, kinds.to_vec()),
            namespaces: namespaces.iter().map(seen).collect(),
            objects: BTreeMap::new(),
            anchors: anchors.iter().map(place).collect(),
            access: Access::default(),
        };
        let namespaces = namespaces.iter().map(|it| ingest::namespace(&it.metadata)).collect();
        state.forest.apply(Fact::Namespaces(namespaces));
        state.forest.apply(Fact::Hnc(hnc::Fact::Hierarchies(
            hierarchies.into_iter().map(ingest::hierarchy).collect(),
        )));
        state.forest.apply(Fact::Hnc(hnc::Fact::Anchors(anchors.into_iter().map(ingest::anchor).collect())));
        let modes = [Mode::Propagate, Mode::Propagate, secrets_are];
        let configured = kinds.iter().cloned().zip(modes).map(|(kind, mode)| KindSettings::new(kind, mode));
        state.forest.apply(Fact::Kinds(configured.collect()));
        for (kind, objects) in kinds.iter().zip([roles, bindings, other]) {
            state.hear(kind, objects)?;
        }
        Ok(state)
    }

    fn hear(&mut self, kind: &Kind, objects: Vec<DynamicObject>) -> Result<()> {
        let id = self.forest.kind_named(&kind.group, &kind.kind).context("the kind is configured")?;
        let settings = self.forest.shared_settings();
        let mut facts = Vec::new();
        for object in objects {
            let (namespace, name) = place(&object);
            let Value::Object(content) = object.data else { continue };
            let fact = ingest::object(kind, &settings, object.metadata, Some(content));
            self.objects.insert([kind.resource.clone(), namespace, name], fact.inherited_from.is_some());
            facts.push(fact);
        }
        self.forest.apply(Fact::Objects(id, facts));
        Ok(())
    }

    /// What any part still has to do.
    pub(crate) fn open(&self) -> Vec<String> {
        let going = self.namespaces.iter().filter(|(_, seen)| seen.terminating);
        let mut open: Vec<String> = going.map(|(name, _)| format!("{name} is going")).collect();
        for name in NAMES {
            let plan = plan(&self.forest, name, &Scope::whole());
            let takes_over = matches!(
                &plan.report,
                Some(Action::Dialect(
                    HncAction::CreateHierarchy { spec: Some(_), .. }
                        | HncAction::UpdateHierarchy { spec: Some(_), .. }
                ))
            );
            if takes_over || !plan.steps.is_empty() {
                open.push(format!("{name}: {:?} {:?}", plan.report, plan.steps));
            }
        }
        open
    }

    /// A namespace and all above it, nearest first.
    pub(crate) fn above(&self, name: &str) -> Vec<Name> {
        self.forest.ancestry(name)
    }
}

fn seen(namespace: &Namespace) -> (String, Seen) {
    let metadata = &namespace.metadata;
    let made_by = metadata.annotations.as_ref().and_then(|it| it.get(annotations::SUBNAMESPACE_OF));
    let seen = Seen {
        uid: metadata.uid.clone().unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
        made_by: made_by.filter(|parent| !parent.is_empty()).cloned(),
    };
    (metadata.name.clone().unwrap_or_default(), seen)
}

/// A Role and a binding that show how far the API server's view of RBAC is: it receives Roles, and bindings, in order.
pub(crate) struct Fence {
    steps: Steps,
    passed: usize,
}

const FENCE: &str = "walk-fence";

impl Fence {
    pub(crate) async fn begin(steps: &Steps) -> Result<Self> {
        steps.create_namespace(FENCE).await?;
        steps.create_role(FENCE, FENCE, (&["use"], "walk", "nothing")).await?;
        steps.create_binding(FENCE, FENCE, ("Role", FENCE), "nobody").await?;
        Ok(Self { steps: steps.clone(), passed: 0 })
    }

    /// Waits until the authorizer knows everything that has been written so far.
    pub(crate) async fn pass(&mut self) -> Result<()> {
        self.passed += 1;
        let mark = format!("{FENCE}-{}", self.passed);
        let allowed = json!({ "rules": [{ "verbs": ["use"], "apiGroups": ["walk"], "resources": [mark] }] });
        let subjects = json!({ "subjects": binding(FENCE, ("Role", FENCE), &mark).subjects });
        let (roles, bindings) = (self.steps.roles(FENCE), self.steps.bindings(FENCE));
        let params = PatchParams::default();
        tokio::try_join!(
            async { roles.patch(FENCE, &params, &Patch::Merge(allowed)).await.map(drop) },
            async { bindings.patch(FENCE, &params, &Patch::Merge(subjects)).await.map(drop) },
        )?;
        let mut review = SubjectAccessReview::default();
        review.spec.user = Some(mark.clone());
        review.spec.resource_attributes = Some(ResourceAttributes {
            verb: Some("use".into()),
            group: Some("walk".into()),
            resource: Some(mark),
            namespace: Some(FENCE.into()),
            ..ResourceAttributes::default()
        });
        let reviews: Api<SubjectAccessReview> = Api::all(self.steps.client.clone());
        let heard = async {
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await?;
                if answer.status.is_some_and(|it| it.allowed) {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        tokio::time::timeout(super::PATIENCE, heard).await.context("the authorizer hears of RBAC")?
    }
}

/// The number of a user.
pub(crate) fn users() -> impl Iterator<Item = usize> {
    0..USERS.len()
}
