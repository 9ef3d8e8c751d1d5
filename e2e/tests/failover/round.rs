//! One round: holds the leader's writes in flight, stops the leader until another one leads and has changed the objects, releases
//! the late writes, and continues the former leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hns_e2e::steps::PATIENCE;
use hns_e2e::{AuditEvent, Exit, Fault, Mark, Signal, Steps, eventually};
use http::Method;
use http::request::Parts;
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::pair::Pair;

/// How many writes a controller has under way at a time, at most.
const IN_FLIGHT: usize = 32;
/// How soon a late write that took effect is put right.
const PUT_RIGHT: SignedDuration = SignedDuration::from_secs(2);
/// What a stopped leader, once awake, may take to end.
const ENDS: Duration = Duration::from_secs(15);

const CHILDREN: usize = 8;
/// One after the other, so that most of the creations wait until the first ones have been answered.
const CREATED: usize = 6;

/// Which writes of the leader come late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Copies whose source is deleted meanwhile. Only an existing object refuses a creation, so these take effect.
    Creates,
    /// Copies whose source has changed meanwhile.
    Updates,
    /// Copies whose source exists again meanwhile.
    Deletes,
}

impl Held {
    fn is(self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        let method = match self {
            Self::Creates => Method::POST,
            Self::Updates => Method::PUT,
            Self::Deletes => Method::DELETE,
        };
        // A dry run is no write: it only checks whether copies are guarded.
        let in_earnest = !parts.uri.query().is_some_and(|query| query.contains("dryRun="));
        let of_roles = path.contains("rbac.authorization.k8s.io") && path.contains("/roles");
        parts.method == method && of_roles && in_earnest
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Creates => "create",
            Self::Updates => "update",
            Self::Deletes => "delete",
        }
    }
}

/// A tree of one parent, and two controllers.
pub(crate) struct Rounds<'c> {
    pair: Pair<'c>,
    steps: Steps,
    series: String,
    root: String,
    children: Vec<String>,
}

impl<'c> Rounds<'c> {
    pub(crate) async fn plant(pair: Pair<'c>, series: &str) -> Result<Self> {
        let steps = pair.steps();
        let root = format!("{series}-root");
        let children: Vec<String> = (0..CHILDREN).map(|number| format!("{series}-{number}")).collect();
        let mut tree = vec![(root.as_str(), "")];
        tree.extend(children.iter().map(|child| (child.as_str(), root.as_str())));
        steps.plant(&tree).await?;
        for child in &children {
            steps.labelled(&[child, &root]).await?;
        }
        Ok(Self { pair, steps, series: series.to_owned(), root, children })
    }

    /// One round, by what is held.
    pub(crate) async fn play(&mut self, number: usize, held: Held) -> Result<()> {
        let context = format!("series {}, round {number}, {held:?} held", self.series);
        self.play_unnamed(number, held).await.context(context)
    }

    async fn play_unnamed(&mut self, number: usize, held: Held) -> Result<()> {
        let sources = if held == Held::Creates { CREATED } else { 1 };
        let sources: Vec<String> = (0..sources).map(|source| format!("round-{number}-{source}")).collect();
        if held != Held::Creates {
            self.write_sources(&sources, "before").await?;
            self.copies(&sources, Some("before")).await?;
        }
        let (leader, follower) = self.pair.roles().await?;
        let mark = self.pair.cluster().audit().mark()?;
        let count = self.hold(leader, held, &sources).await?;

        let process = self.pair.member(leader).replica.process();
        process.signal(Signal::STOP)?;
        let stopped = Instant::now();
        match held {
            Held::Creates => self.delete_sources(&sources).await?,
            Held::Updates | Held::Deletes => self.write_sources(&sources, "after").await?,
        }
        self.pair.led_by(follower).await?;
        let led = stopped.elapsed();
        let finally = (held != Held::Creates).then_some("after");
        self.copies(&sources, finally).await?;
        let late = count.load(Ordering::SeqCst);
        // Nothing is held any more of what its owner sends later.
        self.pair.member(leader).proxy.set_rule(|_| None);
        self.pair.member(leader).proxy.release();
        let arrived = self.arrived(mark, (leader, follower), held, late).await?;
        self.copies(&sources, finally).await?;

        let awake = Timestamp::now();
        process.signal(Signal::CONT)?;
        let exit = process.wait_exit(ENDS).await?;
        ensure!(exit == Exit::Code(1), "the former leader ended with {exit}");
        let after = self.written(mark, leader)?;
        let after = after.iter().filter(|event| at(event).is_ok_and(|at| at >= awake)).count();
        ensure!(late + after <= IN_FLIGHT, "{late} writes were under way, and {after} came later");
        self.copies(&sources, finally).await?;
        let wanted = sources.len() * CHILDREN;
        println!(
            "{}{number}: another leader after {led:.1?}; {late} late {}s of {wanted}, {arrived}; awake, the former leader sent \
             {after} more and ended",
            self.series,
            held.verb()
        );
        self.delete_sources(&sources).await?;
        self.pair.relaunch(leader).await
    }

