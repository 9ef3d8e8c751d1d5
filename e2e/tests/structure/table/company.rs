//! The company that the table is about: its namespaces as `company.yaml` draws them, and what its people may do.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use hns_api::GROUP;
use hns_e2e::steps::PATIENCE;
use hns_e2e::{Cluster, Steps, eventually};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request::Request;
use crate::structure::scene::{Scene, Structure};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Company {
    /// `N`, `N below P` or `N subnamespace of P`.
    namespaces: Vec<String>,
    /// What is made past all rules.
    objects: Vec<Value>,
    /// What the controller shows of each.
    conditions: BTreeMap<String, Vec<String>>,
    /// What each may do.
    people: BTreeMap<String, Vec<String>>,
}

/// Founds the company; when this returns, the controller has dealt with all of it, and everybody has their rights.
pub(crate) async fn found<H>(scene: &Scene<H>) -> Result<Company> {
    let company: Company = super::read("company")?;
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in &company.namespaces {
        let path = company.settle(scene, line, &paths).await?;
        paths.insert(path[0], path);
    }
    // The controller lists children a second later.
    for path in paths.values().filter(|path| path.len() > 1) {
        let lists =
            |it: &Value| it["status"]["children"].as_array().is_some_and(|all| all.contains(&path[0].into()));
        scene.steps.hierarchy_is(path[1], "lists its children", lists).await?;
    }
    for manifest in &company.objects {
        make(scene, manifest).await.with_context(|| format!("making {manifest}"))?;
    }
    for (namespace, reasons) in &company.conditions {
        let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
        scene.steps.reasons(namespace, &reasons).await?;
    }
    for (person, rights) in &company.people {
        for right in rights {
            Right::parse(right)?.give(scene.cluster(), &scene.steps, person, &paths).await?;
        }
    }
    Ok(company)
}

/// A hierarchy may be there already: the controller makes one where there is something to record.
async fn make<H>(scene: &Scene<H>, manifest: &Value) -> Result<()> {
    match (manifest["kind"].as_str(), manifest["metadata"]["namespace"].as_str()) {
        (Some("HierarchyConfiguration"), Some(namespace)) => {
            scene.slipped.configure(namespace, manifest["spec"].clone()).await
        }
        _ => Request::create(manifest.clone())?.make(&scene.slipped.client).await,
    }
}

impl Company {
    async fn settle<'a, H>(
        &self,
        scene: &Scene<H>,
        line: &'a str,
        paths: &BTreeMap<&'a str, Vec<&'a str>>,
    ) -> Result<Vec<&'a str>> {
        let words: Vec<&str> = line.split(' ').collect();
        let path = |name, parent| -> Result<Vec<&str>> {
            let above = paths.get(parent).with_context(|| format!("{line:?} comes before its parent"))?;
            Ok([&[name], above.as_slice()].concat())
        };
        let path = match words[..] {
            [name] => {
                scene.steps.create_namespace(name).await?;
                vec![name]
            }
            [name, "below", parent] => {
                scene.steps.plant(&[(name, parent)]).await?;
                path(name, parent)?
            }
            [name, "subnamespace", "of", parent] => {
                let path = path(name, parent)?;
                scene.steps.subnamespace(&path).await?;
                path
            }
            _ => bail!("no namespace is drawn by {line:?}"),
        };
        scene.steps.labelled(&path).await?;
        Ok(path)
    }

    /// Everything about the namespaces that the table could change by mistake.
    pub(crate) async fn drawn(&self, steps: &Steps) -> Result<BTreeMap<String, Value>> {
        let mut drawn = BTreeMap::new();
        let listed = self.namespaces.iter().filter_map(|line| line.split(' ').next());
        for name in listed.chain(self.conditions.keys().map(String::as_str)) {
            let hierarchy = steps.stored_hierarchy(name).await?.unwrap_or_default();
            let anchors = steps.anchors(name).list(&kube::api::ListParams::default()).await?.items;
            let anchors: Vec<_> = anchors.into_iter().map(|it| (it.metadata.name, it.spec)).collect();
            let seen =
                json!({ "marks": steps.marks(name).await?, "spec": hierarchy["spec"], "anchors": anchors });
            drawn.insert(name.to_owned(), seen);
        }
        Ok(drawn)
    }
}

