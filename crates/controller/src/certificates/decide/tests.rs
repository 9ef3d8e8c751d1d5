//! What is done in which state, and that every change of certificate goes its steps.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use super::super::issue::{self, Issued};
use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;
const NAME: &str = "hnc-webhook-service.hnc-system.svc";

fn terms() -> Terms {
    Terms { names: vec![NAME.into()], validity: YEAR, overlap: DAY }
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

/// The Secret of a certificate for these names, beside which others are trusted.
fn secret(made: i64, names: &[&str], former: &[Certificate]) -> Data {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let issued = issue::serving(&names, made, terms().validity).unwrap();
    data(&issued, &bundle(&with(&first(&issued.certificate), former)))
}

/// The Secret that HNC or an earlier version has left, and the authority.
fn signed_by_an_authority() -> (Data, Certificate) {
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

/// What is there, and what is remembered of it.
#[derive(Clone, Default)]
struct World {
    serving: Option<Data>,
    next: Option<Data>,
    held: Option<Data>,
    remembered: Vec<Certificate>,
    registered: Registered,
    registered_for: Duration,
}

fn certificate(data: Option<&Data>) -> Option<Certificate> {
    data.map(|data| first(&text(data, CERTIFICATE)))
}

impl World {
    /// Everything as it should be since `made`.
    fn settled(made: i64) -> Self {
        let serving = secret(made, &[NAME], &[]);
        Self {
            remembered: listed(Some(&serving)),
            registered: Registered::Everywhere(serving[TRUSTED].0.clone()),
            registered_for: Duration::from_secs(3600),
            held: Some(serving.clone()),
            serving: Some(serving),
            next: None,
        }
    }

    fn decide(&self, now: i64) -> Decision {
        let (next, held) = (certificate(self.next.as_ref()), certificate(self.held.as_ref()));
        let found = Found {
            serving: self.serving.as_ref(),
            next: next.as_ref(),
            held: held.as_ref(),
            remembered: &self.remembered,
            registered: &self.registered,
            registered_for: self.registered_for,
        };
        decide(&found, now, &terms())
    }

    /// As the shell does it. Registrations stay as they are.
    fn carry_out(&mut self, decision: Decision, now: i64) {
        if let Some(trusted) = decision.trusted {
            self.remembered = trusted;
        }
        let written = match decision.step.expect("something to do") {
            Step::Make => {
                self.next = Some(secret(now, &[NAME], &[]));
                return;
            }
            Step::Serve(_, trusted) => (self.next.take(), trusted),
            Step::Restore(_, trusted) => (self.held.clone(), trusted),
            Step::Beside(trusted) => (self.serving.clone(), trusted),
        };
        let (mut written, trusted) = (written.0.unwrap(), written.1);
        written.retain(|name, _| name == CERTIFICATE || name == KEY);
        set(&mut written, TRUSTED, &bundle(&trusted));
        self.serving = Some(written);
        if own(self.serving.as_ref(), &terms(), now).is_some() {
            self.held = self.serving.clone();
        }
    }

    /// As if registrations had had this for just long enough.
    fn register(&mut self, decision: &Decision) {
        let trusted = decision.trusted.as_ref().expect("certificates to trust");
        self.registered = Registered::Everywhere(bundle(trusted).into_bytes());
        self.registered_for = NOTICED_AFTER;
    }

    /// From a certificate that must be replaced to the end, with `old` trusted all the while.
    fn change_over(mut self, old: &Certificate, why: Why, now: i64, what: &str) {
        let decision = self.decide(now);
        assert_eq!(decision.step, Some(Step::Make), "{what}");
        assert_eq!(decision.trusted, Some(vec![old.clone()]), "{what}");
        self.carry_out(decision, now);
        let decision = self.decide(now);
        assert_eq!(decision.step, None, "{what}: nothing but registrations changes");
        let trusted = decision.trusted.clone().unwrap();
        assert_eq!((trusted.len(), &trusted[1]), (2, old), "{what}");
        self.register(&decision);
        self.registered_for = NOTICED_AFTER.mul_f64(0.99);
        assert_eq!(self.decide(now).step, None, "{what}: API servers must notice");
        self.registered_for = NOTICED_AFTER;
        let decision = self.decide(now);
        assert_eq!(decision.step, Some(Step::Serve(why, trusted.clone())), "{what}");
        self.carry_out(decision, now);
        let decision = self.decide(now + DAY - 1);
        assert_eq!((&decision.step, decision.again_at), (&None, now + DAY), "{what}: others may be late");
        assert_eq!(decision.trusted, Some(trusted.clone()), "{what}");
        let decision = self.decide(now + DAY);
        assert_eq!(decision.step, Some(Step::Beside(vec![trusted[0].clone()])), "{what}");
        assert_eq!(decision.trusted, Some(vec![trusted[0].clone()]), "{what}");
        self.carry_out(decision, now + DAY);
        assert_eq!(self.decide(now + DAY).step, None, "{what}");
    }
}

#[test]
fn nothing_is_done_while_all_is_well() {
    let world = World::settled(NOW);
    for after in [0, 1, DAY, 100 * DAY] {
        let decision = world.decide(NOW + after);
        assert_eq!(decision.step, None, "after {after} s");
        // Until two thirds of the certificate's year are over.
        assert_eq!(decision.again_at, NOW + YEAR - YEAR / 3);
    }
}

#[test]
fn a_fresh_cluster_gets_a_certificate_at_once() {
    for (empty, why) in [(None, Why::Missing), (Some(Data::new()), Why::Incomplete)] {
        let mut world = World { serving: empty, ..World::default() };
        let decision = world.decide(NOW);
        assert_eq!((&decision.step, &decision.trusted), (&Some(Step::Make), &None));
        world.carry_out(decision, NOW);
        let decision = world.decide(NOW);
        let trusted = decision.trusted.clone().unwrap();
        assert_eq!((&decision.step, trusted.len()), (&Some(Step::Serve(why, trusted.clone())), 1));
        world.carry_out(decision, NOW);
        assert_eq!(world.decide(NOW).step, None);
    }
}

/// What is put back is trusted everywhere, so nothing waits. A controller that has just started cannot know what was there, and
/// goes on trusting what the Secret lists.
#[test]
fn every_damage_is_restored_from_memory_or_else_replaced() {
    let world = World::settled(NOW);
    let serving = world.serving.clone().unwrap();
    let strange = World::settled(NOW).serving.unwrap();
    let (foreign, authority) = signed_by_an_authority();
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
        ("no key", without_key, Why::Incomplete),
        ("empty certificate", damaged(&[(CERTIFICATE, "")]), Why::Incomplete),
        ("no PEM", damaged(&[(CERTIFICATE, "nonsense")]), Why::Unreadable),
        ("PEM of nonsense", damaged(&[(CERTIFICATE, nonsense)]), Why::Unreadable),
        ("another key", damaged(&[(KEY, &text(&strange, KEY))]), Why::WrongKey),
        ("half a key", damaged(&[(KEY, &text(&serving, KEY)[..60])]), Why::WrongKey),
        ("other names", other(NOW, "example.org"), Why::WrongNames),
        ("expired", other(NOW - 2 * YEAR, NAME), Why::Expired),
        ("from the future", other(NOW + DAY, NAME), Why::Expired),
        (
            "another's",
            damaged(&[(CERTIFICATE, &text(&foreign, CERTIFICATE)), (KEY, &text(&foreign, KEY))]),
            Why::Unsigned,
        ),
        (
            "another's, with its authority",
            damaged(&[
                (CERTIFICATE, &text(&foreign, CERTIFICATE)),
                (KEY, &text(&foreign, KEY)),
                (TRUSTED, &authority.pem()),
            ]),
            Why::Unsigned,
        ),
    ];
    let old = world.remembered.clone();
    for (damage, secret, why) in table {
        let mut restored = World { serving: Some(secret.clone()), ..world.clone() };
        let decision = restored.decide(NOW);
        assert_eq!(decision.step, Some(Step::Restore(why, old.clone())), "{damage}");
        assert_eq!(decision.trusted, Some(old.clone()), "{damage}");
        restored.carry_out(decision, NOW);
        assert_eq!(restored.decide(NOW).step, None, "{damage}");
        assert_eq!(restored.serving, world.serving, "{damage}");

        if !damage.ends_with("authority") {
            let started = World { serving: Some(secret), held: None, remembered: vec![], ..world.clone() };
            started.change_over(&old[0], why, NOW, damage);
        }
    }
}

#[test]
fn what_stands_beside_the_certificate_is_restored_and_the_certificate_stays() {
    let former = first(&text(&secret(NOW, &[NAME], &[]), CERTIFICATE));
    for former in [vec![], vec![former]] {
        let mut world = World::settled(NOW);
        world.remembered.extend(former);
        let list = bundle(&world.remembered);
        set(world.serving.as_mut().unwrap(), TRUSTED, &list);
        assert_eq!(world.decide(NOW).step, None);
        for (name, damage) in
            [("ca.key", "secret"), (TRUSTED, "nonsense"), (TRUSTED, ""), (TRUSTED, &list[..400])]
        {
            let mut world = world.clone();
            set(world.serving.as_mut().unwrap(), name, damage);
            let decision = world.decide(NOW);
            assert_eq!(decision.step, Some(Step::Beside(world.remembered.clone())), "{name}: {damage:?}");
            world.carry_out(decision, NOW);
            assert_eq!(world.decide(NOW).step, None, "{name}: {damage:?}");
        }
        // Nothing is listed twice.
        set(world.serving.as_mut().unwrap(), TRUSTED, &format!("{list}{list}"));
        assert_eq!(world.decide(NOW).step, Some(Step::Beside(world.remembered.clone())));
    }
}

#[test]
fn a_certificate_that_is_due_or_deleted_stays_trusted_while_another_comes() {
    let world = World::settled(NOW);
    let (old, due) = (world.remembered[0].clone(), NOW + YEAR - YEAR / 3);
    let decision = world.decide(due - 1);
    assert_eq!((decision.step, decision.again_at), (None, due));
    world.clone().change_over(&old, Why::Due, due, "due");
    World { serving: None, ..world }.change_over(&old, Why::Missing, NOW, "deleted");
}

/// Where registrations cannot be written, a webhook without a certificate is worse than one whose certificate is not trusted.
#[test]
fn a_webhook_without_a_certificate_does_not_wait_for_ever() {
    let mut world = World { serving: None, ..World::settled(NOW) };
    world.carry_out(world.decide(NOW), NOW);
    assert_eq!(world.decide(NOW + PATIENCE - 1).step, None);
    let decision = world.decide(NOW + PATIENCE);
    assert!(matches!(decision.step, Some(Step::Serve(Why::Missing, _))), "{decision:?}");
    world.registered = Registered::Nowhere;
    let decision = world.decide(NOW);
    assert!(matches!(decision.step, Some(Step::Serve(Why::Missing, _))), "{decision:?}");

    let due = NOW + YEAR - YEAR / 3;
    let mut world = World::settled(NOW);
    world.carry_out(world.decide(due), due);
    world.registered = Registered::Unclear;
    assert_eq!(world.decide(due + PATIENCE).step, None, "the present one can be served");
    // The overlap counts from the making of the next one.
    assert_eq!(world.decide(due + FRESH).step, Some(Step::Make));
}

/// HNC leaves one Secret, with the key of the authority in it; so did this program before, without that key.
#[test]
fn what_an_authority_has_signed_is_served_until_ours_is_trusted_everywhere() {
    let (mut left_behind, authority) = signed_by_an_authority();
    for key in [None, Some("a key")] {
        if let Some(key) = key {
            set(&mut left_behind, "ca.key", key);
        }
        let world = World { serving: Some(left_behind.clone()), ..World::default() };
        world.change_over(&authority, Why::ByAuthority, NOW, "an authority's");
    }
}
