//! Common steps of tests: create namespaces, set parents, grant rights, and wait for the controller.
//!
//! All requests use an ordinary client, so admission judges them. Nothing here checks results.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use hns_api::{
    HierarchyConfiguration, HierarchyConfigurationSpec, SubnamespaceAnchor, SubnamespaceAnchorSpec, labels,
};
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::json;

use crate::eventually;

/// How long a test waits for the controller. HNC's users expect two seconds; a busy machine needs more, and other tests measure
/// the time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The name of every `HierarchyConfiguration`.
pub const HIERARCHY: &str = "hierarchy";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The steps of one client.
#[derive(Clone)]
pub struct Steps {
    /// The client.
    pub client: Client,
}

/// The API server's message of a refusal; fails if there was none.
///
/// # Panics
/// When the request was not refused by the API server.
#[expect(clippy::panic, reason = "a test that expects a refusal ends here without one")]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

impl Steps {
    /// The steps of this client.
    pub fn of(client: Client) -> Self {
        Self { client }
    }

    /// The API of namespaces.
    pub fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// The API of the `HierarchyConfiguration` of `namespace`.
    pub fn hierarchies(&self, namespace: &str) -> Api<HierarchyConfiguration> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The API of the anchors of the subnamespaces of `namespace`.
    pub fn anchors(&self, namespace: &str) -> Api<SubnamespaceAnchor> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Requests a subnamespace of `parent`.
    pub async fn create_anchor(&self, parent: &str, child: &str) -> Result<SubnamespaceAnchor, kube::Error> {
        let anchor = SubnamespaceAnchor::new(child, SubnamespaceAnchorSpec::default());
        self.anchors(parent).create(&PostParams::default(), &anchor).await
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) -> Result<Namespace, kube::Error> {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        self.namespaces()
            .create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() })
            .await
    }

    /// Deletes a namespace and waits until it is deleted.
    pub async fn delete_namespace(&self, name: &str) -> anyhow::Result<()> {
        self.namespaces().delete(name, &DeleteParams::default()).await?;
        self.gone(name).await
    }

    /// Waits until a namespace is deleted. The control plane may have to delete hundreds.
    pub async fn gone(&self, name: &str) -> anyhow::Result<()> {
        eventually(&format!("namespace {name} goes"), Duration::from_secs(300), async || {
            match self.namespaces().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Sets the parent, and creates the `HierarchyConfiguration` if needed; an empty parent makes a root.
    pub async fn set_parent(&self, child: &str, parent: &str) -> Result<HierarchyConfiguration, kube::Error> {
        let api = self.hierarchies(child);
        let patch = Patch::Merge(json!({ "spec": { "parent": parent } }));
        let spec = HierarchyConfigurationSpec { parent: Some(parent.into()), ..Default::default() };
        loop {
            match api.patch(HIERARCHY, &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(status)) if status.reason == "NotFound" => {}
                other => return other,
            }
            match api
                .create(&PostParams::default(), &HierarchyConfiguration::new(HIERARCHY, spec.clone()))
                .await
            {
                // The controller has created one meanwhile, to record something.
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
                other => return other,
            }
        }
    }

    /// Creates the namespaces and sets each one's parent: `(name, parent)`, an empty parent for a root.
    ///
    /// Retries after a 5xx, from a webhook that is behind, or from an API server that cannot reach it, also where the client
    /// itself would not.
    pub async fn plant(&self, tree: &[(&str, &str)]) -> anyhow::Result<()> {
        for (name, _) in tree {
            self.create_namespace(name).await.with_context(|| format!("creating {name}"))?;
        }
        for (name, parent) in tree.iter().filter(|(_, parent)| !parent.is_empty()) {
            let what = format!("{name} hangs below {parent}");
            let set = eventually(&what, PATIENCE, async || match self.set_parent(name, parent).await {
                Err(kube::Error::Api(status)) if status.code >= 500 => Err(status.message),
                other => Ok(other),
            });
            set.await?.with_context(|| what)?;
        }
        Ok(())
    }

    /// The depths in the tree labels of a namespace, by ancestor.
    pub async fn depths(&self, name: &str) -> Result<BTreeMap<String, String>, kube::Error> {
        let all = self.namespaces().get(name).await?.metadata.labels.unwrap_or_default();
        let depth = |(key, value): (String, String)| {
            labels::tree_label_namespace(&key).map(|ancestor| (ancestor.to_owned(), value))
        };
        Ok(all.into_iter().filter_map(depth).collect())
    }

    /// Waits until a namespace has exactly the tree labels of this path: itself first, then its parent, and so on.
    pub async fn labelled(&self, path: &[&str]) -> anyhow::Result<()> {
        let name = path[0];
        let wanted: BTreeMap<String, String> =
            path.iter().enumerate().map(|(depth, name)| ((*name).to_owned(), depth.to_string())).collect();
        eventually(&format!("{name} bears the tree labels of {path:?}"), PATIENCE, async || {
            let seen = self.depths(name).await.map_err(|error| error.to_string())?;
            if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await
    }

    /// The conditions of a namespace: type, reason and message.
    pub async fn conditions(&self, name: &str) -> Result<Vec<(String, String, String)>, kube::Error> {
        let hierarchy = self.hierarchies(name).get_opt(HIERARCHY).await?;
        let shown = hierarchy.and_then(|it| it.status).unwrap_or_default().conditions;
        Ok(shown.into_iter().map(|it| (it.type_, it.reason, it.message)).collect())
    }

    /// Waits until a namespace has exactly these reasons, in this order; returns their messages.
    pub async fn reasons(&self, name: &str, wanted: &[&str]) -> anyhow::Result<Vec<String>> {
        eventually(&format!("{name} shows the conditions {wanted:?}"), PATIENCE, async || {
            let seen = self.conditions(name).await.map_err(|error| error.to_string())?;
            if seen.iter().map(|(_, reason, _)| reason.as_str()).eq(wanted.iter().copied()) {
                Ok(seen.into_iter().map(|(_, _, message)| message).collect())
            } else {
                Err(format!("{seen:?}"))
            }
        })
        .await
    }

    /// The API of the roles of a namespace.
    pub fn roles(&self, namespace: &str) -> Api<Role> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The API of the role bindings of a namespace.
    pub fn bindings(&self, namespace: &str) -> Api<RoleBinding> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a role that allows `verbs` on `resource` of `group`.
    pub async fn create_role(
        &self,
        namespace: &str,
        name: &str,
        (verbs, group, resource): (&[&str], &str, &str),
    ) -> Result<Role, kube::Error> {
        let rule = PolicyRule {
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            api_groups: Some(vec![group.into()]),
            resources: Some(vec![resource.into()]),
            ..PolicyRule::default()
        };
        let allowing = Role { metadata: named(name), rules: Some(vec![rule]) };
        self.roles(namespace).create(&PostParams::default(), &allowing).await
    }

    /// Binds a user to a role of the same namespace.
    pub async fn create_binding(
        &self,
        namespace: &str,
        name: &str,
        (role_kind, role): (&str, &str),
        user: &str,
    ) -> Result<RoleBinding, kube::Error> {
        let binding = binding(name, (role_kind, role), user);
        self.bindings(namespace).create(&PostParams::default(), &binding).await
    }

    /// Makes `user` admin of `namespace`: grants all verbs on the objects of HNC's group there, and nothing else.
    pub async fn make_admin(&self, namespace: &str, user: &str) -> Result<(), kube::Error> {
        let name = format!("hierarchy-admin-{user}-{namespace}");
        self.create_role(namespace, &name, (&["*"], hns_api::GROUP, "*")).await?;
        self.create_binding(namespace, &name, ("Role", &name), user).await?;
        Ok(())
    }

    /// Waits until the binding in each of `namespaces` is a copy of the one in `source` with this subject.
    pub async fn binding_arrives(
        &self,
        namespaces: &[&str],
        name: &str,
        source: &str,
        user: &str,
    ) -> anyhow::Result<()> {
        for namespace in namespaces {
            eventually(
                &format!("rolebinding {name} of {source} arrives in {namespace}"),
                PATIENCE,
                async || {
                    let found =
                        self.bindings(namespace).get_opt(name).await.map_err(|error| error.to_string())?;
                    let found = found.ok_or("it is not there")?;
                    let from = found.metadata.labels.as_ref().and_then(|it| it.get(labels::INHERITED_FROM));
                    let subject = found.subjects.iter().flatten().any(|subject| subject.name == user);
                    if from.map(String::as_str) == Some(source) && subject {
                        Ok(())
                    } else {
                        Err(format!("{found:?}"))
                    }
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Waits until the binding is in none of `namespaces`.
    pub async fn binding_leaves(&self, namespaces: &[&str], name: &str) -> anyhow::Result<()> {
        for namespace in namespaces {
            eventually(&format!("rolebinding {name} leaves {namespace}"), PATIENCE, async || {
                match self.bindings(namespace).get_opt(name).await {
                    Ok(None) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await?;
        }
        Ok(())
    }
}

/// A binding of a user.
pub fn binding(name: &str, (role_kind, role): (&str, &str), user: &str) -> RoleBinding {
    RoleBinding {
        metadata: named(name),
        role_ref: RoleRef { api_group: RBAC.into(), kind: role_kind.into(), name: role.into() },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC.into()),
            kind: "User".into(),
            name: user.into(),
            namespace: None,
        }]),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}
