//! The requests of the walk: all forms, on few names, more often by users who may make them.

use anyhow::Result;
use forest::Mode;
use hns_api::{annotations, labels};
use hns_e2e::Dice;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::super::request::{APPLY, MERGE, Request, hierarchy, namespace as namespace_path, place};
use super::state::{State, users};
use super::{NAMES, USERS};

type Word = &'static str;

/// A request.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    SetParent(Word, Option<Word>),
    DeleteHierarchy(Word),
    CreateAnchor(Word, Word),
    ForgeAnchor(Word, Word, Word),
    DeleteAnchor(Word, Word),
    CreateNamespace(Word, Option<Word>),
    /// `subnamespace-of`, and through which subresource.
    Annotate(Word, Option<Word>, Word),
    Label(Word, Word, Value),
    DeleteNamespace(Word),
    PutObject(Word, What, Word, Value),
    DeleteObject(Word, What, Word),
    Configure(Mode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Role,
    Binding,
    Secret,
}

impl What {
    pub(crate) fn resource(self) -> Word {
        match self {
            Self::Role => "roles",
            Self::Binding => "rolebindings",
            Self::Secret => "secrets",
        }
    }

    fn path(self, namespace: &str, name: &str) -> String {
        let group = if self == Self::Secret { "/api/v1" } else { "/apis/rbac.authorization.k8s.io/v1" };
        format!("{group}/namespaces/{namespace}/{}/{name}", self.resource())
    }

    fn group_resource(self) -> Word {
        match self {
            Self::Role => "roles.rbac.authorization.k8s.io",
            Self::Binding => "rolebindings.rbac.authorization.k8s.io",
            Self::Secret => "secrets",
        }
    }
}

fn anchors(namespace: &str) -> String {
    format!("/apis/{}/namespaces/{namespace}/subnamespaceanchors", hns_api::API_VERSION)
}

impl Ask {
    pub(crate) fn request(&self, client: &Client) -> Request {
        match self {
            Self::SetParent(name, parent) => place(client, name, parent.unwrap_or_default()),
            Self::DeleteHierarchy(name) => Request::delete(client, &hierarchy(name), json!({})),
            Self::CreateAnchor(parent, child) => {
                let anchor = json!({ "apiVersion": hns_api::API_VERSION, "kind": "SubnamespaceAnchor",
                    "metadata": { "name": child } });
                Request::post(client, &anchors(parent), anchor)
            }
            Self::ForgeAnchor(parent, child, state) => {
                let path = format!("{}/{child}", anchors(parent));
                Request::patch(client, &path, MERGE, json!({ "status": { "status": state } }))
            }
            Self::DeleteAnchor(parent, child) => {
                Request::delete(client, &format!("{}/{child}", anchors(parent)), json!({}))
            }
            Self::CreateNamespace(name, parent) => {
                let annotations = parent.map(|parent| json!({ annotations::SUBNAMESPACE_OF: parent }));
                let metadata = json!({ "name": name, "annotations": annotations });
                let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
                Request::post(client, "/api/v1/namespaces", namespace)
            }
            Self::Annotate(name, parent, subresource) => {
                let path = format!("{}{subresource}", namespace_path(name));
                let annotations = json!({ annotations::SUBNAMESPACE_OF: parent });
                Request::patch(client, &path, MERGE, json!({ "metadata": { "annotations": annotations } }))
            }
            Self::Label(name, key, value) => {
                let labels = json!({ "metadata": { "labels": { *key: value } } });
                Request::patch(client, &namespace_path(name), MERGE, labels)
            }
            Self::DeleteNamespace(name) => Request::delete(client, &namespace_path(name), json!({})),
            Self::PutObject(namespace, what, name, object) => {
                Request::patch(client, &what.path(namespace, name), APPLY, object.clone())
            }
            Self::DeleteObject(namespace, what, name) => {
                Request::delete(client, &what.path(namespace, name), json!({}))
            }
            Self::Configure(mode) => {
                let resources = json!([{ "resource": "secrets", "mode": mode.to_string() }]);
                let path = format!("/apis/{}/hncconfigurations/config", hns_api::API_VERSION);
                Request::patch(client, &path, MERGE, json!({ "spec": { "resources": resources } }))
            }
        }
    }

