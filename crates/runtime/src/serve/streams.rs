//! The streams of an HTTP/2 connection, run by the task that the connection itself has.
//!
//! Each as a task of its own, they would wake the connection for each answer: a TLS record and a call of the kernel for every
//! one, and texts that were read on one processor and looked at on another. Here all answers that are ready together go out
//! together. Whatever runs here is to be short: while it runs, its connection does nothing else.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::FuturesUnordered,
    task::{ArcWake, AtomicWaker, waker_ref},
};
use hyper::rt::Executor;
use parking_lot::Mutex;

use crate::telemetry;

/// Where a connection puts the streams that it begins.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, stream: F) {
        self.0.lock().push(Box::pin(stream));
    }
}

/// A connection and its streams. Ends when the connection does; streams that are left are dropped.
pub(super) struct WithStreams<'a, C> {
    connection: Pin<&'a mut C>,
    begun: Begun,
    under_way: FuturesUnordered<BoxFuture<'static, ()>>,
    calls: Arc<Calls>,
}

/// How often connection and streams are run in a row, each time because they called for it, before others have their turn.
const IN_A_ROW: usize = 32;

impl<'a, C: Future> WithStreams<'a, C> {
    /// Of a connection that puts its streams into `begun`.
    pub(super) fn new(connection: Pin<&'a mut C>, begun: Begun) -> Self {
        Self { connection, begun, under_way: FuturesUnordered::new(), calls: Arc::default() }
    }

    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }

    fn run_once(&mut self, context: &mut Context<'_>) -> Poll<C::Output> {
        if let Poll::Ready(ended) = self.connection.as_mut().poll(context) {
            return Poll::Ready(ended);
        }
        self.under_way.extend(self.begun.0.lock().drain(..));
        while let Poll::Ready(Some(())) = self.under_way.poll_next_unpin(context) {}
        Poll::Pending
    }
}

impl<C: Future> Future for WithStreams<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        // Many of the streams may have something to say.
        let _held = telemetry::hold();
        let calls = self.calls.clone();
        calls.begin(context.waker());
        let waker = waker_ref(&calls);
        let mut inner = Context::from_waker(&waker);
        let mut runs = 0;
        loop {
            if let Poll::Ready(ended) = self.run_once(&mut inner) {
                return Poll::Ready(ended);
            }
            runs += 1;
            if runs == IN_A_ROW || !calls.were_made() {
                break;
            }
        }
        calls.end();
        Poll::Pending
    }
}

/// Who calls for a connection to be run. A stream that has its answer calls for it while both are run, and is heard right there:
/// to wake the task that is running would wake another thread as well, which finds nothing to do.
#[derive(Default)]
struct Calls {
    task: AtomicWaker,
    is_running: AtomicBool,
    made: AtomicBool,
}

impl Calls {
    fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.is_running.store(true, Ordering::SeqCst);
        // Everything is run now, whoever has called for it.
        self.were_made();
    }

    /// Whether there were any since the last time.
    fn were_made(&self) -> bool {
        self.made.swap(false, Ordering::SeqCst)
    }

    /// Whoever calls from now on wakes the task, and so does who has called and was not heard.
    fn end(&self) {
        self.is_running.store(false, Ordering::SeqCst);
        if self.were_made() {
            self.task.wake();
        }
    }
}

