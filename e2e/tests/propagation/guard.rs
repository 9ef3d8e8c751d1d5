//! Copies of a kind that has just been configured, attacked by a user with every right on that kind, who tries to change and
//! delete them from the first moment. `speed.rs` measures the time of the first copies without an attack.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hns_e2e::eventually;
use hns_e2e::steps::PATIENCE;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::request::{Users, object_path};
use super::scene::{GROUP, apply_definitions, definition, planted, scene_alone};

const ROOT: &str = "guard-root";
const LEAF: &str = "guard-leaf";
const NAME: &str = "source";

/// Rounds, in each of which every kind is configured once.
const ROUNDS: usize = 5;
const KINDS: usize = 10;

/// How long after its first copy a kind is attacked.
const AFTERWARDS: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn no_user_can_change_a_copy_of_a_kind_that_has_just_been_configured() -> Result<()> {
    let scene = scene_alone().await?;
    let plurals: Vec<String> = (0..KINDS).map(|number| format!("openings{number}s")).collect();
    let open = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let definitions: Vec<Value> = plurals.iter().map(|plural| definition(plural, false, &open)).collect();
    apply_definitions(scene.cluster(), &definitions).await?;
    scene.plant(&[planted(ROOT, None), planted(LEAF, Some(ROOT))]).await?;
    let entries = |mode: &str| -> Vec<Value> {
        let entry = |plural: &String| json!({ "group": GROUP, "resource": plural, "mode": mode });
        plurals.iter().map(entry).collect()
    };
    for plural in &plurals {
        let source = json!({ "data": { "n": 0 } });
        scene.create("alice", (plural, ROOT, NAME), source).await?.allowed("the source")?;
    }

    let attacker = Arc::new(Users::of(scene.cluster()));
    let (mut writes, mut attempts, mut took) = (Vec::new(), 0, Vec::new());
    for round in 0..ROUNDS {
        let attack = Attack::start(&attacker, &plurals);
        let began = Instant::now();
        scene.put_configuration("admin", &entries("Propagate")).await?;
        for plural in &plurals {
            there(&scene.users, plural, true).await?;
        }
        took.push(began.elapsed());
        tokio::time::sleep(AFTERWARDS).await;
        let (made, in_vain) = attack.end().await?;
        writes.extend(made.into_iter().map(|what| format!("round {round}: {what}")));
        attempts += in_vain;
        scene.put_configuration("admin", &entries("Remove")).await?;
        for plural in &plurals {
            there(&scene.users, plural, false).await?;
        }
        // The next round begins while API servers may still use the registrations with these kinds.
        scene.put_configuration("admin", &entries("Ignore")).await?;
        scene.in_force(&entries("Ignore")).await?;
    }
    let absent = plurals.iter().map(|plural| json!({ "group": GROUP, "resource": plural, "absent": true }));
    scene.configure(&absent.collect::<Vec<_>>()).await?;
    took.sort_unstable();
    println!(
        "of {} first copies, {} were written to, and {attempts} attempts were refused; all were there after {:?} ms",
        ROUNDS * KINDS,
        writes.len(),
        took.iter().map(Duration::as_millis).collect::<Vec<_>>(),
    );
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(attempts > ROUNDS * KINDS, "there was no attack");
    scene.fixture.unharmed()
}

async fn there(users: &Users, plural: &str, wanted: bool) -> Result<()> {
    let path = object_path(plural, LEAF, NAME);
    eventually(&format!("{path}: {wanted}"), PATIENCE, async || {
        let answer = users.send("admin", Method::GET, &path, &Value::Null).await;
        let code = answer.map_err(|error| format!("{error:#}"))?.code;
        if (code == 200) == wanted { Ok(()) } else { Err(code.to_string()) }
    })
    .await
}

/// One task for each kind, which changes and deletes the copy as soon as there is one.
struct Attack {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<(Option<String>, usize)>>,
}

impl Attack {
    fn start(users: &Arc<Users>, plurals: &[String]) -> Self {
        let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for plural in plurals {
            let (stop, users, path) = (stop.clone(), users.clone(), object_path(plural, LEAF, NAME));
            tasks.spawn(async move {
                let (mut made, mut refused) = (None, 0);
                for turn in 0_usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (method, body) = if turn % 2 == 0 {
                        (Method::PATCH, json!({ "data": { "n": "stolen" } }))
                    } else {
                        (Method::DELETE, Value::Null)
                    };
                    let answer = users.send("alice", method.clone(), &path, &body).await?;
                    match answer.code {
                        200 => made = made.or(Some(format!("{method} {path}"))),
                        403 => refused += 1,
                        _ => {}
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok((made, refused))
            });
        }
        Self { stop, tasks }
    }

    /// The first write to each copy that was written to, and how many attempts were refused.
    async fn end(mut self) -> Result<(Vec<String>, usize)> {
        self.stop.store(true, Ordering::Relaxed);
        let (mut made, mut refused) = (Vec::new(), 0);
        while let Some(ended) = self.tasks.join_next().await {
            let (first, in_vain) = ended??;
            made.extend(first);
            refused += in_vain;
        }
        Ok((made, refused))
    }
}
