//! The hint for each sort of refusal.

use super::*;

fn refused(code: u16, message: &str) -> Problem {
    Problem::Refused(Box::new(Status { code, message: message.into(), ..Status::default() }))
}

#[test]
fn failures_have_the_text_of_hnc() {
    let failure =
        Failure::could_not("create subnamespace anchor", &refused(403, "namespaces \"x\" is forbidden: no"));
    assert_eq!(
        failure.text,
        "\nCould not create subnamespace anchor.\nReason: namespaces \"x\" is forbidden: no"
    );
    assert_eq!(failure.hint, None, "an admission rule has no hint");
    for (text, clause) in
        [("Error: no", "no"), ("Error reading namespace x: no", "cannot read namespace x: no")]
    {
        assert_eq!(Failure::new(text).clause(), clause);
    }
}

#[test]
fn the_output_of_a_credential_plugin_is_not_shown() {
    let output = std::process::Output {
        status: std::process::ExitStatus::default(),
        stdout: b"{\"token\": \"secret\"}".to_vec(),
        stderr: b"the session has expired\n".to_vec(),
    };
    let error = AuthError::AuthExecRun { cmd: "login".into(), out: Box::new(output) };
    let text = Problem::of(kube::Error::Auth(error), "s").to_string();
    assert!(text.contains("the credential plugin \"login\" failed"), "{text}");
    assert!(text.contains("the session has expired") && !text.contains("secret"), "{text}");
}

#[test]
fn only_general_problems_have_a_hint() {
    for (problem, hint) in [
        (refused(404, "404 page not found\n"), "not installed"),
        (refused(403, "pods is forbidden: User \"u\" cannot list resource \"pods\""), "lack this right"),
        (
            refused(
                403,
                "namespaces is forbidden: User \"u\" cannot list resource \"namespaces\" at the cluster scope",
            ),
            "of the cluster",
        ),
        (
            refused(401, "admission webhook \"x\" denied the request: you are not admin of \"a\""),
            "at least of the namespaces",
        ),
        (refused(401, "admission webhook \"x\" denied the request: user \"u\" is not"), "You are logged in"),
        (
            refused(403, "x is forbidden: User \"u\" cannot get resource \"x\" in the namespace \"ns\""),
            "--list -n ns`, with the same --as",
        ),
        (
            refused(403, "x is forbidden: User \"u\" cannot get resource \"x\" in the namespace \"ns\""),
            "the same for a namespace that does not exist",
        ),
        (
            refused(500, "failed calling webhook \"subnamespaceanchors.hnc.x-k8s.io\": connection refused"),
            "hns-webhook does not answer",
        ),
        (refused(500, "failed calling webhook \"vsubnamespace.kb.io\": no"), "hns-webhook does not answer"),
        (refused(500, "failed calling webhook \"namespace.accurate.cybozu.io\": no"), "hns-webhook does not"),
        (refused(500, "failed calling webhook \"other.io\": no"), "The webhook other.io, which"),
        (
            refused(
                503,
                "admission webhook \"x\" denied the request: subjectaccessreviews is forbidden: User \"w\" cannot create",
            ),
            "names the missing right",
        ),
        (
            refused(
                403,
                "\"x\" is forbidden: create not allowed while custom resource definition is terminating",
            ),
            "are being deleted",
        ),
        (refused(503, "admission webhook \"x\" denied the request: try again"), "try again"),
        (
            refused(
                403,
                "admission webhook \"x\" denied the request: namespace \"a\" is in a hierarchy of accurate.cybozu.com, and",
            ),
            "kubectl hns convert ROOT --to hnc",
        ),
        (refused(409, "subnamespaceanchors \"x\" already exists"), "another name"),
        (refused(401, "Unauthorized"), "credentials"),
        (Problem::Unreachable("connection refused".into()), "--server"),
        (Problem::TimedOut(Duration::from_secs(5)), "--request-timeout"),
        (Problem::TimedOut(Duration::from_secs(5)), "hns-webhook"),
    ] {
        let found = problem.hint().unwrap_or_default();
        assert!(found.contains(hint), "{problem:?}: {found}");
    }
    for problem in [
        refused(
            503,
            "admission webhook \"x\" denied the request: try again in a moment; if this lasts, a definition",
        ),
        refused(
            403,
            "admission webhook \"x\" denied the request: hnc-system is excluded and cannot be a child",
        ),
        refused(403, "admission webhook \"x\" denied the request: user \"u\" is not authorized to change"),
        refused(404, "namespaces \"x\" not found"),
        refused(409, "Operation cannot be fulfilled: illegal parent"),
    ] {
        assert_eq!(problem.hint(), None, "{problem}");
    }
}

