//! One run: a cluster, a tree, five hundred accepted operations, a controller that keeps dying, and the reckoning.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::{Cluster, Dice, Options, Product, Replica, eventually};
use kube::Client;

use super::comparison::Found;
use super::diary::Diary;
use super::history::{History, Verdict};
use super::kind::{Form, Kind, definition};
use super::observer::Observer;
use super::operation::{Author, NAMES, Operation, SORTS};
use super::plugin::Plugin;
use super::specification::{EXCLUDING, Mode, World, inherited_from};
use super::user::User;

/// How many operations are accepted in one run, and how many of each kind at least.
const OPERATIONS: usize = 500;
const OF_EACH_KIND: usize = 40;
/// So often it is waited until all is as it should be.
const CALM_AFTER: usize = 40;
/// So long nothing may be amiss to count as calm.
const CALM: Duration = Duration::from_secs(1);

/// A controller that is killed every few seconds on a busy machine needs some.
const LONG: Duration = Duration::from_secs(90);

/// The tree in the beginning.
const TREE: [(&str, &str); 12] = [
    ("a", ""),
    ("b", ""),
    ("c", "a"),
    ("d", "a"),
    ("e", "b"),
    ("f", "c"),
    ("g", "c"),
    ("h", "d"),
    ("i", "e"),
    ("j", "f"),
    ("k", "i"),
    ("l", ""),
];

/// Everything of one run that is not the controller.
struct Run<'a> {
    user: User,
    author: Author,
    world: World,
    history: History,
    observer: Observer,
    names: BTreeSet<&'static str>,
    diary: &'a Diary,
    plugin: Plugin,
}

/// Plays the operations of this seed on a cluster of its own, while the controller is killed, and judges what came of it.
pub(crate) async fn run(seed: u64) -> Result<()> {
    println!("seed {seed:#x}");
    let began = Instant::now();
    let cluster = Cluster::start().await?;
    let excluding = vec![format!("--nopropagation-label={}={}", EXCLUDING.0, EXCLUDING.1)];
    let options =
        Options { webhook_args: excluding.clone(), controller_args: excluding, ..Options::default() };
    let product = Product::install(&cluster, options).await?;
    let webhook = product.start_webhook().await?;
    let mut controller = product.start_controller().await?;
    let diary = Diary::default();
    let of = || format!("seed {seed:#x}");
    let mut run = Run::begin(&cluster, seed, &diary).await.with_context(of)?;

    let played = tokio::select! {
        played = run.play() => played,
        Err(error) = kill(&mut controller, Dice::new(seed.rotate_left(17)), &diary) => Err(error),
    };
    played.inspect_err(|_| eprintln!("the controller's log ends\n{}", tail(&controller))).with_context(of)?;
    controller.restart().await?;
    run.calm(3 * CALM).await.with_context(|| format!("seed {seed:#x}, in the end"))?;
    run.clear().await.with_context(|| format!("seed {seed:#x}, when all sources are deleted"))?;
    for replica in [&webhook, &controller] {
        ensure!(
            !replica.log().contains("panicked at"),
            "{} panicked:\n{}",
            replica.pod_name(),
            replica.log()
        );
    }
    println!("seed {seed:#x}: {} kills, {:.0?}", diary.kills(), began.elapsed());
    run.reckon().with_context(of)
}

/// Kills the controller every few seconds and starts it again, for ever. It must not have ended by itself.
async fn kill(controller: &mut Replica, mut dice: Dice, diary: &Diary) -> Result<Infallible> {
    loop {
        tokio::time::sleep(Duration::from_millis(1000 + dice.below(3000) as u64)).await;
        let exit = controller.process().exit();
        ensure!(exit.is_none(), "the controller has ended by itself: {exit:?}");
        controller.kill().await?;
        controller.relaunch()?;
        diary.killed();
    }
}

