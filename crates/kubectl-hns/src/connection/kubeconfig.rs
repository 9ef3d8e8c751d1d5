//! Reduces a kubeconfig to the cluster, user and context that a command uses, with the flags applied.

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use serde_json::{Value, json};

use super::ConnectionArgs;
use crate::Failure;

const NAME: &str = "chosen";

/// The kubeconfig reduced to one context, with each flag in place of the value in the file.
///
/// # Errors
/// A named context or cluster does not exist, or no API server is configured.
pub(super) fn chosen(kubeconfig: &Kubeconfig, args: &ConnectionArgs) -> Result<Kubeconfig, Failure> {
    let context = context(kubeconfig, args)?;
    let cluster = args.cluster.as_deref().unwrap_or(&context.cluster);
    let cluster = match kubeconfig.clusters.iter().find(|it| it.name == cluster) {
        Some(found) => found.cluster.clone().unwrap_or_default(),
        None if args.cluster.is_none() && (cluster.is_empty() || args.server.is_some()) => Cluster::default(),
        None => return Err(Failure::new(format!("Error: the kubeconfig has no cluster {cluster:?}"))),
    };
    let user = args.user.as_deref().or(context.user.as_deref()).filter(|it| !it.is_empty());
    let user = match user.map(|name| kubeconfig.auth_infos.iter().find(|it| it.name == name)) {
        Some(Some(found)) => found.auth_info.clone().unwrap_or_default(),
        Some(None) if args.user.is_some() => {
            let name = args.user.as_deref().unwrap_or_default();
            return Err(Failure::new(format!("Error: the kubeconfig has no user {name:?}")));
        }
        Some(None) | None => AuthInfo::default(),
    };
    let namespace = args.namespace().map(str::to_owned).or(context.namespace).filter(|it| !it.is_empty());
    let context = Context { cluster: NAME.into(), user: Some(NAME.into()), namespace, ..Context::default() };
    let mut result = Kubeconfig { current_context: Some(NAME.into()), ..Kubeconfig::default() };
    result.clusters = vec![NamedCluster {
        name: NAME.into(),
        cluster: Some(server(cluster, args)?),
        ..NamedCluster::default()
    }];
    result.auth_infos = vec![NamedAuthInfo {
        name: NAME.into(),
        auth_info: Some(credentials(user, args)?),
        ..NamedAuthInfo::default()
    }];
    result.contexts =
        vec![NamedContext { name: NAME.into(), context: Some(context), ..NamedContext::default() }];
    Ok(result)
}

fn context(kubeconfig: &Kubeconfig, args: &ConnectionArgs) -> Result<Context, Failure> {
    let name = args.context.as_deref().or(kubeconfig.current_context.as_deref()).filter(|it| !it.is_empty());
    let Some(name) = name else { return Ok(Context::default()) };
    let found = kubeconfig.contexts.iter().find(|it| it.name == name);
    found
        .map(|it| it.context.clone().unwrap_or_default())
        .ok_or_else(|| Failure::new(format!("Error: the kubeconfig has no context {name:?}")))
}

fn server(mut cluster: Cluster, args: &ConnectionArgs) -> Result<Cluster, Failure> {
    if let Some(server) = &args.server {
        // As in kubectl, an address without a scheme means plain HTTP.
        let scheme = if server.contains("://") { "" } else { "http://" };
        cluster.server = Some(format!("{scheme}{server}"));
    }
    if let Some(file) = &args.certificate_authority {
        cluster.certificate_authority = Some(file.clone());
        cluster.certificate_authority_data = None;
    }
    if let Some(name) = &args.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
    if args.insecure_skip_tls_verify.is_some() {
        cluster.insecure_skip_tls_verify = args.insecure_skip_tls_verify;
    }
    if cluster.insecure_skip_tls_verify == Some(true) {
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = None;
    }
    if cluster.server.is_none() {
        return Err(Failure::new("Error: no API server is configured")
            .with_hint("Set --context or --server, or a current context: `kubectl config use-context`."));
    }
    Ok(cluster)
}

/// A token on the command line replaces all credentials except a client certificate.
fn credentials(mut user: AuthInfo, args: &ConnectionArgs) -> Result<AuthInfo, Failure> {
    if let Some(token) = &args.token {
        // The field's type belongs to a library that is not a direct dependency; its text form is the token.
        let only: Value = json!({ "token": token });
        let only: AuthInfo =
            serde_json::from_value(only).map_err(|error| Failure::new(format!("Error: --token: {error}")))?;
        user.token = only.token;
        (user.token_file, user.exec, user.auth_provider) = (None, None, None);
        (user.username, user.password) = (None, None);
    }
    if let Some(file) = &args.client_certificate {
        user.client_certificate = Some(file.clone());
        user.client_certificate_data = None;
    }
    if let Some(file) = &args.client_key {
        user.client_key = Some(file.clone());
        user.client_key_data = None;
    }
    Ok(user)
}