    /// Has the leader write to every child, and holds its writes on their way; counts them.
    async fn hold(&self, leader: usize, held: Held, sources: &[String]) -> Result<Arc<AtomicUsize>> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        self.pair.member(leader).proxy.set_rule(move |parts| {
            held.is(parts).then(|| {
                counted.fetch_add(1, Ordering::SeqCst);
                Fault::Hold
            })
        });
        match held {
            Held::Creates | Held::Updates => self.write_sources(sources, "meanwhile").await?,
            Held::Deletes => self.delete_sources(sources).await?,
        }
        eventually("the leader's writes are under way", PATIENCE, async || {
            match count.load(Ordering::SeqCst) {
                seen if seen >= CHILDREN => Ok(()),
                seen => Err(format!("{seen} of {CHILDREN}")),
            }
        })
        .await?;
        Ok(count)
    }

    /// Waits until the late writes have been answered, and says what has become of them: updates and deletes fail, and each
    /// creation is undone by the new leader in time.
    async fn arrived(
        &self,
        mark: Mark,
        (leader, follower): (usize, usize),
        held: Held,
        late: usize,
    ) -> Result<String> {
        let answered = eventually("the late writes are answered", PATIENCE, async || {
            let mut events = self.written(mark, leader).map_err(|error| format!("{error:#}"))?;
            events.retain(|event| event.verb == held.verb() && event.resource == "roles");
            if events.len() == late { Ok(events) } else { Err(format!("{} of {late}", events.len())) }
        })
        .await?;
        if held != Held::Creates {
            let codes: Vec<u16> = answered.iter().map(|event| event.code).collect();
            ensure!(codes.iter().all(|code| *code == 409), "the answers were {codes:?}");
            return Ok("all refused".to_owned());
        }
        let mut longest = SignedDuration::ZERO;
        for created in &answered {
            ensure!(created.code == 201, "{created:?}");
            let what = format!("the new leader deletes {}/{}", created.namespace, created.name);
            let deleted = eventually(&what, PATIENCE, async || {
                let mut events = self.written(mark, follower).map_err(|error| format!("{error:#}"))?;
                events.retain(|event| event.verb == "delete" && event.succeeded());
                let of_it = |event: &AuditEvent| {
                    (&event.namespace, &event.name) == (&created.namespace, &created.name)
                };
                events.into_iter().find(of_it).ok_or_else(|| "not yet".to_owned())
            })
            .await?;
            longest = longest.max(at(&deleted)?.duration_since(at(created)?));
        }
        ensure!(longest < PUT_RIGHT, "a late creation was undone after {longest:?}");
        Ok(format!("all undone within {} ms", longest.as_millis()))
    }

    /// What this one has written since, its lease aside.
    fn written(&self, mark: Mark, index: usize) -> Result<Vec<AuditEvent>> {
        let credential = self.pair.member(index).replica.credential();
        let mut events = self.pair.cluster().audit().since(mark)?;
        events.retain(|event| event.credential == credential && event.is_mutating());
        events.retain(|event| event.resource != "leases");
        Ok(events)
    }

    async fn write_sources(&self, sources: &[String], verb: &str) -> Result<()> {
        for source in sources {
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": source },
                "rules": [{ "apiGroups": ["example.org"], "resources": ["things"], "verbs": [verb] }],
            });
            let params = PatchParams::apply("test").force();
            self.steps.roles(&self.root).patch(source, &params, &Patch::Apply(role)).await?;
        }
        Ok(())
    }

    async fn delete_sources(&self, sources: &[String]) -> Result<()> {
        for source in sources {
            match self.steps.roles(&self.root).delete(source, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Waits until every child has copies of all sources that allow this, or none of any.
    async fn copies(&self, sources: &[String], verb: Option<&str>) -> Result<()> {
        for child in &self.children {
            for source in sources {
                eventually(&format!("{source} in {child} is {verb:?}"), PATIENCE, async || {
                    let copy =
                        self.steps.roles(child).get_opt(source).await.map_err(|error| error.to_string())?;
                    let seen = copy.as_ref().map(allowed);
                    if seen.as_deref() == verb { Ok(()) } else { Err(format!("{seen:?}")) }
                })
                .await?;
            }
        }
        Ok(())
    }
}

fn allowed(role: &Role) -> String {
    role.rules.iter().flatten().flat_map(|rule| rule.verbs.clone()).collect()
}

fn at(event: &AuditEvent) -> Result<Timestamp> {
    event.timestamp.parse().with_context(|| format!("the time {:?}", event.timestamp))
}
