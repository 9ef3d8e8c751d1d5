//! Findings about registrations, policies, deployments and certificates.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn registrations_must_be_complete_and_trusted() {
    let webhook = |name: &str, client: Value| (name.to_owned(), of::<WebhookClientConfig>(client));
    let service = json!({ "service": { "name": "s", "namespace": "n" } });
    let trusted = json!({ "service": { "name": "s", "namespace": "n" }, "caBundle": "eA==" });
    let level = |webhooks| registration("r", webhooks, &["a"]).level;
    assert_eq!(level(None), Level::Wrong);
    assert_eq!(level(Some(Vec::new())), Level::Wrong);
    assert_eq!(level(Some(vec![webhook("a", service)])), Level::Wrong);
    assert_eq!(level(Some(vec![webhook("a", trusted)])), Level::Ok);
}

#[test]
fn missing_policies_are_an_error() {
    let all: Vec<String> = names::policies::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(policy(&[], all.len()).level, Level::Ok);
    assert_eq!(policy(&all, all.len()).level, Level::Note);
    assert_eq!(policy(&all[..1], all.len()).level, Level::Wrong);
}

#[test]
fn deployments_must_be_ready() {
    let of = |wanted: i32, ready: i32| {
        let it: Deployment = of(json!({
            "spec": { "replicas": wanted, "selector": {}, "template": {} }, "status": { "readyReplicas": ready },
        }));
        deployment("d", "n", Some(&it), (true, true)).level
    };
    assert_eq!((of(2, 2), of(2, 1), of(0, 0)), (Level::Ok, Level::Wrong, Level::Wrong));
    assert_eq!(deployment("d", "n", None, (false, false)).level, Level::Wrong);
    assert_eq!(deployment("d", "n", None, (true, true)).level, Level::Note, "it works without one");
    let hangs = deployment("d", "n", None, (false, true));
    assert!(hangs.level == Level::Note && hangs.text.contains("may run elsewhere"), "{hangs:?}");
}

#[test]
fn the_webhook_answers_if_it_allows_or_denies() {
    let refused = |code, text: &str| {
        let status = kube::core::Status::failure(text, "").with_code(code);
        Err(Problem::Refused(Box::new(status)))
    };
    for (answer, level) in [
        (Ok(()), Level::Ok),
        (refused(403, "admission webhook \"x\" denied the request: no"), Level::Ok),
        (refused(500, "failed calling webhook \"x.hnc.x-k8s.io\": connection refused"), Level::Wrong),
        (refused(403, "x is forbidden: User \"u\" cannot create resource"), Level::Note),
        (refused(404, "404 page not found"), Level::Note),
        (Err(Problem::TimedOut(std::time::Duration::from_secs(10))), Level::Wrong),
    ] {
        assert_eq!(answered(answer.clone(), "default").level, level, "{answer:?}");
    }
}

#[test]
fn leases_must_be_held_and_renewed() {
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    let held = |renewed: &str| {
        let it: Lease = of(json!({ "spec": {
            "holderIdentity": "pod", "leaseDurationSeconds": 15, "renewTime": renewed,
        } }));
        lease(("home", "l"), Some(&it), now)
    };
    assert_eq!(held("2026-01-01T00:00:55.000000Z"), Finding::ok("lease", "pod leads"));
    assert_eq!(held("2026-01-01T00:00:00.000000Z").level, Level::Wrong);
    let missing = lease(("home", "l"), None, now);
    assert!(missing.text.ends_with("there is no Lease l in namespace home"), "{missing:?}");
    let unheld: Lease = of(json!({ "spec": { "holderIdentity": "" } }));
    assert_eq!(lease(("home", "l"), Some(&unheld), now).level, Level::Wrong);
}

#[test]
fn flags_name_the_lease_and_say_who_makes_the_certificate() {
    let flags = |args: &[&str]| {
        let template = json!({ "spec": { "containers": [{ "name": "manager", "args": args }] } });
        let it: Deployment = of(json!({ "spec": { "selector": {}, "template": template } }));
        let Flags { lease, internal_certificate } = Flags::of([it].iter());
        (lease, internal_certificate)
    };
    assert_eq!(flags(&["--leader-election-id=other"]), ("other".into(), false));
    let internal = "--enable-internal-cert-management";
    assert_eq!(flags(&[internal]), (names::CONTROLLER_LEASE.into(), true));
    assert!(!flags(&["--enable-internal-cert-management=false"]).1);
}

#[test]
fn the_expiry_and_the_authority_of_a_certificate_are_checked() {
    use k8s_openapi::ByteString;
    assert_eq!(certificate(None, None, 0).level, Level::Wrong);
    let certificate_pem = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem();
    let end = tls::not_after(certificate_pem.as_bytes()).unwrap();
    let data = [("tls.crt", certificate_pem.as_bytes()), ("ca.crt", &b"CA"[..])];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.to_vec())));
    let secret = Secret { data: Some(data.into()), ..Secret::default() };
    for (now, bundle, level, said) in [
        (end - 100 * DAY, &b"old CA\nCA\n"[..], Level::Ok, "valid for 100 days"),
        (end - 100 * DAY, &b"other"[..], Level::Wrong, "another authority"),
        (end - 3 * DAY, &b"CA"[..], Level::Wrong, "expires in 3 days"),
        (end + 3 * DAY, &b"CA"[..], Level::Wrong, "expired 3 days ago"),
    ] {
        let finding = certificate(Some(&secret), Some(bundle), now);
        assert_eq!(finding.level, level, "{finding:?}");
        assert!(finding.text.contains(said), "{finding:?}");
    }
    let of = |pem: &[u8]| Secret {
        data: Some([("tls.crt".to_owned(), ByteString(pem.to_vec()))].into()),
        ..Secret::default()
    };
    for (secret, said) in [
        (of(b"x"), "holds no certificate"),
        (of(b""), "hnc-webhook-server-cert has no certificate yet"),
        (Secret::default(), "hnc-webhook-server-cert has no certificate yet"),
    ] {
        let finding = certificate(Some(&secret), None, 0);
        assert!(finding.text.contains(said), "{finding:?}");
    }
}