fn tail(replica: &Replica) -> String {
    let log = replica.log();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

impl<'a> Run<'a> {
    async fn begin(cluster: &Cluster, seed: u64, diary: &'a Diary) -> Result<Self> {
        let mut config = cluster.config();
        // A refusal for now (503) is an answer here, and not tried again behind the test's back.
        config.default_retry = false;
        let user = User::of(Client::try_from(config)?);
        let kubectl = |args: &[&str]| cluster.kubectl().args(args).stdin(definition().to_string());
        kubectl(&["apply", "--server-side", "-f", "-"]).ok().await?;
        kubectl(&[]).established(["-f", "-"]).await?;
        let observer = Observer::start(&user.steps.client).await?;

        let modes = Kind::CONFIGURED.into_iter().map(|kind| (kind, Mode::Propagate)).collect();
        let mut world = World { modes, ..World::default() };
        user.configure(&world).await?;
        user.steps.plant(&TREE).await?;
        let parent = |parent: &str| (!parent.is_empty()).then(|| parent.to_owned());
        world.parents = TREE.iter().map(|(name, above)| ((*name).to_owned(), parent(above))).collect();
        let mut history = History::default();
        history.push(Instant::now(), world.clone());
        let names = BTreeSet::from(NAMES);
        let author = Author::new(seed);
        let plugin = Plugin::of(cluster)?;
        let mut run = Self { user, author, world, history, observer, names, diary, plugin };
        run.calm(CALM).await?;
        Ok(run)
    }

    async fn play(&mut self) -> Result<()> {
        let (began, mut accepted) = (Instant::now(), 0);
        for _ in 0..OPERATIONS * 20 {
            let operation =
                self.author.next((&self.world, self.history.modes()), OPERATIONS - accepted, OF_EACH_KIND);
            if self.act(&operation).await? {
                self.author.accept(operation.sort());
                accepted += 1;
                if accepted % CALM_AFTER == 0 {
                    self.calm(CALM).await.with_context(|| format!("after {accepted} operations"))?;
                    self.ask_the_plugin().await?;
                    println!("{accepted} operations, {:.0?}", began.elapsed());
                }
            }
            if accepted == OPERATIONS {
                return Ok(());
            }
            tokio::time::sleep(self.author.pause()).await;
        }
        anyhow::bail!("nearly everything is refused: {:?}", self.user.refused)
    }

    /// Asks the plugin about an object.
    async fn ask_the_plugin(&mut self) -> Result<()> {
        let found = Found::read(&self.user.steps, &self.world).await?;
        let (kind, name) = self.author.question();
        self.plugin.explains(&self.world, &found, kind, name).await
    }

    /// Does it, and when that has put a user's own object in the way of a copy, waits until it was overwritten: until then
    /// it would depend on the controller's pace whether it is still a source when the next operation comes.
    async fn act(&mut self, operation: &Operation) -> Result<bool> {
        let sent = Instant::now();
        let accepted = self.user.act(operation, &self.world).await?;
        ensure!(!accepted || !operation.closes_a_cycle(&self.world), "{operation:?} was accepted");
        if accepted {
            self.world = operation.done(&self.world);
            self.diary.accepted(sent, operation);
            self.history.push(sent, self.world.clone());
            let doomed = self.world.doomed();
            for key in &doomed {
                let api = self.user.objects(key.kind, &key.namespace);
                eventually(&format!("{key} is overwritten after {operation:?}"), LONG, async || {
                    let found = api.get_opt(key.name).await.map_err(|error| error.to_string())?;
                    let form = found.as_ref().map(Form::of);
                    match form.as_ref().and_then(inherited_from) {
                        Some(_) => Ok(()),
                        None => Err(format!("{form:?}")),
                    }
                })
                .await?;
                self.world.own.remove(key);
            }
            if !doomed.is_empty() {
                self.history.push(sent, self.world.clone());
            }
        }
        Ok(accepted)
    }

    /// Waits until the cluster has been as the specification has it for so long.
    async fn calm(&mut self, long: Duration) -> Result<()> {
        let mut since = None;
        let (at, copies) = eventually("all is as specified", LONG, async || {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let now = Instant::now();
            let found = Found::read(&self.user.steps, &self.world).await;
            let found = found.map_err(|error| format!("{error:#}"))?;
            let differences = found.differences(&self.world, &self.history, &self.names);
            if !differences.is_empty() {
                since = None;
                return Err(differences.join("\n"));
            }
            if now.duration_since(*since.get_or_insert(now)) < long {
                return Err("not for long enough".into());
            }
            Ok((now, found.copies(&self.names)))
        })
        .await
        .inspect_err(|_| eprintln!("since it was calm last:\n{}", self.since_calm(Instant::now())))?;
        self.history.calm(at, copies);
        Ok(())
    }

    /// Deletes all sources: then no copy of anything may be left anywhere.
    async fn clear(&mut self) -> Result<()> {
        for key in self.world.own.keys().cloned().collect::<Vec<_>>() {
            ensure!(self.act(&Operation::Delete(key)).await?, "an own object may be deleted");
        }
        for kind in Kind::CONFIGURED {
            if self.world.mode(kind) != Mode::Propagate {
                let switched = self.act(&Operation::Mode(kind, Mode::Propagate)).await?;
                ensure!(switched, "without sources there is no conflict: {:?}", self.user.refused);
            }
        }
        self.calm(CALM).await?;
        let found = Found::read(&self.user.steps, &self.world).await?;
        ensure!(found.number_of_copies() == 0, "copies are left");
        eventually("the watches have seen the end", LONG, async || {
            let mut existing = self.observer.existing().map_err(|error| error.to_string())?;
            existing.retain(|_, (_, namespace, name)| {
                self.world.parents.contains_key(namespace) && name != "kube-root-ca.crt"
            });
            if existing.is_empty() { Ok(()) } else { Err(format!("{existing:?}")) }
        })
        .await
    }

    /// What happened after the last calm before this time.
    fn since_calm(&self, at: Instant) -> String {
        self.diary.between(self.history.calm_before(at), at)
    }

    /// Everything that was seen was right.
    fn reckon(&self) -> Result<()> {
        let mut counts = BTreeMap::<Verdict, usize>::new();
        let mut copies = 0;
        for event in self.observer.events()? {
            let of_ours =
                self.world.parents.contains_key(&event.namespace) && event.name != "kube-root-ca.crt";
            if of_ours || inherited_from(&event.form).is_some() {
                copies += usize::from(inherited_from(&event.form).is_some());
                let verdict = self.history.judge(&event, &self.names);
                if let Verdict::Wrong(what) = &verdict {
                    println!("{what}; since it was calm last:\n{}", self.since_calm(event.at));
                }
                *counts.entry(verdict).or_default() += 1;
            }
        }
        println!(
            "accepted {:?}\nrefused {:?}\n{} calms; {copies} events of copies",
            self.author.accepted(),
            self.user.refused,
            self.history.calms()
        );
        let (wrong, right): (Vec<_>, Vec<_>) =
            counts.into_iter().partition(|(verdict, _)| matches!(verdict, Verdict::Wrong(_)));
        println!("{right:?}");
        ensure!(wrong.is_empty(), "{wrong:#?}");
        for (sort, _) in SORTS {
            let count = self.author.accepted().get(&sort).copied().unwrap_or_default();
            ensure!(count >= OF_EACH_KIND, "only {count} of {sort:?}");
        }
        let removed = right.iter().any(|(verdict, _)| *verdict == Verdict::Removed);
        let written = right.iter().any(|(verdict, _)| *verdict == Verdict::Written);
        ensure!(removed && written, "a run in which nothing happens shows nothing");
        Ok(())
    }
}