    /// The namespace it is sent to, and the right that it needs.
    fn needs(&self) -> (Word, String) {
        let (place, right) = match self {
            Self::SetParent(name, _) => (name, "patch hierarchyconfigurations.hnc.x-k8s.io".to_owned()),
            Self::DeleteHierarchy(name) => (name, "delete hierarchyconfigurations.hnc.x-k8s.io".to_owned()),
            Self::CreateAnchor(name, _) | Self::ForgeAnchor(name, ..) | Self::DeleteAnchor(name, _) => {
                (name, "delete subnamespaceanchors.hnc.x-k8s.io".to_owned())
            }
            Self::CreateNamespace(name, _) => (name, "create namespaces".to_owned()),
            Self::Annotate(name, ..) | Self::Label(name, ..) => (name, "patch namespaces".to_owned()),
            Self::DeleteNamespace(name) => (name, "delete namespaces".to_owned()),
            Self::PutObject(name, what, ..) => (name, format!("patch {}", what.group_resource())),
            Self::DeleteObject(name, what, _) => (name, format!("delete {}", what.group_resource())),
            Self::Configure(_) => (&NAMES[0], "patch hncconfigurations.hnc.x-k8s.io".to_owned()),
        };
        (*place, right)
    }
}

/// The roles of the cluster that are bound in the walk, without wildcards: their rights are compared one by one.
const ROLES: [(Word, &[(Word, Word)]); 7] = [
    (
        "walk-admin",
        &[
            (hns_api::GROUP, "hierarchyconfigurations"),
            (hns_api::GROUP, "subnamespaceanchors"),
            (RBAC, "roles"),
            (RBAC, "rolebindings"),
            ("", "secrets"),
        ],
    ),
    ("walk-edit", &[(hns_api::GROUP, "subnamespaceanchors"), ("", "secrets")]),
    ("walk-hierarchy", &[(hns_api::GROUP, "hierarchyconfigurations")]),
    ("walk-rbac", &[(RBAC, "roles"), (RBAC, "rolebindings")]),
    ("walk-patcher", &[("", "namespaces"), ("", "namespaces/status")]),
    ("walk-creator", &[("", "namespaces")]),
    ("walk-configurer", &[(hns_api::GROUP, "hncconfigurations")]),
];
const RBAC: &str = "rbac.authorization.k8s.io";

/// The bindings at the start: user, role, namespace, and whether it stays in that namespace.
const GRANTS: [(usize, Word, Word, bool); 10] = [
    (0, "walk-admin", "walk-a", false),
    (0, "walk-hierarchy", "walk-d", true),
    (0, "walk-edit", "walk-e", true),
    (1, "walk-admin", "walk-e", false),
    (1, "walk-rbac", "walk-b", true),
    (2, "walk-edit", "walk-b", false),
    (2, "walk-rbac", "walk-a", true),
    (2, "walk-admin", "walk-d", true),
    (3, "walk-admin", "walk-f", true),
    (4, "walk-edit", "walk-c", true),
];

