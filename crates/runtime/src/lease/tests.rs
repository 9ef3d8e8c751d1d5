//! Elections against an API server of a few lines, which keeps one Lease as the real one would, on
//! a clock that these tests move.

use std::sync::atomic::{AtomicU8, Ordering};

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{advance, sleep, timeout};
use tower::{BoxError, service_fn};

use super::*;

const NAME: &str = "hns-controller";

/// The API server's only Lease.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    version: u64,
    lease: Option<Value>,
    writes: usize,
}

/// What happens to the requests of one replica.
#[derive(Clone, Default)]
struct Line(Arc<AtomicU8>);

const UP: u8 = 0;
const FAILS: u8 = 1;
const HANGS: u8 = 2;

impl Line {
    fn set(&self, state: u8) {
        self.0.store(state, Ordering::SeqCst);
    }
}

impl Server {
    fn client(&self, line: &Line) -> Client {
        let (server, line) = (self.clone(), line.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (server, line) = (server.clone(), line.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                // Every request takes a moment, so that two can be under way at once.
                sleep(Duration::from_millis(20)).await;
                match line.0.load(Ordering::SeqCst) {
                    FAILS => return Ok(respond(status(500, "InternalError"))),
                    HANGS => std::future::pending().await,
                    _ => {}
                }
                Ok::<_, BoxError>(respond(server.answer(&parts.method, &body)))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut stored = self.0.lock();
        match (method, stored.lease.clone()) {
            (&Method::GET, Some(lease)) => return (200, lease),
            (&Method::POST, None) => {}
            (&Method::POST, Some(_)) => return status(409, "AlreadyExists"),
            (&Method::PUT, Some(lease)) => {
                let sent: Value = serde_json::from_slice(body).unwrap();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                assert!(version(&sent).is_string(), "a write without precondition");
                if version(&sent) != version(&lease) {
                    return status(409, "Conflict");
                }
            }
            _ => return status(404, "NotFound"),
        }
        let sent = serde_json::from_slice(body).unwrap();
        (200, stored.store(sent))
    }

    fn holder(&self) -> Option<String> {
        let stored = self.0.lock();
        let holder = stored.lease.as_ref()?["spec"]["holderIdentity"].as_str()?;
        Some(holder.to_owned())
    }

    /// Another client changes the Lease.
    fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut stored = self.0.lock();
        let mut lease = stored.lease.clone().unwrap_or_else(|| json!({"metadata": {"name": NAME}}));
        edit(&mut lease);
        stored.store(lease);
    }

    fn replica(&self, identity: &str) -> (Leadership, Line) {
        let line = Line::default();
        let client = self.client(&line);
        let (leadership, elector) =
            Leadership::join(client, ("hnc-system", NAME), identity.to_owned(), Timing::default());
        tokio::spawn(elector.run());
        (leadership, line)
    }
}

impl Stored {
    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        self.writes += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let status =
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason});
    (code, status)
}

fn respond((code, body): (u16, Value)) -> Response<Body> {
    let body = Body::from(body.to_string().into_bytes());
    Response::builder().status(code).body(body).unwrap()
}

async fn acquired_after(leadership: &Leadership) -> Duration {
    let start = Instant::now();
    let limit = Duration::from_secs(60);
    timeout(limit, leadership.acquired()).await.expect("never acquired");
    start.elapsed()
}

