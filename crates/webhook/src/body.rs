//! Reading the body of a request, with limited memory.
//!
//! The caller limits the time. `budget` limits the memory of all bodies together.

mod budget;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use futures::StreamExt as _;

pub use self::budget::Bodies;
use self::budget::{BodyGuard, Full};
use crate::decode::Unreadable;

/// The largest body that is kept. An object has at most about 3 MiB, and a review holds two states of it.
const LARGEST: usize = 8 * 1024 * 1024;

/// The largest body that is read to its end. Closing the connection while the client sends a body resets it, and the client loses
/// the response.
const LARGEST_READ: usize = 8 * LARGEST;

/// A complete body. It counts against the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    bytes: Bytes,
    _held: BodyGuard,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The whole body of a request from this address.
pub(crate) async fn read(body: Body, address: IpAddr, bodies: &Arc<Bodies>) -> Result<Whole, Unreadable> {
    let held = bodies.begin(address);
    let bytes = tokio::select! {
        bytes = read_into(body, &held) => bytes?,
        () = held.given_up() => return Err(too_many()),
    };
    held.has_arrived();
    Ok(Whole { bytes, _held: held })
}

async fn read_into(body: Body, held: &BodyGuard) -> Result<Bytes, Unreadable> {
    let said = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let mut chunks = body.into_data_stream();
    // Most bodies are one chunk, which is kept as it is.
    let mut whole = Bytes::new();
    let mut kept = Vec::new();
    let mut length = 0;
    let mut refusal = None;
    while length <= LARGEST_READ
        && let Some(chunk) = chunks.next().await
    {
        let unreadable = |error| format!("the body cannot be read: {error}");
        let chunk = chunk.map_err(|error| Unreadable::new(StatusCode::BAD_REQUEST, unreadable(error)))?;
        length += chunk.len();
        if length > LARGEST {
            refusal = Some(too_large());
        } else if refusal.is_none() && held.grow(counted(length, said)).await == Err(Full) {
            refusal = Some(too_many());
        }
        if refusal.is_some() {
            (whole, kept) = (Bytes::new(), Vec::new());
            held.shrink_to_nothing();
        } else if length == chunk.len() {
            whole = chunk;
        } else {
            if kept.is_empty() {
                // Reserved memory that is not written to costs nothing.
                kept.reserve_exact(said.unwrap_or_default().min(LARGEST));
                kept.extend_from_slice(&std::mem::take(&mut whole));
            }
            kept.extend_from_slice(&chunk);
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => Ok(if kept.is_empty() { whole } else { kept.into() }),
    }
}

/// The memory of a body with this length. A body of unknown length doubles its memory whenever it is full.
fn counted(length: usize, said: Option<usize>) -> usize {
    if said.is_some() { length } else { 2 * length }
}

fn too_large() -> Unreadable {
    let message = format!("the body is too large: no review has over {LARGEST} bytes");
    Unreadable::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn too_many() -> Unreadable {
    let message = "too much is being received at the same time; try again";
    Unreadable::new(StatusCode::SERVICE_UNAVAILABLE, message)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const CHUNK: usize = 1024 * 1024;

    /// Reads a body of so many MiB; also tells how many of them were taken.
    async fn read_mebibytes(count: usize) -> (Result<usize, u16>, usize) {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let chunks = futures::stream::iter(0..count).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![b'x'; CHUNK])
        });
        let bodies = Arc::<Bodies>::default();
        let outcome = read(Body::from_stream(chunks), IpAddr::from([10, 0, 0, 1]), &bodies).await;
        let outcome = outcome.map(|body| body.len()).map_err(|refusal| refusal.status.as_u16());
        (outcome, taken.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn what_is_too_large_is_read_to_its_end_but_not_for_ever() {
        assert_eq!(read_mebibytes(0).await, (Ok(0), 0));
        assert_eq!(read_mebibytes(8).await, (Ok(8 * CHUNK), 8));
        assert_eq!(read_mebibytes(9).await, (Err(413), 9));
        assert_eq!(read_mebibytes(32).await, (Err(413), 32));
        assert_eq!(read_mebibytes(1000).await, (Err(413), 65));
    }
}
