//! Following a certificate in a Secret, by a watch on that one object: a change arrives at once, without waiting for the kubelet
//! to update a volume.

use std::convert::Infallible;

use futures::StreamExt as _;
use hns_cluster::api::Api;
use k8s_openapi::api::core::v1::Secret;

use super::{CERTIFICATE, Files, KEY, LoadError, ServingCertificate};
use hns_cluster::error_text::error_text;
use hns_cluster::{objects, readiness::Condition};

impl ServingCertificate {
    /// Loads the certificate from the Secret of this name, and loads it again whenever the Secret changes. `condition` holds from
    /// the first one loaded. Never returns; drop the future to stop.
    ///
    /// Once a certificate is loaded, it stays in use if the Secret is deleted, damaged or unreachable.
    pub async fn follow_secret(&self, secrets: Api<Secret>, name: &str, condition: Condition) -> Infallible {
        let origin = format!("Secret {name}");
        let mut seen: Option<Result<Files, String>> = None;
        let mut states = objects::watch(secrets, name);
        while let Some(state) = states.next().await {
            let found = match state {
                Ok(secret) => files(secret).map_err(|error| error.to_string()),
                Err(error) => Err(error_text(&error)),
            };
            if seen.as_ref() != Some(&found) {
                self.take(found.as_ref().map_err(String::as_str), &origin, &condition);
                seen = Some(found);
            }
        }
        // A watch never ends.
        std::future::pending().await
    }
}

fn files(secret: Option<Secret>) -> Result<Files, LoadError> {
    let mut data = secret.ok_or(LoadError::Missing("such Secret"))?.data.unwrap_or_default();
    let mut file = |name| data.remove(name).map(|bytes| bytes.0).ok_or(LoadError::Missing(name));
    Ok(Files { certificate: file(CERTIFICATE)?, key: file(KEY)? })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(texts: &[(&str, &str)]) -> Secret {
        let data = texts.iter().map(|(name, text)| ((*name).to_owned(), ByteString((*text).into())));
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    #[test]
    fn what_is_missing_is_named() {
        let table = [
            (None, "there is no such Secret"),
            (Some(Secret::default()), "there is no tls.crt"),
            (Some(secret(&[("tls.key", "k")])), "there is no tls.crt"),
            (Some(secret(&[("tls.crt", "c"), ("ca.crt", "a")])), "there is no tls.key"),
        ];
        for (found, expected) in table {
            assert_eq!(files(found).unwrap_err().to_string(), expected);
        }
        let whole = files(Some(secret(&[("tls.crt", "c"), ("tls.key", "k"), ("other", "o")]))).unwrap();
        assert_eq!(whole, Files { certificate: b"c".to_vec(), key: b"k".to_vec() });
    }
}