impl ArcWake for Calls {
    fn wake_by_ref(calls: &Arc<Self>) {
        calls.made.store(true, Ordering::SeqCst);
        if !calls.is_running.load(Ordering::SeqCst) {
            calls.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn, pin::pin, sync::atomic::AtomicUsize};

    use axum::body::{Body, Bytes};
    use futures::FutureExt as _;
    use http::{Request, Response};
    use hyper::{client, server, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::sync::Semaphore;
    use tokio_util::io::InspectWriter;

    use super::*;
    use crate::serve::gathered::Gathered;

    /// A client of a connection with streams, on which `/` is answered at once and `/slow` when `slow` has a permit; also tells
    /// how often the connection has written something.
    async fn served(slow: Arc<Semaphore>) -> (client::conn::http2::SendRequest<Body>, Arc<AtomicUsize>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = {
            let (input, output) = tokio::io::split(ours);
            let writes = writes.clone();
            let count = move |_: &[u8]| {
                writes.fetch_add(1, Ordering::Relaxed);
            };
            Gathered(tokio::io::join(input, InspectWriter::new(output, count)))
        };
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<_>| {
                let slow = slow.clone();
                async move {
                    if request.uri().path() == "/slow" {
                        slow.acquire().await.unwrap().forget();
                    }
                    Ok::<_, Infallible>(Response::new(Body::from("answer")))
                }
            });
            let begun = Begun::default();
            let builder = server::conn::http2::Builder::new(begun.clone());
            let connection = pin!(builder.serve_connection(TokioIo::new(counted), answer));
            WithStreams::new(connection, begun).await
        });
        let (sender, connection) =
            client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(theirs)).await.unwrap();
        tokio::spawn(connection);
        (sender, writes)
    }

    async fn get(mut sender: client::conn::http2::SendRequest<Body>, path: &str) -> Bytes {
        let request = Request::get(format!("http://localhost{path}")).body(Body::empty()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        axum::body::to_bytes(Body::new(response.into_body()), 1 << 20).await.unwrap()
    }

    /// On one thread that does all, since two would share the work differently each time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn answers_that_are_ready_together_go_out_together() {
        let (sender, writes) = served(Arc::new(Semaphore::new(0))).await;
        assert_eq!(get(sender.clone(), "/").await, "answer", "what belongs to the beginning is written");
        writes.store(0, Ordering::Relaxed);
        let all = futures::future::join_all((0..100).map(move |_| get(sender.clone(), "/")));
        let answers = tokio::spawn(all).await.unwrap();
        assert!(answers.iter().all(|answer| answer == "answer"));
        let writes = writes.load(Ordering::Relaxed);
        println!("{} answers in {writes} pieces", answers.len());
        assert!(writes <= 10, "{writes} pieces");
    }

    /// Counts how often a task is called for.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl ArcWake for Count {
        fn wake_by_ref(count: &Arc<Self>) {
            count.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs a connection whose only stream does what is said until it is ready, and calls for the connection then, which ends.
    /// How often the task was run, and called for. It is run again only if it was called for; `between` may do that.
    fn run(
        mut stream: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static,
        between: impl Fn(),
    ) -> (usize, usize) {
        let (connection, has_ended) = (Arc::new(AtomicWaker::new()), Arc::new(AtomicBool::new(false)));
        let begun = Begun::default();
        begun.execute({
            let (connection, has_ended) = (connection.clone(), has_ended.clone());
            poll_fn(move |context| {
                let polled = stream(context);
                if polled.is_ready() {
                    has_ended.store(true, Ordering::SeqCst);
                    connection.wake();
                }
                polled
            })
        });
        let connection = pin!(poll_fn(|context| {
            connection.register(context.waker());
            if has_ended.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        }));
        let mut both = WithStreams::new(connection, begun);
        let count = Arc::new(Count::default());
        let called = || count.0.load(Ordering::SeqCst);
        let mut runs = 1;
        while both.poll_unpin(&mut Context::from_waker(&waker_ref(&count))).is_pending() {
            between();
            assert!(called() >= runs, "nobody would run it again");
            runs += 1;
        }
        (runs, called())
    }

    #[test]
    fn what_is_called_for_while_it_runs_needs_no_other_turn() {
        for (times, most) in [(0, 1), (5, 1), (1000, 50)] {
            let mut left = times;
            let stream = move |context: &mut Context<'_>| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            };
            let (runs, calls) = run(stream, || {});
            println!("a stream that goes on {times} times: {runs} turns, called for {calls} times");
            assert!(runs <= most && calls == runs - 1, "{runs} turns, called for {calls} times");
        }
    }

    #[test]
    fn what_is_called_for_later_gets_a_turn() {
        let outside = Arc::new(AtomicWaker::new());
        let mut has_waited = false;
        let stream = {
            let outside = outside.clone();
            move |context: &mut Context<'_>| {
                outside.register(context.waker());
                if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
            }
        };
        assert_eq!(run(stream, || outside.wake()), (2, 1));
    }

    #[tokio::test]
    async fn a_stream_that_waits_holds_up_no_other() {
        let slow = Arc::new(Semaphore::new(0));
        let (sender, _) = served(slow.clone()).await;
        let waiting = tokio::spawn(get(sender.clone(), "/slow"));
        for _ in 0..10 {
            assert_eq!(get(sender.clone(), "/").await, "answer");
        }
        assert!(!waiting.is_finished());
        slow.add_permits(1);
        assert_eq!(waiting.await.unwrap(), "answer");
    }
}
