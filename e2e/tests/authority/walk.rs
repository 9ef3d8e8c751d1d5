//! A random walk: checks the invariants of `docs/concepts.md` after each of many requests by users with real RBAC. The API
//! server's own authorizer gives the rights before and after.

mod ask;
mod check;
mod state;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use forest::Mode;
use hns_e2e::{Dice, eventually};
use kube::Client;

use self::ask::{Ask, Author};
use self::state::{Access, Fence, State};
use super::fixture::{self, Scene};

/// The seed of all random choices.
const SEED: u64 = 20_261_123;
const REQUESTS: usize = 2_000;
/// After how many requests the administrator recreates what was deleted.
const REPLANTED_AFTER: usize = 200;
/// The namespace controller takes some seconds for each.
const DELETIONS: usize = 12;

/// All namespaces of the walk.
pub(crate) const NAMES: [&str; 6] = ["walk-a", "walk-b", "walk-c", "walk-d", "walk-e", "walk-f"];
/// The users; the last three have cluster-wide rights: on namespaces, to create and delete them, and on the configuration.
pub(crate) const USERS: [&str; 6] =
    ["walk-una", "walk-vic", "walk-wes", "walk-pat", "walk-nora", "walk-conf"];

/// The time for all writes and deletions in one namespace after a request.
const PATIENCE: Duration = Duration::from_secs(60);

struct Walk {
    admin: Client,
    users: Vec<Client>,
    fence: Fence,
    author: Author,
    /// Of Secrets.
    mode: Mode,
    outcomes: BTreeMap<String, usize>,
    deletions: usize,
}

#[tokio::test]
async fn a_random_walk_breaks_no_invariant() -> Result<()> {
    let scene = fixture::scene().await?;
    println!("seed {SEED}, {REQUESTS} requests");
    let began = Instant::now();
    let mut walk = Walk::begin(&scene).await?;
    let mut before = walk.replant().await?;
    for number in 0..REQUESTS {
        if number % REPLANTED_AFTER == REPLANTED_AFTER - 1 {
            before = walk.replant().await?;
        }
        let (user, ask) = walk.author.next(&before, walk.deletions < DELETIONS);
        let told = format!("request {number} of seed {SEED}: {} asks {ask:?}", USERS[user]);
        if walk.send(user, &ask).await.with_context(|| told.clone())? {
            walk.deletions += usize::from(before.deletes_a_namespace(&ask));
            let after = walk.rest().await.with_context(|| told.clone())?;
            before.check(&after, user, &ask).with_context(|| told)?;
            before = after;
        }
    }
    println!("{:?} in {:.0?}", walk.outcomes, began.elapsed());
    let done = walk.outcomes.get("done").copied().unwrap_or_default();
    ensure!(done * 5 > REQUESTS, "too little was done: {:?}", walk.outcomes);
    Ok(())
}

impl Walk {
    async fn begin(scene: &Scene) -> Result<Self> {
        let admin = scene.admin();
        ask::create_roles(&admin).await?;
        Ok(Self {
            users: USERS.map(|user| scene.user(user)).into(),
            fence: Fence::begin(&scene.steps).await?,
            author: Author::new(Dice::new(SEED)),
            mode: Mode::Ignore,
            outcomes: BTreeMap::new(),
            deletions: 0,
            admin,
        })
    }

    /// Returns whether the request succeeded.
    async fn send(&mut self, user: usize, ask: &Ask) -> Result<bool> {
        let outcome = match ask.request(&self.users[user]).send().await {
            Ok(_) => "done".to_owned(),
            Err(kube::Error::Api(status)) if status.message.contains("admission webhook") => {
                format!("{} by a rule", status.code)
            }
            Err(kube::Error::Api(status)) => status.code.to_string(),
            Err(error) => return Err(error.into()),
        };
        let done = outcome == "done";
        self.hear(ask, done);
        *self.outcomes.entry(outcome).or_default() += 1;
        Ok(done)
    }

    fn hear(&mut self, ask: &Ask, done: bool) {
        if let Ask::Configure(mode) = ask
            && done
        {
            self.mode = *mode;
        }
    }

    /// The administrator recreates what is missing, and draws new trees.
    async fn replant(&mut self) -> Result<State> {
        let mut state = self.rest().await?;
        for asks in self.author.replant() {
            for ask in asks {
                // A conflict or an existing object does not matter.
                let done = ask.request(&self.admin).send().await.is_ok();
                self.hear(&ask, done);
            }
            state = self.rest().await?;
        }
        Ok(state)
    }

    /// Waits until nothing is left to write or delete and the authorizer knows it; then reads the whole state.
    async fn rest(&mut self) -> Result<State> {
        let state = eventually("all controllers come to rest", PATIENCE, async || {
            let state = State::look(&self.admin, self.mode).await.map_err(|error| format!("{error:#}"))?;
            let open = state.open();
            if open.is_empty() { Ok(state) } else { Err(open.join("\n")) }
        })
        .await?;
        self.fence.pass().await?;
        let access = Access::ask(&self.users).await?;
        Ok(State { access, ..state })
    }
}
