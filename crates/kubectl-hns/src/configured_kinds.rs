//! Which kinds are propagated: what the `HNCConfiguration` asks for, resolved as the controller and the webhook do it. Never
//! reads an object of one.

use forest::configuration::{Entry, Fault, Resolution, Served, resolve};
use forest::{Kind, KindSettings};
use hns_api::{HNCConfiguration, names};
use hns_cluster::api::Api;
use hns_cluster::configured_kinds::{discover, entries};
use kube::CustomResourceExt;
use kube::api::DynamicObject;

use crate::Failure;
use crate::session::Session;

/// What is known of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredKinds {
    /// What the API server serves.
    pub(crate) served: Served,
    /// What is asked for.
    pub(crate) entries: Vec<Result<Entry, String>>,
    /// What comes of it.
    pub(crate) resolution: Resolution,
    /// Whether the configuration could be read; if not, only what holds without one is known.
    pub(crate) is_known: bool,
}

impl ConfiguredKinds {
    /// What comes of these entries.
    pub(crate) fn new(served: Served, entries: Vec<Result<Entry, String>>) -> Self {
        let resolution = resolve(&entries, &served);
        Self { served, entries, resolution, is_known: true }
    }

    /// How each kind is treated.
    pub(crate) fn settings(&self) -> Vec<KindSettings> {
        self.resolution.settings().cloned().collect()
    }

    /// Whether there is a list of a kind's objects, as far as is known. Some kinds are questions, not objects.
    pub(crate) fn can_be_listed(&self, kind: &Kind) -> bool {
        let served = self.served.kinds.iter().find(|it| it.kind == *kind);
        served.is_none_or(|it| it.verbs.iter().any(|verb| verb == "list"))
    }

    /// How objects of a kind are treated; none if the configuration does not name it.
    pub(crate) fn of_kind(&self, kind: &Kind) -> Option<&KindSettings> {
        self.resolution.of_kind(kind).map(|it| &it.settings)
    }
}

/// Reads the configuration. What of it could not be read, or not be understood at the moment, is added to `notes`.
///
/// # Errors
/// It could not be read for another reason than rights.
pub(crate) async fn read(session: &Session, notes: &mut Vec<String>) -> Result<ConfiguredKinds, Failure> {
    let api = Api::<DynamicObject>::all_with(session.client.clone(), &HNCConfiguration::api_resource());
    let (object, served) =
        futures::join!(session.call(api.get_opt(names::HNC_CONFIGURATION)), discover(&session.client),);
    let (entries, is_known) = match object {
        Ok(object) => (object.as_ref().map(entries).unwrap_or_default(), true),
        Err(problem) if problem.is_forbidden() => {
            notes.push(
                "you may not read the HNCConfiguration, so only roles and rolebindings were looked at".into(),
            );
            (Vec::new(), false)
        }
        Err(problem) => return Err(Failure::because("the HNCConfiguration cannot be read", &problem)),
    };
    let served = served.unwrap_or_else(|why| {
        notes.push(format!("it cannot be known which kinds the API server serves: {why}"));
        Served::default()
    });
    let configured = ConfiguredKinds { is_known, ..ConfiguredKinds::new(served, entries) };
    let unclear = configured.resolution.findings.iter().filter(|it| it.fault == Fault::Unavailable);
    notes.extend(unclear.map(|it| format!("{} could not be looked at: {}", it.subject, it.why)));
    Ok(configured)
}
