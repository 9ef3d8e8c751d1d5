//! The configured kinds: the entries of the `HNCConfiguration`, resolved as the controller and the webhook resolve
//! them.

use forest::configuration::{Entry, Fault, Resolution, Served, resolve};
use forest::{Kind, KindSettings};
use hns_api::{HNCConfiguration, names};
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::{discover, entries, trees_of};
use kube::CustomResourceExt;
use kube::api::DynamicObject;

use crate::Failure;
use crate::session::Session;

/// The configured kinds, as far as the user may read them.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredKinds {
    /// The resources of the API server.
    pub(crate) served: Served,
    /// The entries of the configuration.
    pub(crate) entries: Vec<Result<Entry, String>>,
    /// The resolved entries.
    pub(crate) resolution: Resolution,
    /// Whether the configuration could be read; if not, only roles and role bindings are known.
    pub(crate) is_known: bool,
}

impl ConfiguredKinds {
    /// Resolves these entries.
    pub(crate) fn new(served: Served, entries: Vec<Result<Entry, String>>) -> Self {
        let resolution = resolve(&entries, &served);
        Self { served, entries, resolution, is_known: true }
    }

    /// The settings of all configured kinds.
    pub(crate) fn settings(&self) -> Vec<KindSettings> {
        self.resolution.settings().cloned().collect()
    }

    /// Whether objects of a kind can be listed. Some kinds, such as access reviews, have no stored objects.
    pub(crate) fn can_be_listed(&self, kind: &Kind) -> bool {
        let served = self.served.kinds.iter().find(|it| it.kind == *kind);
        served.is_none_or(|it| it.verbs.iter().any(|verb| verb == "list"))
    }

    /// These kinds as the API server serves them, which gives their resources. Those that it does not serve are noted.
    pub(crate) fn served_as<'a>(
        &self,
        kinds: impl Iterator<Item = &'a Kind>,
        notes: &mut Vec<String>,
    ) -> Vec<Kind> {
        let mut found = Vec::new();
        for kind in kinds {
            let is_it = |it: &&Kind| it.group == kind.group && it.kind == kind.kind;
            match self.served.kinds.iter().map(|it| &it.kind).find(is_it) {
                Some(served) => found.push(Kind { resource: served.resource.clone(), ..kind.clone() }),
                None => notes.push(format!("the API server does not serve {}, which is watched", kind.kind)),
            }
        }
        found
    }

    /// The settings of a kind; `None` if it is not configured.
    pub(crate) fn of_kind(&self, kind: &Kind) -> Option<&KindSettings> {
        self.resolution.of_kind(kind).map(|it| &it.settings)
    }
}

/// Reads the configuration. Problems are added to `notes`.
///
/// # Errors
/// It could not be read for a reason other than missing rights.
pub(crate) async fn read(session: &Session, notes: &mut Vec<String>) -> Result<ConfiguredKinds, Failure> {
    let api = Api::<DynamicObject>::all_with(session.client.clone(), &HNCConfiguration::api_resource());
    let (object, served) =
        futures::join!(session.call(api.get_opt(names::HNC_CONFIGURATION)), discover(&session.client),);
    let (object, is_known) = match object {
        Ok(object) => (object, true),
        Err(problem) if problem.is_forbidden() => {
            notes.push(
                "you may not read the HNCConfiguration, so only roles and rolebindings were checked".into(),
            );
            (None, false)
        }
        Err(problem) => return Err(Failure::because("the HNCConfiguration cannot be read", &problem)),
    };
    let served = served.unwrap_or_else(|why| {
        notes.push(format!("cannot read which kinds the API server serves: {why}"));
        Served::default()
    });
    let found = object.as_ref().map(entries).unwrap_or_default();
    let trees = trees_of(object.as_ref().and_then(|it| it.data.get("spec")));
    let mut configured = ConfiguredKinds { is_known, ..ConfiguredKinds::new(served, found) };
    configured.resolution = configured.resolution.with_trees(&trees);
    let unclear = configured.resolution.findings.iter().filter(|it| it.fault == Fault::Unavailable);
    notes.extend(unclear.map(|it| format!("{} was not checked: {}", it.subject, it.why)));
    Ok(configured)
}
