//! The decision in each state, and the order of the steps of a replacement.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use super::super::issue::{self, Issued};
use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;
const NAME: &str = "hnc-webhook-service.hnc-system.svc";

fn requirements() -> Requirements {
    Requirements { names: vec![NAME.into()], validity: YEAR, overlap: DAY }
}

fn data(issued: &Issued, trusted: &str) -> Data {
    let all = [(CERTIFICATE, &*issued.certificate), (KEY, &*issued.key), (TRUSTED, trusted)];
    all.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into()))).collect()
}

fn set(data: &mut Data, name: &str, text: &str) {
    data.insert(name.to_owned(), ByteString(text.into()));
}

fn text(data: &Data, name: &str) -> String {
    String::from_utf8(data[name].0.clone()).unwrap()
}

fn first(pem: &str) -> Certificate {
    Certificate::all(pem.as_bytes()).remove(0)
}

/// The Secret of a certificate for these names, with former certificates that are trusted.
fn secret(issued_at: i64, names: &[&str], former: &[Certificate]) -> Data {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let issued = issue::self_signed(&names, issued_at, requirements().validity).unwrap();
    data(&issued, &bundle(&prepend(&first(&issued.certificate), former)))
}

/// A Secret of HNC or of an earlier version, and the certificate of its CA.
fn signed_by_ca() -> (Data, Certificate) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    params.not_after = date_time_ymd(2100, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap().pem();
    let issued = Issued { certificate, key: key.serialize_pem() };
    (data(&issued, &authority.pem()), first(&authority.pem()))
}

/// The state of the cluster, and the memory of the process.
#[derive(Clone, Default)]
struct World {
    serving: Option<Data>,
    next: Option<Data>,
    last_own: Option<Data>,
    last_trusted: Vec<Certificate>,
    registered: Registered,
    registered_for: Duration,
}

fn certificate(data: Option<&Data>) -> Option<Certificate> {
    data.map(|data| first(&text(data, CERTIFICATE)))
}

impl World {
    /// A correct state since this time.
    fn settled(issued_at: i64) -> Self {
        let serving = secret(issued_at, &[NAME], &[]);
        Self {
            last_trusted: listed(Some(&serving)),
            registered: Registered::Everywhere(serving[TRUSTED].0.clone()),
            registered_for: Duration::from_secs(3600),
            last_own: Some(serving.clone()),
            serving: Some(serving),
            next: None,
        }
    }

    fn decide(&self, now: i64) -> Decision {
        let (next, last_own) = (certificate(self.next.as_ref()), certificate(self.last_own.as_ref()));
        let observed = Observed {
            serving: self.serving.as_ref(),
            next: next.as_ref(),
            last_own: last_own.as_ref(),
            last_trusted: &self.last_trusted,
            registered: &self.registered,
            registered_for: self.registered_for,
        };
        decide(&observed, now, &requirements())
    }

    /// Takes the step as the reconciler does, but leaves the registrations unchanged.
    fn apply(&mut self, decision: Decision, now: i64) {
        if let Some(trusted) = decision.trusted {
            self.last_trusted = trusted;
        }
        let written = match decision.step.expect("a step") {
            Step::Issue => {
                self.next = Some(secret(now, &[NAME], &[]));
                return;
            }
            Step::Serve(_, trusted) => (self.next.take(), trusted),
            Step::Restore(_, trusted) => (self.last_own.clone(), trusted),
            Step::UpdateTrusted(trusted) => (self.serving.clone(), trusted),
        };
        let (mut written, trusted) = (written.0.unwrap(), written.1);
        written.retain(|name, _| name == CERTIFICATE || name == KEY);
        set(&mut written, TRUSTED, &bundle(&trusted));
        self.serving = Some(written);
        if own_certificate(self.serving.as_ref(), &requirements(), now).is_some() {
            self.last_own = self.serving.clone();
        }
    }

    /// The registrations have had these certificates for long enough.
    fn register(&mut self, decision: &Decision) {
        let trusted = decision.trusted.as_ref().expect("certificates to trust");
        self.registered = Registered::Everywhere(bundle(trusted).into_bytes());
        self.registered_for = REGISTRATION_DELAY;
    }