/// Sets the impersonated user. The API server refuses a group or a UID alone.
pub(super) fn impersonate(user: &mut AuthInfo, args: &ConnectionArgs) -> Result<(), Failure> {
    if let Some(name) = &args.as_user {
        user.impersonate = Some(name.clone());
        // The groups and the UID in the file belong to another user.
        (user.impersonate_groups, user.impersonate_uid) = (None, None);
    }
    if !args.as_group.is_empty() {
        user.impersonate_groups = Some(args.as_group.clone());
    }
    if let Some(uid) = &args.as_uid {
        user.impersonate_uid = Some(uid.clone());
    }
    if user.impersonate.is_none() && (user.impersonate_groups.is_some() || user.impersonate_uid.is_some()) {
        let text = "Error: there is a group or a UID to impersonate, but no user";
        return Err(Failure::new(text).with_hint("Name the user with --as, besides --as-group or --as-uid."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::tests::parsed;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    fn args(line: &str) -> ConnectionArgs {
        parsed::<Line>(line).connection
    }

    fn file() -> Kubeconfig {
        serde_json::from_value(json!({
            "clusters": [
                { "name": "one", "cluster": { "server": "https://one", "certificate-authority-data": "eA==" } },
                { "name": "two", "cluster": { "server": "https://two" } },
            ],
            "users": [
                { "name": "ann", "user": { "exec": { "command": "login" }, "as": "root", "as-groups": ["g"] } },
                { "name": "bob", "user": { "token": "t" } },
            ],
            "contexts": [
                { "name": "c1", "context": { "cluster": "one", "user": "ann", "namespace": "acme" } },
                { "name": "c2", "context": { "cluster": "two", "user": "bob" } },
            ],
            "current-context": "c1",
        }))
        .unwrap()
    }

    /// The chosen server, user and namespace.
    fn choice(line: &str) -> Result<Value, String> {
        let chosen = chosen(&file(), &args(line)).map_err(|failure| failure.text)?;
        let value = serde_json::to_value(chosen).map_err(|error| error.to_string())?;
        Ok(json!([
            value["clusters"][0]["cluster"],
            value["users"][0]["user"],
            value["contexts"][0]["context"]["namespace"],
        ]))
    }

    #[test]
    fn the_context_gives_the_defaults() {
        let one = choice("").unwrap();
        assert_eq!(one[0]["server"], "https://one");
        assert_eq!(one[1]["exec"]["command"], "login");
        assert_eq!(one[2], "acme");
        let two = choice("--context c2").unwrap();
        assert_eq!((&two[0]["server"], &two[1]["token"]), (&json!("https://two"), &json!("t")));
        assert_eq!(two[2], Value::Null);
        assert_eq!(choice("--namespace=").unwrap()[2], "acme");
        assert_eq!(args("-n=").namespace(), None);
    }

    #[test]
    fn each_flag_overrides_its_field() {
        let mixed = choice("--cluster two --user bob -n x").unwrap();
        assert_eq!(mixed, json!([{ "server": "https://two" }, { "token": "t" }, "x"]));
        let flags = choice("-s h:1 --certificate-authority ca --tls-server-name n").unwrap();
        let wanted = json!({ "server": "http://h:1", "certificate-authority": "ca", "tls-server-name": "n" });
        assert_eq!(flags[0], wanted);
        let insecure = choice("--insecure-skip-tls-verify").unwrap();
        assert_eq!(insecure[0], json!({ "server": "https://one", "insecure-skip-tls-verify": true }));
        let certificate = choice("--client-certificate c --client-key k --user bob").unwrap();
        assert_eq!(certificate[1], json!({ "token": "t", "client-certificate": "c", "client-key": "k" }));
        let token = choice("--token new").unwrap();
        assert_eq!(token[1], json!({ "token": "new", "as": "root", "as-groups": ["g"] }));
    }

    #[test]
    fn missing_names_are_reported() {
        for (line, wanted) in [
            ("--context c3", "no context \"c3\""),
            ("--cluster three", "no cluster \"three\""),
            ("--user eve", "no user \"eve\""),
        ] {
            assert!(choice(line).unwrap_err().contains(wanted), "{line}");
        }
        let empty = chosen(&Kubeconfig::default(), &args("")).unwrap_err();
        assert!(empty.hint.is_some(), "{empty}");
        let address = chosen(&Kubeconfig::default(), &args("-s http://h:1")).unwrap();
        assert_eq!(address.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("http://h:1"));
    }

    #[test]
    fn another_user_does_not_inherit_groups() {
        let mut user = file().auth_infos[0].auth_info.clone().unwrap();
        impersonate(&mut user, &args("--as eve")).unwrap();
        assert_eq!((user.impersonate.as_deref(), &user.impersonate_groups), (Some("eve"), &None));
        impersonate(&mut user, &args("--as-group a --as-group b --as-uid 7")).unwrap();
        assert_eq!(user.impersonate_groups, Some(vec!["a".into(), "b".into()]));
        assert_eq!(user.impersonate_uid.as_deref(), Some("7"));
    }

    #[test]
    fn a_group_needs_a_user() {
        for line in ["--as-group a", "--as-uid 7"] {
            let failure = impersonate(&mut AuthInfo::default(), &args(line)).unwrap_err();
            assert!(failure.hint.unwrap().contains("--as,"), "{line}");
        }
    }
}
