//! The test itself: so many requests, in one world after the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::access::USERS;
use super::check::Broken;
use super::draw::Dice;
use super::story::{Outcome, Story, is_same_sort, step};

/// So many requests are asked of one world.
const REQUESTS_PER_WORLD: usize = 40;

/// What came of many requests.
#[derive(Default)]
struct Tally {
    outcomes: BTreeMap<&'static str, usize>,
    broken: Vec<(Story, Broken)>,
}

impl Tally {
    fn count(&mut self, outcome: &'static str) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    fn found(&mut self, story: Story, broken: Broken) {
        let found = (story, broken);
        if !self.broken.iter().any(|known| is_same_sort(known, &found)) {
            self.broken.push(found);
        }
    }

    fn add(mut self, other: Self) -> Self {
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        other.broken.into_iter().for_each(|(story, broken)| self.found(story, broken));
        self
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "which requests are asked is the developer's to say; the forest is not told"
)]
fn asked_for(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// One world, and what is asked of it until something breaks.
fn world(seed: u64, tally: &mut Tally) {
    let mut dice = Dice::new(seed);
    let mut story = dice.story();
    let mut world = story.begin();
    let is_about_places = dice.below(2) == 0;
    for _ in 0..REQUESTS_PER_WORLD {
        let ask = if is_about_places { dice.move_or_end(&world) } else { dice.ask(&world) };
        let user = dice.user(&world, &ask);
        story.asked.push((user, ask.clone()));
        let outcome = step(&mut world, user, &ask);
        tally.count(match outcome {
            Outcome::Impossible => "impossible",
            Outcome::NoRight => "refused by RBAC",
            Outcome::Refused => "refused by a rule",
            Outcome::Done => "done",
            Outcome::Broken(_) => "broken",
        });
        if let Outcome::Broken(broken) = outcome {
            return tally.found(story, broken);
        }
    }
}

fn told((story, _): (Story, Broken)) -> String {
    let (story, broken) = story.smallest();
    let mut text = format!("\n{}: {}\n", broken.invariant, broken.how);
    let grants = USERS.iter().zip(&story.cluster_wide).filter(|(_, rights)| !rights.is_empty());
    for (user, rights) in grants {
        let _ = writeln!(text, "  {user} has {rights:?} everywhere");
    }
    if story.initial_admin {
        text += "  creators become admins\n";
    }
    for ask in &story.setup {
        let _ = writeln!(text, "  given   {ask:?}");
    }
    for (user, ask) in &story.asked {
        let _ = writeln!(text, "  {} asks  {ask:?}", USERS[*user]);
    }
    text
}

#[test]
fn invariants_hold_for_every_user_and_request() {
    let seed = asked_for("HNS_INVARIANTS_SEED", 17);
    let requests = asked_for("HNS_INVARIANTS_REQUESTS", 100_000);
    let worlds = requests.div_ceil(REQUESTS_PER_WORLD);
    println!("seed {seed}, {requests} requests, {worlds} worlds");
    let lane = |first: usize| {
        let mut tally = Tally::default();
        for at in (first..worlds).step_by(2) {
            world(seed.wrapping_add(at << 20) as u64, &mut tally);
        }
        tally
    };
    let tally = std::thread::scope(|scope| {
        let other = scope.spawn(|| lane(1));
        lane(0).add(other.join().expect("the other half ends"))
    });
    println!("{:?}", tally.outcomes);
    let broken: String = tally.broken.into_iter().map(told).collect();
    assert!(broken.is_empty(), "seed {seed}: {broken}");
    assert!(tally.outcomes["done"] * 4 > requests, "too little was done");
}