/// The rights of a user.
#[derive(Debug)]
struct Right<'a> {
    verbs: Vec<&'a str>,
    resources: Vec<&'a str>,
    group: &'a str,
    namespace: Option<&'a str>,
}

impl<'a> Right<'a> {
    /// `everything`, `admin of N`, or `VERBS on RESOURCE` with or without `in N`.
    fn parse(text: &'a str) -> Result<Self> {
        if text == "everything" {
            return Ok(Self { verbs: vec!["*"], resources: vec!["*"], group: "*", namespace: None });
        }
        if let Some(namespace) = text.strip_prefix("admin of ") {
            return Ok(Self {
                verbs: vec!["*"],
                resources: vec!["*"],
                group: GROUP,
                namespace: Some(namespace),
            });
        }
        let (verbs, object) =
            text.split_once(" on ").with_context(|| format!("no right is called {text:?}"))?;
        let verbs = if verbs == "every verb" { vec!["*"] } else { verbs.split(", ").collect() };
        let (resource, namespace) =
            object.split_once(" in ").map_or((object, None), |(it, place)| (it, Some(place)));
        if resource == "namespaces" {
            let resources = vec!["namespaces", "namespaces/status", "namespaces/finalize"];
            return Ok(Self { verbs, resources, group: "", namespace });
        }
        Ok(Self { verbs, resources: vec![resource], group: GROUP, namespace })
    }

    /// Gives the right, and waits until the API server knows of it, below too.
    async fn give(
        &self,
        cluster: &Cluster,
        steps: &Steps,
        user: &str,
        paths: &BTreeMap<&str, Vec<&str>>,
    ) -> Result<()> {
        let Some(namespace) = self.namespace else {
            self.give_everywhere(cluster, user).await?;
            return self.holds(cluster, user, None).await;
        };
        // It is propagated: a name of its own in every namespace, or it would be in the way of itself.
        let name = format!("{user}-in-{namespace}");
        steps.create_role(namespace, &name, (&self.verbs, self.group, self.resources[0])).await?;
        steps.create_binding(namespace, &name, ("Role", &name), user).await?;
        let below = paths.iter().filter(|(_, path)| path.contains(&namespace)).map(|(name, _)| *name);
        for place in below.chain([namespace]) {
            self.holds(cluster, user, Some(place)).await?;
        }
        Ok(())
    }

    async fn give_everywhere(&self, cluster: &Cluster, user: &str) -> Result<()> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let name = format!("{user}-{}-{}", self.verbs.join("-"), self.resources[0]).replace('*', "all");
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let allowed = PolicyRule {
            verbs: owned(&self.verbs),
            api_groups: Some(owned(&[self.group])),
            resources: Some(owned(&self.resources)),
            ..PolicyRule::default()
        };
        let role =
            ClusterRole { metadata: metadata.clone(), rules: Some(vec![allowed]), ..ClusterRole::default() };
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".into(),
                kind: "ClusterRole".into(),
                name,
            },
            subjects: hns_e2e::steps::binding("", ("", ""), user).subjects,
        };
        Api::all(cluster.admin()).create(&PostParams::default(), &role).await?;
        Api::all(cluster.admin()).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    async fn holds(&self, cluster: &Cluster, user: &str, namespace: Option<&str>) -> Result<()> {
        let attributes = ResourceAttributes {
            verb: Some(self.verbs[0].into()),
            group: Some(self.group.into()),
            resource: Some(self.resources[0].into()),
            namespace: namespace.map(Into::into),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.into()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(cluster.admin());
        eventually(&format!("{user} may {self:?}"), PATIENCE, async || {
            let answer =
                reviews.create(&PostParams::default(), &review).await.map_err(|it| it.to_string())?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            if allowed { Ok(()) } else { Err("not yet".into()) }
        })
        .await
    }
}