/// Creates them, and binds the users with cluster-wide rights.
pub(crate) async fn create_roles(admin: &Client) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    for (name, resources) in ROLES {
        let verbs: &[&str] = match name {
            "walk-patcher" => &["get", "patch", "update"],
            "walk-creator" => &["create", "delete"],
            _ => &["get", "create", "update", "patch", "delete"],
        };
        let rule = |(group, resource): &(Word, Word)| PolicyRule {
            verbs: verbs.iter().map(ToString::to_string).collect(),
            api_groups: Some(vec![(*group).to_owned()]),
            resources: Some(vec![(*resource).to_owned()]),
            ..PolicyRule::default()
        };
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let allowed = Some(resources.iter().map(rule).collect());
        roles
            .create(
                &PostParams::default(),
                &ClusterRole { metadata, rules: allowed, ..ClusterRole::default() },
            )
            .await?;
    }
    for (user, role) in [(3, "walk-patcher"), (4, "walk-creator"), (5, "walk-configurer")] {
        let bound = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": role }, "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": USERS[user] }] });
        let path = format!("/apis/{RBAC}/v1/clusterrolebindings");
        Request::post(admin, &path, bound).send().await?;
    }
    Ok(())
}

fn object(what: What, name: &str, exception: Option<(Word, Word)>, body: Value) -> Value {
    let annotations: serde_json::Map<String, Value> =
        exception.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let (version, kind) = match what {
        What::Role => ("rbac.authorization.k8s.io/v1", "Role"),
        What::Binding => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        What::Secret => ("v1", "Secret"),
    };
    let metadata = json!({ "name": name, "annotations": annotations });
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
    if let (Some(object), Value::Object(body)) = (object.as_object_mut(), body) {
        object.extend(body);
    }
    object
}

fn bound((kind, role): (Word, Word), user: usize) -> Value {
    json!({ "roleRef": { "apiGroup": RBAC, "kind": kind, "name": role },
        "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": USERS[user] }] })
}

/// Where a source propagates, if its annotations say so.
const EXCEPTIONS: [Option<(Word, Word)>; 8] = [
    None,
    None,
    None,
    None,
    Some((annotations::PROPAGATE_NONE, "true")),
    Some((annotations::PROPAGATE_SELECT, "team=blue")),
    Some((annotations::PROPAGATE_TREE_SELECT, "walk-b")),
    Some((annotations::PROPAGATE_TREE_SELECT, "!walk-c, !walk-e")),
];

/// The rules of Roles.
const RULES: [(Word, Word, Word); 5] = [
    ("get", "", "secrets"),
    ("get", "", "pods"),
    ("update", hns_api::GROUP, "hierarchyconfigurations"),
    ("create", hns_api::GROUP, "subnamespaceanchors"),
    ("patch", RBAC, "rolebindings"),
];

/// Chooses the requests.
pub(crate) struct Author(Dice);

