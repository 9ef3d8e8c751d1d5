//! Whether `--installation` names the namespace that hns is installed in.

use hns_api::names::VALIDATING_WEBHOOK_CONFIGURATION;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;

use super::Finding;
use crate::installation;
use crate::session::Session;

/// A finding if it names another one. What cannot be read is not known, and other checks report it.
pub(super) async fn check(session: &Session) -> Option<Finding> {
    let named = session.installation().await;
    let registrations = session.all::<ValidatingWebhookConfiguration>();
    let registration = session.call(registrations.get(VALIDATING_WEBHOOK_CONFIGURATION)).await.ok();
    let registered = registration.and_then(installation::registered);
    let found = session.call(session.all::<Namespace>().get_metadata_opt(named)).await;
    finding(named, registered.as_deref(), found.map_or(true, |it| it.is_some()))
}

fn finding(named: &str, registered: Option<&str>, exists: bool) -> Option<Finding> {
    let is_other = registered.is_some_and(|registered| registered != named);
    if exists && !is_other {
        return None;
    }
    let what = if exists { "hns is not installed in it" } else { "it does not exist" };
    let hint = match registered.filter(|_| is_other) {
        Some(registered) => {
            format!("The registration of the webhook names namespace {registered}: leave out --installation.")
        }
        None => "Name the namespace of hns with --installation.".to_owned(),
    };
    Some(Finding::wrong(format!("namespace {named}"), what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_must_exist_and_be_that_of_the_registration() {
        for (registered, exists, said) in [
            (Some("home"), true, None),
            (None, true, None),
            (Some("other"), true, Some(("not installed in it", "names namespace other"))),
            (Some("other"), false, Some(("does not exist", "names namespace other"))),
            (None, false, Some(("does not exist", "--installation"))),
        ] {
            let found = finding("home", registered, exists);
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
