//! The two `ConfigMaps` as data. Pure.

use std::collections::BTreeMap;

use hns_api::names::CONFIG_CONFIG_MAP;

use super::{Invalid, SharedSettings};

/// The entries of a `ConfigMap`.
pub type Data = BTreeMap<String, String>;

/// The key of the document, in both.
pub const DOCUMENT: &str = "settings.yaml";

/// The key of `hnc-settings` that says why the document of `hns-config` is not in force, or not all of it; empty if it is.
pub const REFUSED: &str = "refused";

/// The key of `hnc-settings` that names the version of the controller.
pub const VERSION: &str = "version";

/// The key of `hnc-settings` with the source of the settings: the name of the `ConfigMap` with the document, or [`FLAGS`].
pub const SOURCE: &str = "source";

/// The source of settings without a document.
pub const FLAGS: &str = "flags";

/// The settings in force, from the data of `hnc-settings`; `None` if there are none.
///
/// # Errors
/// This version does not understand them.
pub fn in_force(data: &Data) -> Result<Option<SharedSettings>, Invalid> {
    data.get(DOCUMENT).map(|text| SharedSettings::parse(text)).transpose()
}

/// Why the document of `hns-config`, or a part of it, is not in force, from the data of `hnc-settings`; `None` if it is in force.
pub fn refused(data: &Data) -> Option<&str> {
    data.get(REFUSED).map(String::as_str).filter(|reason| !reason.is_empty())
}

/// The reason for refusing the whole document.
pub fn refusal_of_document(why: &str) -> String {
    format!("ConfigMap {CONFIG_CONFIG_MAP}: {why}")
}

/// A refusal as a sentence, which says what is in force instead.
pub fn refusal(reason: &str) -> String {
    let what = if reason.ends_with(DELETED) {
        "the settings document is missing, and the earlier settings stay in force"
    } else if reason.starts_with(&refusal_of_document("")) {
        "the settings document is refused, and the earlier settings stay in force"
    } else {
        "a part of the settings is refused, and the rest is in force"
    };
    format!("{what}: {reason}")
}

/// The reason if the document was deleted.
pub const DELETED: &str = "it does not exist any more";

/// Whether the document was deleted, so that earlier settings are in force.
pub fn is_deleted(data: &Data) -> bool {
    refused(data).is_some_and(|reason| reason.ends_with(DELETED))
}

/// The version of the controller that wrote `hnc-settings`.
pub fn version(data: &Data) -> &str {
    data.get(VERSION).map_or("unknown", String::as_str)
}
