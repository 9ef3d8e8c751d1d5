//! Chooses the proxy for the API server, by kubectl's rules.

use http::Uri;

use crate::Failure;

/// The proxy variables of the environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) https: Option<String>,
    pub(super) http: Option<String>,
    pub(super) except: Option<String>,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        let variable = |upper: &str| {
            let lower = upper.to_lowercase();
            let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            set(upper).or_else(|| set(&lower))
        };
        Self { https: variable("HTTPS_PROXY"), http: variable("HTTP_PROXY"), except: variable("NO_PROXY") }
    }
}

/// The proxy for `server`: that of the kubeconfig, or else that of the environment unless the server is excluded.
pub(super) fn choose(
    kubeconfig: Option<&str>,
    server: &Uri,
    environment: &Environment,
) -> Result<Option<Uri>, Failure> {
    let named = kubeconfig.filter(|it| !it.is_empty());
    let variable = match server.scheme_str() {
        Some("http") => environment.http.as_deref(),
        _ => environment.https.as_deref(),
    };
    let from_environment = || variable.filter(|_| !is_exempt(server, environment));
    let Some(proxy) = named.or_else(from_environment) else { return Ok(None) };
    let scheme = if proxy.contains("://") { "" } else { "http://" };
    let parsed = format!("{scheme}{proxy}").parse();
    parsed.map(Some).map_err(|error| Failure::new(format!("Error: the proxy {proxy:?} is invalid: {error}")))
}

fn is_exempt(server: &Uri, environment: &Environment) -> bool {
    let Some(host) = server.host() else { return false };
    let host = host.trim_matches(['[', ']']).to_lowercase();
    if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback()) {
        return true;
    }
    let listed = environment.except.as_deref().unwrap_or_default();
    listed.split(',').map(str::trim).filter(|it| !it.is_empty()).any(|entry| matches(&host, entry))
}

/// One entry of `NO_PROXY`: everything, a network, or a domain with its subdomains.
fn matches(host: &str, entry: &str) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, length)) = entry.split_once('/') {
        return in_network(host, network, length).unwrap_or(false);
    }
    let entry = entry.trim_start_matches('*').to_lowercase();
    match entry.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => host == entry || host.strip_suffix(&*entry).is_some_and(|rest| rest.ends_with('.')),
    }
}

fn in_network(host: &str, network: &str, length: &str) -> Option<bool> {
    use std::net::IpAddr::{self, V4, V6};
    let bits = |address: IpAddr| match address {
        V4(it) => (u128::from(it.to_bits()) << 96, 32_u32),
        V6(it) => (it.to_bits(), 128),
    };
    let (host, host_size) = bits(host.parse().ok()?);
    let (network, size) = bits(network.parse().ok()?);
    let length: u32 = length.parse().ok().filter(|it| *it <= size)?;
    let differing = (host ^ network).checked_shr(128 - length).unwrap_or(0);
    Some(host_size == size && differing == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(kubeconfig: Option<&str>, server: &str, except: &str) -> Option<String> {
        let environment =
            Environment { https: Some("proxy:3128".into()), http: None, except: Some(except.into()) };
        let proxy = choose(kubeconfig, &server.parse().unwrap(), &environment).unwrap();
        proxy.map(|it| it.to_string().trim_end_matches('/').to_owned())
    }

    #[test]
    fn the_kubeconfig_precedes_the_environment() {
        let from_environment = Some("http://proxy:3128".to_owned());
        assert_eq!(chosen(None, "https://api.example.org:6443", ""), from_environment);
        assert_eq!(chosen(Some(""), "https://api.example.org", ""), from_environment);
        let named = chosen(Some("socks5://s:1"), "https://api.example.org", "*");
        assert_eq!(named.as_deref(), Some("socks5://s:1"));
        assert_eq!(chosen(None, "http://api.example.org", ""), None, "no proxy for plain HTTP");
    }

    #[test]
    fn exceptions_apply_to_the_server() {
        for (server, no_proxy) in [
            ("https://localhost:6443", ""),
            ("https://127.0.0.1:6443", ""),
            ("https://[::1]:6443", ""),
            ("https://api.example.org", "*"),
            ("https://api.example.org", "other, example.org"),
            ("https://api.example.org", ".example.org"),
            ("https://api.example.org", "*.example.org"),
            ("https://10.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "0.0.0.0/0"),
            ("https://[fd00::1]", "fd00::/8"),
        ] {
            assert_eq!(chosen(None, server, no_proxy), None, "{server} {no_proxy}");
        }
        for (server, no_proxy) in [
            ("https://api.example.org", "ample.org"),
            ("https://example.org", ".example.org"),
            ("https://11.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "fd00::/8"),
            ("https://api.example.org", "10.0.0.0/8"),
        ] {
            assert!(chosen(None, server, no_proxy).is_some(), "{server} {no_proxy}");
        }
    }
}