#[test]
fn only_an_administrator_of_the_cluster_gives_rights_to_change_namespaces() {
    for (request, place, of) in [
        ("update resource \"namespaces\" in API group \"\" in the namespace \"own\"", " -n own`", "cluster"),
        ("delete resource \"namespaces\" in API group \"\" in the namespace \"own\"", " -n own`", "cluster"),
        ("patch resource \"pods\" in API group \"\" in the namespace \"own\"", " -n own`", "namespace"),
        ("delete resource \"pods\" in API group \"\" in the namespace \"own\"", " -n own`", "namespace"),
        ("create resource \"pods\" in API group \"\" in the namespace \"own\"", " -n own`", "namespace"),
        ("get resource \"namespaces\" in API group \"\" in the namespace \"own\"", " -n own`", "namespace"),
        ("list resource \"namespaces\" in API group \"\" at the cluster scope", "`", "cluster"),
        (
            "get resource \"namespaces\" in API group \"x.io\" in the namespace \"own\"",
            " -n own`",
            "namespace",
        ),
        (
            "get resource \"pods\" in API group \"\" in the namespace \"namespaces\"",
            " -n namespaces`",
            "namespace",
        ),
        ("list resource \"pods\"", " -n NAMESPACE`", "namespace"),
    ] {
        let refused = refused(403, &format!("x is forbidden: User \"own\" cannot {request}"));
        let hint = refused.hint().unwrap();
        assert!(hint.contains(&format!("`kubectl auth can-i --list{place}, with")), "{request}: {hint}");
        assert!(
            hint.contains(&format!(" An administrator of the {of} can give it to you.")),
            "{request}: {hint}"
        );
        // The command has read what it changes or deletes, so the namespace exists.
        let is_unread = request.starts_with("get ") || request.starts_with("create ");
        assert_eq!(hint.contains("Check the name, too"), is_unread, "{request}");
        let known = Failure::because("x", &refused).where_it_exists().hint.unwrap();
        assert!(known.ends_with("can give it to you.") && hint.starts_with(&known), "{request}: {known}");
    }
}

#[test]
fn only_a_refused_impersonation_is_one() {
    let text = "users \"admin\" is forbidden: User \"eve\" cannot impersonate resource \"users\" in API group \"\" at the \
                cluster scope";
    let failure = refused(403, text).refuses_impersonation().unwrap_err();
    assert!(failure.text.starts_with("Error: you may not act as another user: ") && failure.hint.is_some());
    // Kubernetes 1.36 names the kind of impersonation.
    let constrained = text.replace(" cannot impersonate ", " cannot impersonate:user-info ");
    assert!(refused(403, &constrained).refuses_impersonation().is_err());
    let other = "forbidden: User \"eve\" cannot get path \"/version\"";
    assert_eq!(refused(403, other).refuses_impersonation(), Ok(()));
}

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let io = std::io::Error::from_raw_os_error(111);
    let error = kube::Error::Service(Box::new(std::io::Error::other(io)));
    let text = Problem::of(error, "https://s:1").to_string();
    assert_eq!(text, "https://s:1 does not answer: Connection refused");
    let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
    let error = kube::config::KubeconfigError::ReadConfig(missing, "/nope".into());
    let failure = Failure::from(error);
    assert_eq!(failure.text, "Error: the kubeconfig /nope cannot be read: entity not found");
    assert!(failure.hint.is_some());
}

#[test]
fn no_answer_is_no_refusal() {
    for (problem, is_refusal) in [
        (refused(403, "admission webhook \"x\" denied the request: no"), true),
        (refused(500, "failed calling webhook \"x\": connection refused"), false),
        (Problem::TimedOut(Duration::from_secs(5)), false),
        (Problem::Unreachable("connection refused".into()), false),
    ] {
        assert_eq!(problem.is_refusal(), is_refusal, "{problem}");
    }
}

#[test]
fn a_missing_object_and_a_missing_kind_differ() {
    assert!(refused(404, "namespaces \"x\" not found").is_not_found());
    assert!(!refused(404, "404 page not found").is_not_found());
    assert!(refused(404, "the server could not find the requested resource").is_not_installed());
    assert!(!refused(403, "namespaces \"x\" is forbidden: is a parent").is_forbidden());
}
