//! What tests do over and over: make namespaces, set parents, hand out rights, and wait for what the controller does.
//!
//! Everything goes through an ordinary client, so that it is judged like anybody's request. Nothing here judges.

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

/// How long the controller may take before a test gives up on it. HNC's users count on two seconds; a busy machine gets
/// more, and what is measured is measured elsewhere.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The name of every `HierarchyConfiguration`.
pub const HIERARCHY: &str = "hierarchy";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Steps taken with one client.
#[derive(Clone)]
pub struct Steps {
    /// The client.
    pub client: Client,
}

/// What the API server said when it refused; fails when it did not.
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
    /// Steps of this client.
    pub fn of(client: Client) -> Self {
        Self { client }
    }

    /// The namespaces are reached through this.
    pub fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// The one `HierarchyConfiguration` of `namespace` is reached through this.
    pub fn hierarchies(&self, namespace: &str) -> Api<HierarchyConfiguration> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The anchors of the subnamespaces of `namespace` are reached through this.
    pub fn anchors(&self, namespace: &str) -> Api<SubnamespaceAnchor> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Asks for a subnamespace of `parent`.
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

    /// Deletes a namespace and waits until it is gone.
    pub async fn delete_namespace(&self, name: &str) -> anyhow::Result<()> {
        self.namespaces().delete(name, &DeleteParams::default()).await?;
        self.gone(name).await
    }

    /// Waits until a namespace is gone. Hundreds may be waiting for the control plane.
    pub async fn gone(&self, name: &str) -> anyhow::Result<()> {
        eventually(&format!("namespace {name} goes"), Duration::from_secs(300), async || {
            match self.namespaces().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Sets the parent, creating the `HierarchyConfiguration` where there is none; an empty parent makes a root.
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

    /// Creates the namespaces and hangs each below its parent: `(name, parent)`, an empty parent for a root.
    ///
    /// Whoever cannot answer yet says so with a 5xx: a webhook that is behind, an API server that does not reach it. They are
    /// asked again, also where the client itself would not.
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

    /// The depths that the tree labels of a namespace give, by ancestor.
    pub async fn depths(&self, name: &str) -> Result<BTreeMap<String, String>, kube::Error> {
        let all = self.namespaces().get(name).await?.metadata.labels.unwrap_or_default();
        let depth = |(key, value): (String, String)| {
            labels::tree_label_namespace(&key).map(|ancestor| (ancestor.to_owned(), value))
        };
        Ok(all.into_iter().filter_map(depth).collect())
    }

    /// Waits until a namespace bears exactly the tree labels of this path: itself first, then its parent, and so on.
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

    /// The conditions that a namespace shows: type, reason and message.
    pub async fn conditions(&self, name: &str) -> Result<Vec<(String, String, String)>, kube::Error> {
        let hierarchy = self.hierarchies(name).get_opt(HIERARCHY).await?;
        let shown = hierarchy.and_then(|it| it.status).unwrap_or_default().conditions;
        Ok(shown.into_iter().map(|it| (it.type_, it.reason, it.message)).collect())
    }

    /// Waits until a namespace shows exactly these reasons, in this order; gives their messages.
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

    /// The roles of a namespace are reached through this.
    pub fn roles(&self, namespace: &str) -> Api<Role> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The role bindings of a namespace are reached through this.
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

    /// Makes `user` admin of `namespace` as the hierarchy understands it: may do anything to the objects of its group
    /// there, and nothing else.
    pub async fn make_admin(&self, namespace: &str, user: &str) -> Result<(), kube::Error> {
        let name = format!("hierarchy-admin-{user}-{namespace}");
        self.create_role(namespace, &name, (&["*"], hns_api::GROUP, "*")).await?;
        self.create_binding(namespace, &name, ("Role", &name), user).await?;
        Ok(())
    }

    /// Where, among `namespaces`, the binding is a copy of the one in `source` with this subject.
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
