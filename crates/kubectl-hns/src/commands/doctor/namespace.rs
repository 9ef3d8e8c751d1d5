//! Whether `--installation`, or the variable in its place, names the namespace that hns is installed in.

use hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;

use super::Finding;
use crate::installation::{self, VARIABLE};
use crate::session::Session;

const UNSET: &str = "unset the variable HNS_INSTALLATION";

/// A finding if it names another one. What cannot be read is not known, and other checks report it.
///
/// # Errors
/// hns is installed elsewhere: what the other checks would find here follows from that.
pub(super) async fn check(session: &Session) -> Result<Option<Finding>, Finding> {
    let named = session.installation().await;
    let registrations = session.all::<ValidatingWebhookConfiguration>();
    let registration = session.call(registrations.get(VALIDATING_WEBHOOK_CONFIGURATION)).await.ok();
    let registered = registration.and_then(installation::registered);
    let found = session.call(session.all::<Namespace>().get_metadata_opt(named)).await;
    let is_variable = std::env::var(VARIABLE).is_ok_and(|it| it == named);
    let instead = if is_variable { UNSET } else { "leave out --installation" };
    finding((named, instead), registered.as_deref(), found.map_or(true, |it| it.is_some()))
}

/// `instead` is how the user undoes that they named it.
fn finding(
    (named, instead): (&str, &str),
    registered: Option<&str>,
    exists: bool,
) -> Result<Option<Finding>, Finding> {
    let elsewhere = registered.filter(|registered| *registered != named);
    let what = if exists { "hns is not installed in it" } else { "it does not exist" };
    let wrong = |hint: String| Finding::wrong(format!("namespace {named}"), what, hint);
    if let Some(elsewhere) = elsewhere {
        let hint = format!("The registration of the webhook names namespace {elsewhere}: {instead}.");
        return Err(wrong(hint));
    }
    Ok((!exists).then(|| wrong("Name the namespace of hns with --installation.".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_must_exist_and_be_that_of_the_registration() {
        for (registered, exists, said) in [
            (Some("home"), true, None),
            (None, true, None),
            (
                Some("other"),
                true,
                Some(("not installed in it", "other: unset the variable HNS_INSTALLATION.")),
            ),
            (Some("other"), false, Some(("does not exist", "names namespace other"))),
            (None, false, Some(("does not exist", "--installation"))),
        ] {
            let found = finding(("home", UNSET), registered, exists);
            assert_eq!(found.is_err(), registered == Some("other"), "the only finding: {found:?}");
            let found = found.unwrap_or_else(Some);
            assert_eq!(found.is_some(), said.is_some(), "{found:?}");
            if let (Some(found), Some((text, hint))) = (found, said) {
                assert!(
                    found.text.contains(text) && found.hint.as_ref().unwrap().contains(hint),
                    "{found:?}"
                );
            }
        }
    }
}
