//! The API of a tree: HNC's or Accurate's. A measure of both differs in the objects that it writes.

use std::path::Path;

use hns_api::accurate::annotations::{FROM, MODE_UPDATE, PROPAGATE};
use hns_api::accurate::labels::{CREATED_BY, CREATED_BY_ACCURATE, PARENT, TYPE, TYPE_ROOT};
use hns_cluster::settings::accurate::{Config, Settings};
use hns_e2e::Options;
use http::Method;
use serde_json::{Value, json};

use super::client::Call;
use super::testbed::{create_edge, namespace};

/// The configuration of Accurate's chart.
const ACCURATE: &str = "
watches:
- {group: rbac.authorization.k8s.io, version: v1, kind: Role}
- {group: rbac.authorization.k8s.io, version: v1, kind: RoleBinding}
- {version: v1, kind: Secret}
- {version: v1, kind: ResourceQuota}
propagateLabelKeyExcludes: ['*kubernetes.io/*']
propagateAnnotationKeyExcludes: ['*kubernetes.io/*']
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Hnc,
    Accurate,
}

impl Api {
    /// How the product is installed.
    pub(crate) fn options(self) -> anyhow::Result<Options> {
        if self == Self::Hnc {
            return Ok(Options::default());
        }
        let config = Config::parse(ACCURATE).map_err(|invalid| anyhow::anyhow!("{invalid}"))?;
        Ok(Options {
            manifests: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/accurate.yaml"),
            accurate: Some(Settings { enabled: true, config, ..Settings::default() }),
            ..Options::default()
        })
    }

    /// The name of a measure of this API.
    pub(crate) fn measure(self, name: &str) -> String {
        match self {
            Self::Hnc => name.to_owned(),
            Self::Accurate => format!("accurate: {name}"),
        }
    }

    /// Creates a namespace that others can be below.
    pub(crate) fn create_root(self, name: &str) -> Call {
        let mut root = namespace(name);
        if self == Self::Accurate {
            root["metadata"]["labels"] = json!({ TYPE: TYPE_ROOT });
        }
        Call::new(Method::POST, "/api/v1/namespaces", root.to_string())
    }

    /// Sets the first parent of a namespace. With Accurate's API, this creates the namespace.
    pub(crate) fn create_edge(self, child: &str, parent: &str) -> Call {
        match self {
            Self::Hnc => create_edge(child, parent),
            Self::Accurate => create_sub_namespace(child, parent),
        }
    }

    /// Selects the namespaces whose parent this is.
    pub(crate) fn children(self, parent: &str) -> String {
        match self {
            Self::Hnc => format!("{parent}.tree.hnc.x-k8s.io/depth=1"),
            Self::Accurate => format!("{PARENT}={parent}"),
        }
    }

    /// Selects the copies of the objects in this namespace.
    pub(crate) fn copies(self, source: &str) -> String {
        match self {
            Self::Hnc => format!("hnc.x-k8s.io/inherited-from={source}"),
            Self::Accurate => format!("{CREATED_BY}={CREATED_BY_ACCURATE}"),
        }
    }

    /// Marks an object as a source, or as a copy of the one in the namespace `source`.
    pub(crate) fn mark(self, object: &mut Value, source: Option<&str>) {
        let metadata = &mut object["metadata"];
        match (self, source) {
            (Self::Hnc, None) => {}
            (Self::Hnc, Some(source)) => {
                metadata["labels"] = json!({
                    "app.kubernetes.io/managed-by": "hnc.x-k8s.io",
                    "hnc.x-k8s.io/inherited-from": source,
                });
            }
            (Self::Accurate, None) => metadata["annotations"] = json!({ PROPAGATE: MODE_UPDATE }),
            (Self::Accurate, Some(source)) => {
                metadata["labels"] = json!({ CREATED_BY: CREATED_BY_ACCURATE });
                metadata["annotations"] = json!({ PROPAGATE: MODE_UPDATE, FROM: source });
            }
        }
    }

    /// The verb of a request of the product that writes a copy. Those of Accurate are patched.
    pub(crate) fn verb(self, verb: &'static str) -> &'static str {
        if self == Self::Accurate && verb == "update" { "patch" } else { verb }
    }
}

/// The creation of a `SubNamespace`.
pub(crate) fn create_sub_namespace(child: &str, parent: &str) -> Call {
    let body = json!({
        "apiVersion": "accurate.cybozu.com/v2",
        "kind": "SubNamespace",
        "metadata": { "name": child },
    });
    Call::new(Method::POST, sub_namespaces(parent), body.to_string())
}

pub(crate) fn sub_namespaces(parent: &str) -> String {
    format!("/apis/accurate.cybozu.com/v2/namespaces/{parent}/subnamespaces")
}