    /// Checks a whole replacement. `old` must stay trusted until the overlap is over.
    fn check_replacement(mut self, old: &Certificate, cause: Cause, now: i64, what: &str) {
        let decision = self.decide(now);
        assert_eq!(decision.step, Some(Step::Issue), "{what}");
        assert_eq!(decision.trusted, Some(vec![old.clone()]), "{what}");
        self.apply(decision, now);
        let decision = self.decide(now);
        assert_eq!(decision.step, None, "{what}: only registrations change");
        let trusted = decision.trusted.clone().unwrap();
        assert_eq!((trusted.len(), &trusted[1]), (2, old), "{what}");
        self.register(&decision);
        self.registered_for = REGISTRATION_DELAY.mul_f64(0.99);
        assert_eq!(self.decide(now).step, None, "{what}: API servers must load the registrations");
        self.registered_for = REGISTRATION_DELAY;
        let decision = self.decide(now);
        assert_eq!(decision.step, Some(Step::Serve(cause, trusted.clone())), "{what}");
        self.apply(decision, now);
        let decision = self.decide(now + DAY - 1);
        assert_eq!((&decision.step, decision.next_check), (&None, now + DAY), "{what}: during the overlap");
        assert_eq!(decision.trusted, Some(trusted.clone()), "{what}");
        let decision = self.decide(now + DAY);
        assert_eq!(decision.step, Some(Step::UpdateTrusted(vec![trusted[0].clone()])), "{what}");
        assert_eq!(decision.trusted, Some(vec![trusted[0].clone()]), "{what}");
        self.apply(decision, now + DAY);
        assert_eq!(self.decide(now + DAY).step, None, "{what}");
    }
}

#[test]
fn a_correct_state_needs_no_step() {
    let world = World::settled(NOW);
    for after in [0, 1, DAY, 100 * DAY] {
        let decision = world.decide(NOW + after);
        assert_eq!(decision.step, None, "after {after} s");
        // Two thirds of the validity.
        assert_eq!(decision.next_check, NOW + YEAR - YEAR / 3);
    }
}

#[test]
fn a_new_cluster_gets_a_certificate_at_once() {
    for (empty, cause) in [(None, Cause::Missing), (Some(Data::new()), Cause::Incomplete)] {
        let mut world = World { serving: empty, ..World::default() };
        let decision = world.decide(NOW);
        assert_eq!((&decision.step, &decision.trusted), (&Some(Step::Issue), &None));
        world.apply(decision, NOW);
        let decision = world.decide(NOW);
        let trusted = decision.trusted.clone().unwrap();
        assert_eq!((&decision.step, trusted.len()), (&Some(Step::Serve(cause, trusted.clone())), 1));
        world.apply(decision, NOW);
        assert_eq!(world.decide(NOW).step, None);
    }
}

/// A restored certificate is trusted everywhere, so nothing waits. A controller that has just started does not know the last
/// certificate, and continues to trust those that the Secret lists.
#[test]
fn a_damaged_secret_is_restored_from_memory_or_replaced() {
    let world = World::settled(NOW);
    let serving = world.serving.clone().unwrap();
    let unrelated = World::settled(NOW).serving.unwrap();
    let (foreign, authority) = signed_by_ca();
    let without_key: Data = serving.clone().into_iter().filter(|(name, _)| name != KEY).collect();
    let damaged = |pairs: &[(&str, &str)]| {
        let mut serving = serving.clone();
        for (name, text) in pairs {
            set(&mut serving, name, text);
        }
        serving
    };
    let other = |made, name| {
        let it = secret(made, &[name], &[]);
        damaged(&[(CERTIFICATE, &text(&it, CERTIFICATE)), (KEY, &text(&it, KEY))])
    };
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let table = [
        ("no key", without_key, Cause::Incomplete),
        ("empty certificate", damaged(&[(CERTIFICATE, "")]), Cause::Incomplete),
        ("no PEM", damaged(&[(CERTIFICATE, "nonsense")]), Cause::Unreadable),
        ("PEM of nonsense", damaged(&[(CERTIFICATE, nonsense)]), Cause::Unreadable),
        ("another key", damaged(&[(KEY, &text(&unrelated, KEY))]), Cause::WrongKey),
        ("half a key", damaged(&[(KEY, &text(&serving, KEY)[..60])]), Cause::WrongKey),
        ("other names", other(NOW, "example.org"), Cause::WrongNames),
        ("expired", other(NOW - 2 * YEAR, NAME), Cause::Expired),
        ("from the future", other(NOW + DAY, NAME), Cause::Expired),
        (
            "a foreign certificate",
            damaged(&[(CERTIFICATE, &text(&foreign, CERTIFICATE)), (KEY, &text(&foreign, KEY))]),
            Cause::Unsigned,
        ),
        (
            "a foreign certificate, with its authority",
            damaged(&[
                (CERTIFICATE, &text(&foreign, CERTIFICATE)),
                (KEY, &text(&foreign, KEY)),
                (TRUSTED, &authority.pem()),
            ]),
            Cause::Unsigned,
        ),
    ];
    let old = world.last_trusted.clone();
    for (damage, secret, cause) in table {
        let mut restored = World { serving: Some(secret.clone()), ..world.clone() };
        let decision = restored.decide(NOW);
        assert_eq!(decision.step, Some(Step::Restore(cause, old.clone())), "{damage}");
        assert_eq!(decision.trusted, Some(old.clone()), "{damage}");
        restored.apply(decision, NOW);
        assert_eq!(restored.decide(NOW).step, None, "{damage}");
        assert_eq!(restored.serving, world.serving, "{damage}");

        if !damage.ends_with("authority") {
            let started =
                World { serving: Some(secret), last_own: None, last_trusted: vec![], ..world.clone() };
            started.check_replacement(&old[0], cause, NOW, damage);
        }
    }
}