async fn lost_after(leadership: &Leadership) -> Duration {
    let start = Instant::now();
    let limit = Duration::from_secs(60);
    timeout(limit, leadership.lost()).await.expect("never lost");
    assert!(!leadership.is_leader());
    start.elapsed()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn work_that_keeps_all_other_threads_busy_does_not_cost_the_lease() {
    let server = Server::default();
    let timing = Timing {
        lease_duration: seconds(3),
        renew_deadline: seconds(2),
        retry_period: Duration::from_millis(200),
    };
    let there = server.clone();
    // The client sends its requests on the thread on which it is made.
    let connect = async move { Ok(there.client(&Line::default())) };
    let leadership = Leadership::seek(connect, ("hnc-system", NAME), "a".to_owned(), timing).await.unwrap();
    leadership.acquired().await;
    std::thread::sleep(timing.renew_deadline + seconds(1));
    assert!(leadership.is_leader());
    leadership.release().await;
    assert_eq!(server.holder().as_deref().unwrap_or_default(), "");
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_renews_and_a_second_follows() {
    let server = Server::default();
    let (first, _) = server.replica("first");
    assert!(acquired_after(&first).await < seconds(1));
    let (second, _) = server.replica("second");
    for _ in 0..60 {
        sleep(seconds(1)).await;
        assert!(first.is_leader() && !second.is_leader());
    }
    assert_eq!(server.holder().as_deref(), Some("first"));
    let lease = server.0.lock().lease.clone().unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    let writes = server.0.lock().writes;
    assert!((25..=32).contains(&writes), "{writes} writes in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_at_once() {
    let server = Server::default();
    let (first, _) = server.replica("first");
    first.acquired().await;
    let (second, _) = server.replica("second");
    sleep(seconds(7)).await;
    first.release().await;
    assert_eq!(server.holder(), None, "the process may end after this returns");
    assert!(!first.is_leader());
    first.lost().await;
    let took = acquired_after(&second).await;
    assert!(took < seconds(5), "{took:?}");
    let lease = server.0.lock().lease.clone().unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_cuts_off_a_renewal_that_hangs_and_a_follower_has_nothing_to_release() {
    let server = Server::default();
    let (first, line) = server.replica("first");
    first.acquired().await;
    let (second, _) = server.replica("second");
    sleep(seconds(3)).await;
    second.release().await;
    assert_eq!(server.holder().as_deref(), Some("first"));
    line.set(HANGS);
    sleep(seconds(3)).await;
    let start = Instant::now();
    first.release().await;
    assert!(start.elapsed() < seconds(3), "{:?}", start.elapsed());
    assert!(!first.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_waited_for() {
    let server = Server::default();
    server.edit(|lease| {
        // Wall clocks do not count: this one's is far ahead.
        lease["spec"] = json!({"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2099-01-01T00:00:00.000000Z"});
    });
    let (replica, _) = server.replica("next");
    let took = acquired_after(&replica).await;
    assert!((seconds(15)..seconds(18)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_replica_goes_on_at_once() {
    let server = Server::default();
    let (first, line) = server.replica("pod");
    first.acquired().await;
    sleep(seconds(5)).await;
    line.set(HANGS);
    let (again, _) = server.replica("pod");
    let took = acquired_after(&again).await;
    assert!(took < seconds(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived() {
    for outage in [FAILS, HANGS] {
        let server = Server::default();
        let (replica, line) = server.replica("pod");
        replica.acquired().await;
        sleep(seconds(9)).await;
        line.set(outage);
        sleep(seconds(4)).await;
        line.set(UP);
        for _ in 0..30 {
            sleep(seconds(1)).await;
            assert!(replica.is_leader());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_ends_leadership_before_another_one_begins() {
    for outage in [FAILS, HANGS] {
        let server = Server::default();
        let (first, line) = server.replica("first");
        first.acquired().await;
        let (second, _) = server.replica("second");
        sleep(seconds(5)).await;
        line.set(outage);
        let start = Instant::now();
        let mut ended = None;
        while !second.is_leader() {
            assert!(start.elapsed() < seconds(60), "no replica took over");
            if ended.is_none() && !first.is_leader() {
                ended = Some(start.elapsed());
            }
            sleep(Duration::from_millis(50)).await;
            assert!(!(first.is_leader() && second.is_leader()), "two leaders");
        }
        let ended = ended.expect("two leaders");
        assert!((seconds(7)..=seconds(10)).contains(&ended), "{ended:?}");
        let begun = start.elapsed();
        assert!(begun >= ended + seconds(4) && begun < seconds(20), "{ended:?} {begun:?}");
        line.set(UP);
        sleep(seconds(30)).await;
        assert!(!first.is_leader() && second.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_told_in_time() {
    let server = Server::default();
    let (replica, line) = server.replica("pod");
    replica.acquired().await;
    line.set(HANGS);
    let took = lost_after(&replica).await;
    assert!(took <= RENEW_DEADLINE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_knows_at_once() {
    let server = Server::default();
    let (replica, _) = server.replica("pod");
    replica.acquired().await;
    sleep(seconds(5)).await;
    assert!(replica.is_leader());
    advance(seconds(11)).await;
    assert!(!replica.is_leader());
    for _ in 0..200 {
        sleep(Duration::from_millis(100)).await;
        assert!(!replica.is_leader(), "leads again");
    }
    replica.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_is_noticed_with_the_next_renewal() {
    let server = Server::default();
    let (replica, _) = server.replica("pod");
    replica.acquired().await;
    server.edit(|lease| lease["spec"]["holderIdentity"] = "thief".into());
    let took = lost_after(&replica).await;
    assert!(took < seconds(3), "{took:?}");
    assert_eq!(server.holder().as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn what_others_write_into_the_lease_stays() {
    let server = Server::default();
    let (replica, _) = server.replica("pod");
    replica.acquired().await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"kept": "yes"}));
    sleep(seconds(20)).await;
    assert!(replica.is_leader());
    let lease = server.0.lock().lease.clone().unwrap();
    assert_eq!(lease["metadata"]["labels"]["kept"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again() {
    let server = Server::default();
    let (replica, _) = server.replica("pod");
    replica.acquired().await;
    server.0.lock().lease = None;
    sleep(seconds(20)).await;
    assert!(replica.is_leader());
    assert_eq!(server.holder().as_deref(), Some("pod"));
}

#[tokio::test(start_paused = true)]
async fn of_many_that_begin_together_one_leads() {
    let server = Server::default();
    let replicas: Vec<_> = (0..8).map(|n| server.replica(&format!("pod-{n}"))).collect();
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        let leading = replicas.iter().filter(|(replica, _)| replica.is_leader()).count();
        assert!(leading <= 1, "{leading} leaders");
    }
    let leaders: Vec<_> = replicas.iter().map(|(replica, _)| replica.is_leader()).collect();
    assert_eq!(leaders.iter().filter(|leads| **leads).count(), 1, "{leaders:?}");
}
