//! `get`: lists the objects of a subtree. It needs a server that this version does not have, and reports that.

use clap::Args;

use crate::Failure;

/// List the objects of one kind in a namespace and everything below it (not available yet).
///
/// This needs the list server, an API server extension of a later version. Until then, `kubectl get RESOURCE -A` lists
/// the objects of all namespaces, and `kubectl get namespaces -l NAMESPACE.tree.hnc.x-k8s.io/depth` lists NAMESPACE and
/// the namespaces below it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The resource, such as pods.
    resource: String,

    /// All namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Print changes as they happen.
    #[arg(short = 'w', long)]
    watch: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { resource, .. } = arguments;
    Err(Failure::new(format!(
        "Error: {resource:?} cannot be listed: `kubectl hns get` needs the list server (resources.hnc.x-k8s.io), which this \
         version does not have"
    ))
    .with_hint(format!(
        "`kubectl get {resource} -A` lists them in all namespaces; `kubectl get namespaces -l \
         NAMESPACE.tree.hnc.x-k8s.io/depth` says which namespaces are below NAMESPACE."
    )))
}