#[test]
fn damaged_trusted_certificates_are_restored_and_the_certificate_stays() {
    let former = first(&text(&secret(NOW, &[NAME], &[]), CERTIFICATE));
    for former in [vec![], vec![former]] {
        let mut world = World::settled(NOW);
        world.last_trusted.extend(former);
        let list = bundle(&world.last_trusted);
        set(world.serving.as_mut().unwrap(), TRUSTED, &list);
        assert_eq!(world.decide(NOW).step, None);
        for (name, damage) in
            [("ca.key", "secret"), (TRUSTED, "nonsense"), (TRUSTED, ""), (TRUSTED, &list[..400])]
        {
            let mut world = world.clone();
            set(world.serving.as_mut().unwrap(), name, damage);
            let decision = world.decide(NOW);
            assert_eq!(
                decision.step,
                Some(Step::UpdateTrusted(world.last_trusted.clone())),
                "{name}: {damage:?}"
            );
            world.apply(decision, NOW);
            assert_eq!(world.decide(NOW).step, None, "{name}: {damage:?}");
        }
        // Nothing is listed twice.
        set(world.serving.as_mut().unwrap(), TRUSTED, &format!("{list}{list}"));
        assert_eq!(world.decide(NOW).step, Some(Step::UpdateTrusted(world.last_trusted.clone())));
    }
}

#[test]
fn a_certificate_that_expires_soon_or_is_deleted_stays_trusted_during_its_replacement() {
    let world = World::settled(NOW);
    let (old, due) = (world.last_trusted[0].clone(), NOW + YEAR - YEAR / 3);
    let decision = world.decide(due - 1);
    assert_eq!((decision.step, decision.next_check), (None, due));
    world.clone().check_replacement(&old, Cause::Due, due, "due");
    World { serving: None, ..world }.check_replacement(&old, Cause::Missing, NOW, "deleted");
}

/// When registrations cannot be written, an untrusted certificate is better than none.
#[test]
fn without_a_certificate_the_next_one_waits_for_a_limited_time() {
    let mut world = World { serving: None, ..World::settled(NOW) };
    world.apply(world.decide(NOW), NOW);
    assert_eq!(world.decide(NOW + REGISTRATION_TIMEOUT - 1).step, None);
    let decision = world.decide(NOW + REGISTRATION_TIMEOUT);
    assert!(matches!(decision.step, Some(Step::Serve(Cause::Missing, _))), "{decision:?}");
    world.registered = Registered::Nowhere;
    let decision = world.decide(NOW);
    assert!(matches!(decision.step, Some(Step::Serve(Cause::Missing, _))), "{decision:?}");

    let due = NOW + YEAR - YEAR / 3;
    let mut world = World::settled(NOW);
    world.apply(world.decide(due), due);
    world.registered = Registered::Unclear;
    assert_eq!(world.decide(due + REGISTRATION_TIMEOUT).step, None, "the current one can be served");
    // The overlap counts from the issue of the next one.
    assert_eq!(world.decide(due + MAX_UNUSED_AGE).step, Some(Step::Issue));
}

/// HNC leaves a Secret that contains the CA key. Earlier versions left one without it.
#[test]
fn a_certificate_signed_by_a_ca_is_served_until_ours_is_trusted_everywhere() {
    let (mut left_behind, authority) = signed_by_ca();
    for key in [None, Some("a key")] {
        if let Some(key) = key {
            set(&mut left_behind, "ca.key", key);
        }
        let world = World { serving: Some(left_behind.clone()), ..World::default() };
        world.check_replacement(&authority, Cause::SignedByCa, NOW, "signed by a CA");
    }
}
