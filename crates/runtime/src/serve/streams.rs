//! The streams of an HTTP/2 connection, run by the task that the connection itself has.
//!
//! Each as a task of its own, they would wake the connection for each answer: a TLS record and a call of the kernel for every
//! one, and texts that were read on one processor and looked at on another. Here all answers that are ready together go out
//! together. Whatever runs here is to be short: while it runs, its connection does nothing else.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use hyper::rt::Executor;
use parking_lot::Mutex;

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
}

impl<'a, C> WithStreams<'a, C> {
    /// Of a connection that puts its streams into `begun`.
    pub(super) fn new(connection: Pin<&'a mut C>, begun: Begun) -> Self {
        Self { connection, begun, under_way: FuturesUnordered::new() }
    }

    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }

    /// Runs all streams as far as they go. Ready when at least one has ended, so that its answer can be sent.
    fn poll_streams(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.under_way.extend(self.begun.0.lock().drain(..));
        let mut ended = Poll::Pending;
        while let Poll::Ready(Some(())) = self.under_way.poll_next_unpin(context) {
            ended = Poll::Ready(());
        }
        ended
    }
}

impl<C: Future> Future for WithStreams<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        loop {
            if let Poll::Ready(ended) = self.connection.as_mut().poll(context) {
                return Poll::Ready(ended);
            }
            ready!(self.poll_streams(context));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use axum::body::{Body, Bytes};
    use http::{Request, Response};
    use hyper::{client, server, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::{
        io::{AsyncRead, AsyncWrite, ReadBuf},
        sync::Semaphore,
    };

    use super::*;
    use crate::serve::gathered::Gathered;

    /// Counts how often it is written to.
    struct Counted<S>(S, Arc<AtomicUsize>);

    impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    /// A client of a connection with streams, on which `/` is answered at once and `/slow` when `slow` has a permit; also tells
    /// how often the connection has written something.
    async fn served(slow: Arc<Semaphore>) -> (client::conn::http2::SendRequest<Body>, Arc<AtomicUsize>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Gathered(Counted(ours, writes.clone()));
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