impl Author {
    pub(crate) fn new(dice: Dice) -> Self {
        Self(dice)
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len())]
    }

    fn name(&mut self) -> Word {
        self.one(&NAMES)
    }

    /// The administrator's requests to recreate all namespaces in new trees; and then, the bindings in them.
    pub(crate) fn replant(&mut self) -> [Vec<Ask>; 2] {
        let mut structure = vec![Ask::Configure(Mode::Propagate)];
        for (at, name) in NAMES.into_iter().enumerate().skip(1) {
            if self.0.percent(35) {
                structure.push(Ask::CreateAnchor(NAMES[self.0.below(at)], name));
            }
        }
        structure.extend(NAMES.map(|name| Ask::CreateNamespace(name, None)));
        for (at, name) in NAMES.into_iter().enumerate().skip(1) {
            let parent = self.0.percent(65).then(|| NAMES[self.0.below(at)]);
            structure.push(Ask::SetParent(name, parent));
        }
        let grants = GRANTS.map(|(user, role, namespace, stays)| {
            let exception = stays.then_some((annotations::PROPAGATE_NONE, "true"));
            let name = ["grant-una", "grant-vic", "grant-wes", "grant-pat", "grant-nora"][user];
            let body = object(What::Binding, name, exception, bound(("ClusterRole", role), user));
            Ask::PutObject(namespace, What::Binding, name, body)
        });
        [structure, grants.into()]
    }

    /// A request, and the user who sends it.
    pub(crate) fn next(&mut self, state: &State, may_delete: bool) -> (usize, Ask) {
        loop {
            let ask = self.ask(state);
            if !may_delete && state.deletes_a_namespace(&ask) {
                continue;
            }
            let (namespace, right) = ask.needs();
            let may: Vec<usize> =
                users().filter(|user| state.access.of(*user, namespace).contains(&right)).collect();
            if may.is_empty() && self.0.percent(75) {
                continue;
            }
            let any_user = may.is_empty() || self.0.percent(15);
            return (if any_user { self.0.below(USERS.len()) } else { self.one(&may) }, ask);
        }
    }

    fn ask(&mut self, state: &State) -> Ask {
        match self.0.below(30) {
            0..4 => {
                let parent = self.0.percent(80).then(|| self.name());
                Ask::SetParent(self.name(), parent)
            }
            4 => Ask::DeleteHierarchy(self.name()),
            5..8 => Ask::CreateAnchor(self.name(), self.name()),
            8..11 => self.known_anchor(state),
            11..13 => {
                let parent = self.0.percent(50).then(|| self.name());
                Ask::CreateNamespace(self.name(), parent)
            }
            13..17 => {
                let parent = self.0.percent(75).then(|| self.name());
                Ask::Annotate(self.name(), parent, self.one(&["", "", "/status"]))
            }
            17..19 => self.label(),
            19 => Ask::DeleteNamespace(self.name()),
            20..26 => self.put_object(),
            26..29 => {
                let (what, name) = self.one(&OBJECTS);
                Ask::DeleteObject(self.name(), what, name)
            }
            _ => {
                Ask::Configure(self.one(&[Mode::Propagate, Mode::AllowPropagate, Mode::Remove, Mode::Ignore]))
            }
        }
    }

    fn known_anchor(&mut self, state: &State) -> Ask {
        let named = |name: &str| NAMES.into_iter().find(|it| *it == name);
        let known = state.anchors.iter().filter_map(|(parent, child)| Some((named(parent)?, named(child)?)));
        let known: Vec<(Word, Word)> = known.collect();
        let (parent, child) = if known.is_empty() { (self.name(), self.name()) } else { self.one(&known) };
        if self.0.percent(40) {
            Ask::ForgeAnchor(parent, child, self.one(&["Ok", "Missing", "Conflict", ""]))
        } else {
            Ask::DeleteAnchor(parent, child)
        }
    }

    fn label(&mut self) -> Ask {
        let tree = "walk-a.tree.hnc.x-k8s.io/depth";
        let key = self.one(&["team", "team", labels::HAS_CHILDREN, tree]);
        let value = self.one(&[Some("blue"), Some("red"), Some("1"), None]);
        Ask::Label(self.name(), key, json!(value))
    }

    fn put_object(&mut self) -> Ask {
        let (what, name) = self.one(&OBJECTS);
        let body = match what {
            What::Role => {
                let (verb, group, resource) = self.one(&RULES);
                let rule = json!({ "verbs": [verb], "apiGroups": [group], "resources": [resource] });
                json!({ "rules": [rule] })
            }
            What::Binding => {
                let roles = [
                    ("Role", "r0"),
                    ("Role", "r1"),
                    ("ClusterRole", "walk-edit"),
                    ("ClusterRole", "walk-rbac"),
                ];
                bound(self.one(&roles), self.0.below(USERS.len()))
            }
            What::Secret => json!({ "data": { "it": self.one(&["YQ==", "Yg=="]) } }),
        };
        let exception = self.one(&EXCEPTIONS);
        Ask::PutObject(self.name(), what, name, object(what, name, exception, body))
    }
}

const OBJECTS: [(What, Word); 7] = [
    (What::Role, "r0"),
    (What::Role, "r1"),
    (What::Binding, "b0"),
    (What::Binding, "b1"),
    (What::Binding, "b2"),
    (What::Secret, "s0"),
    (What::Secret, "s1"),
];
