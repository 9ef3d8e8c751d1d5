//! What is written in which state, and that every change of authority goes its three steps.

use super::super::issue::{self, Issued};
use super::*;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;
const NAME: &str = "hnc-webhook-service.hnc-system.svc";

fn terms() -> Terms {
    Terms { names: vec![NAME.into()], validity: YEAR, authority_validity: 10 * YEAR, overlap: DAY }
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

/// The Secret of a new authority beside which others are trusted.
fn authority_secret(made: i64, former: &[Certificate]) -> Data {
    let issued = issue::authority(made, terms().authority_validity).unwrap();
    data(&issued, &bundle(&with(&first(&issued.certificate), former)))
}

/// The Secret of a certificate that this authority has made.
fn serving_secret(authority: &Data, made: i64, names: &[&str]) -> Data {
    let signing = Authority { certificate: first(&text(authority, CERTIFICATE)), key: text(authority, KEY) };
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let issued = issue::serving(&signing, &names, made, terms().validity).unwrap();
    data(&issued, &text(authority, TRUSTED))
}

/// What is there, and what is remembered of it.
#[derive(Clone, Default)]
struct World {
    authority: Option<Data>,
    serving: Option<Data>,
    remembered: Vec<Certificate>,
    registered: Registered,
    registered_for: Duration,
}

impl World {
    /// Everything as it should be since `made`.
    fn settled(made: i64) -> Self {
        let authority = authority_secret(made, &[]);
        let serving = serving_secret(&authority, made, &[NAME]);
        Self {
            remembered: listed(Some(&authority)),
            registered: Registered::Everywhere(authority[TRUSTED].0.clone()),
            registered_for: Duration::from_secs(3600),
            authority: Some(authority),
            serving: Some(serving),
        }
    }

    fn decide(&self, now: i64) -> Decision {
        let found = Found {
            authority: self.authority.as_ref(),
            serving: self.serving.as_ref(),
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
        match decision.write.expect("something to write") {
            Write::Authority(_, former) => self.authority = Some(authority_secret(now, &former)),
            Write::Trusted(former) => {
                let data = self.authority.as_mut().unwrap();
                let present = first(&text(data, CERTIFICATE));
                set(data, TRUSTED, &bundle(&with(&present, &former)));
            }
            Write::Serving(_) => {
                self.serving = Some(serving_secret(self.authority.as_ref().unwrap(), now, &[NAME]));
            }
            Write::Beside => {
                let trusted = bundle(&self.remembered);
                let data = self.serving.as_mut().unwrap();
                data.retain(|name, _| name == CERTIFICATE || name == KEY);
                set(data, TRUSTED, &trusted);
            }
        }
    }

    /// As if registrations had had this for just long enough.
    fn register(&mut self, decision: &Decision) {
        let trusted = decision.trusted.as_ref().expect("authorities to name");
        self.registered = Registered::Everywhere(bundle(trusted).into_bytes());
        self.registered_for = NOTICED_AFTER;
    }
}

#[test]
fn nothing_is_written_while_all_is_well() {
    let world = World::settled(NOW);
    for after in [0, 1, DAY, 100 * DAY] {
        let decision = world.decide(NOW + after);
        assert_eq!(decision.write, None, "after {after} s");
        // Until two thirds of the certificate's year are over.
        assert_eq!(decision.again_at, NOW + YEAR - YEAR / 3);
    }
}

#[test]
fn a_fresh_cluster_gets_both_at_once() {
    for empty in [None, Some(Data::new())] {
        let mut world = World { serving: empty, ..World::default() };
        let decision = world.decide(NOW);
        assert_eq!(
            (&decision.write, &decision.trusted),
            (&Some(Write::Authority(Why::Missing, vec![])), &None)
        );
        world.carry_out(decision, NOW);
        let decision = world.decide(NOW);
        assert!(
            matches!(decision.write, Some(Write::Serving(Why::Missing | Why::Incomplete))),
            "{decision:?}"
        );
        assert_eq!(decision.trusted.as_ref().unwrap().len(), 1);
        world.carry_out(decision, NOW);
        assert_eq!(world.decide(NOW).write, None);
    }
}

/// With the authority as it was, no registration changes and nothing has to wait.
#[test]
fn every_damage_of_the_webhooks_certificate_is_put_right_at_once() {
    let world = World::settled(NOW);
    let (authority, serving) = (world.authority.clone().unwrap(), world.serving.clone().unwrap());
    let strange = World::settled(NOW).serving.unwrap();
    let without_key: Data = serving.clone().into_iter().filter(|(name, _)| name != KEY).collect();
    let damaged = |name: &str, text: &str| {
        let mut serving = serving.clone();
        set(&mut serving, name, text);
        Some(serving)
    };
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let table = [
        ("deleted", None, Why::Missing),
        ("emptied", Some(Data::new()), Why::Incomplete),
        ("no key", Some(without_key), Why::Incomplete),
        ("empty certificate", damaged(CERTIFICATE, ""), Why::Incomplete),
        ("no PEM", damaged(CERTIFICATE, "nonsense"), Why::Unreadable),
        ("PEM of nonsense", damaged(CERTIFICATE, nonsense), Why::Unreadable),
        ("another key", damaged(KEY, &text(&strange, KEY)), Why::WrongKey),
        ("half a key", damaged(KEY, &text(&serving, KEY)[..60]), Why::WrongKey),
        ("other names", Some(serving_secret(&authority, NOW, &["example.org"])), Why::WrongNames),
        ("expired", Some(serving_secret(&authority, NOW - 2 * YEAR, &[NAME])), Why::Expired),
        ("from the future", Some(serving_secret(&authority, NOW + DAY, &[NAME])), Why::Expired),
        ("another's", Some(strange), Why::Unsigned),
        ("the authority itself", Some(authority.clone()), Why::Unsuitable),
        ("due", Some(serving_secret(&authority, NOW - YEAR + YEAR / 3, &[NAME])), Why::Due),
    ];
    for (damage, serving, why) in table {
        let mut damaged = World { serving, ..world.clone() };
        let decision = damaged.decide(NOW);
        assert_eq!(decision.write, Some(Write::Serving(why)), "{damage}");
        assert_eq!(decision.trusted, Some(world.remembered.clone()), "{damage}");
        damaged.carry_out(decision, NOW);
        assert_eq!(damaged.decide(NOW).write, None, "{damage}");
    }
}

#[test]
fn what_stands_beside_the_certificate_is_put_right_and_the_certificate_stays() {
    for (name, text) in [("ca.key", "secret"), (TRUSTED, "nonsense"), (TRUSTED, "")] {
        let mut world = World::settled(NOW);
        let serving = world.serving.as_mut().unwrap();
        let before = serving[CERTIFICATE].clone();
        set(serving, name, text);
        let decision = world.decide(NOW);
        assert_eq!(decision.write, Some(Write::Beside), "{name}");
        world.carry_out(decision, NOW);
        assert_eq!(world.decide(NOW).write, None, "{name}");
        let serving = world.serving.unwrap();
        assert_eq!((serving.len(), &serving[CERTIFICATE]), (3, &before), "{name}");
    }
}

/// Both are trusted, then registered, then the webhook changes, then the old one goes.
#[test]
fn every_damage_of_the_authority_is_a_change_that_refuses_nothing() {
    let world = World::settled(NOW);
    let authority = world.authority.clone().unwrap();
    let strange = World::settled(NOW).authority.unwrap();
    let damaged = |name: &str, text: &str| {
        let mut authority = authority.clone();
        set(&mut authority, name, text);
        Some(authority)
    };
    let expired = issue::authority(NOW - 10 * YEAR - 1, 10 * YEAR).unwrap();
    let table = [
        ("deleted", None, Why::Missing),
        ("emptied", Some(Data::new()), Why::Incomplete),
        ("no PEM", damaged(CERTIFICATE, "nonsense"), Why::Unreadable),
        ("no PEM of a key", damaged(KEY, "nonsense"), Why::WrongKey),
        ("another's key", damaged(KEY, &text(&strange, KEY)), Why::WrongKey),
        ("a server's", world.serving.clone(), Why::Unsuitable),
        ("expired", Some(data(&expired, &expired.certificate)), Why::Expired),
    ];
    for (damage, authority, why) in table {
        for remembered in [world.remembered.clone(), vec![]] {
            let mut damaged = World { authority: authority.clone(), remembered, ..world.clone() };
            let old = world.remembered[0].clone();
            let decision = damaged.decide(NOW);
            assert_eq!(decision.write, Some(Write::Authority(why, vec![old.clone()])), "{damage}");
            assert_eq!(decision.trusted, None, "{damage}: registrations stay for now");
            damaged.carry_out(decision, NOW);
            change_over(damaged, &old, damage);
        }
    }
}

#[test]
fn an_authority_that_is_due_is_changed_and_stays_registered_meanwhile() {
    let mut world = World::settled(NOW);
    let old = world.remembered[0].clone();
    let due = NOW + 10 * YEAR - 10 * YEAR / 3;
    world.serving = Some(serving_secret(world.authority.as_ref().unwrap(), due, &[NAME]));
    let decision = world.decide(due - 1);
    assert_eq!((decision.write, decision.again_at), (None, due));
    let decision = world.decide(due);
    assert_eq!(decision.write, Some(Write::Authority(Why::Due, vec![old.clone()])));
    assert_eq!(decision.trusted, Some(vec![old]));
}

/// From a new authority, just written, to the end.
fn change_over(mut world: World, old: &Certificate, what: &str) {
    let decision = world.decide(NOW);
    assert_eq!(decision.write, None, "{what}: nothing but registrations changes");
    let trusted = decision.trusted.clone().unwrap();
    assert_eq!((trusted.len(), &trusted[1]), (2, old), "{what}");
    world.register(&decision);
    world.registered_for = NOTICED_AFTER.mul_f64(0.99);
    assert_eq!(world.decide(NOW).write, None, "{what}: API servers have to notice");
    world.registered_for = NOTICED_AFTER;
    let decision = world.decide(NOW);
    assert_eq!(decision.write, Some(Write::Serving(Why::FormerAuthority)), "{what}");
    world.carry_out(decision, NOW);
    let decision = world.decide(NOW + DAY - 1);
    assert_eq!((decision.write, decision.again_at), (None, NOW + DAY), "{what}: others may be late");
    let decision = world.decide(NOW + DAY);
    assert_eq!(decision.write, Some(Write::Trusted(vec![])), "{what}");
    world.carry_out(decision, NOW + DAY);
    let decision = world.decide(NOW + DAY);
    assert_eq!(
        (&decision.write, decision.trusted.as_ref().unwrap().len()),
        (&Some(Write::Beside), 1),
        "{what}"
    );
    world.carry_out(decision, NOW + DAY);
    assert_eq!(world.decide(NOW + DAY).write, None, "{what}");
}

/// Both Secrets gone: what replicas still serve from memory stays trusted, if this process remembers who signed it.
#[test]
fn what_may_be_served_from_memory_stays_trusted_for_a_while() {
    let mut world = World { authority: None, serving: None, ..World::settled(NOW) };
    let old = world.remembered.clone();
    let decision = world.decide(NOW);
    assert_eq!(decision.write, Some(Write::Authority(Why::Missing, old)));
    world.carry_out(decision, NOW);
    let decision = world.decide(NOW);
    assert_eq!((&decision.write, decision.trusted.as_ref().unwrap().len()), (&None, 2));
    // Where nobody can register the new one, a webhook without a certificate is worse.
    assert_eq!(world.decide(NOW + PATIENCE).write, Some(Write::Serving(Why::Missing)));
    world.register(&decision);
    assert_eq!(world.decide(NOW).write, Some(Write::Serving(Why::Missing)));
    world.registered = Registered::Nowhere;
    assert_eq!(world.decide(NOW).write, Some(Write::Serving(Why::Missing)));
}

#[test]
fn a_damaged_list_of_those_trusted_is_put_right_from_memory() {
    let mut world = World::settled(NOW);
    let present = world.remembered[0].clone();
    let former = first(&text(&authority_secret(NOW, &[]), CERTIFICATE));
    let list = bundle(&with(&present, std::slice::from_ref(&former)));
    set(world.authority.as_mut().unwrap(), TRUSTED, &list);
    set(world.serving.as_mut().unwrap(), TRUSTED, &list);
    world.remembered = vec![present, former.clone()];
    assert_eq!(world.decide(NOW).write, None);
    for damage in ["", "nonsense", &list[..400]] {
        let mut damaged = world.clone();
        set(damaged.authority.as_mut().unwrap(), TRUSTED, damage);
        assert_eq!(damaged.decide(NOW).write, Some(Write::Trusted(vec![former.clone()])), "{damage:?}");
    }
    // A server's certificate in the list makes nobody trusted, and nobody is listed twice.
    let mut padded = world.clone();
    let server = text(world.serving.as_ref().unwrap(), CERTIFICATE);
    set(padded.authority.as_mut().unwrap(), TRUSTED, &format!("{list}{server}{list}"));
    let decision = padded.decide(NOW);
    assert_eq!(decision.write, Some(Write::Trusted(vec![former])));
    assert_eq!(decision.trusted.unwrap().len(), 2);
}

/// HNC leaves one Secret, with the key of the authority in it.
#[test]
fn a_usable_certificate_of_hnc_is_served_until_ours_is_trusted_everywhere() {
    let theirs = World::settled(NOW - 3 * YEAR);
    let old = theirs.remembered[0].clone();
    let mut left_behind = serving_secret(theirs.authority.as_ref().unwrap(), NOW, &[NAME]);
    set(&mut left_behind, "ca.key", "a key");
    let mut world = World { serving: Some(left_behind), ..World::default() };
    let decision = world.decide(NOW);
    assert_eq!(decision.write, Some(Write::Authority(Why::Missing, vec![old.clone()])));
    world.carry_out(decision, NOW);
    change_over(world, &old, "HNC's");
}

/// Another's certificate is no reason to trust whoever signed it, once there is an authority of ours.
#[test]
fn nobody_is_trusted_for_a_certificate_in_the_webhooks_secret() {
    let world = World { serving: World::settled(NOW).serving, ..World::settled(NOW) };
    let decision = world.decide(NOW);
    assert_eq!(decision.write, Some(Write::Serving(Why::Unsigned)));
    assert_eq!(decision.trusted, Some(world.remembered));
}
