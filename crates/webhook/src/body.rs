//! Reading a request's body without being filled up by it.
//!
//! Knows nothing of what is in it, and no time: whoever reads sets the limit to that.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt as _;

use crate::decode::Unreadable;

/// The largest body that is kept. An object is at most about 3 MiB large, and a review holds two states of it.
const LARGEST: usize = 8 * 1024 * 1024;

/// The largest body that is read to its end. A connection that is closed on a sender in the middle of a body is reset, and
/// the answer lost with it.
const LARGEST_READ: usize = 8 * LARGEST;

/// The whole body.
pub(crate) async fn read(body: Body) -> Result<Bytes, Unreadable> {
    let mut chunks = body.into_data_stream();
    // Most bodies are one chunk, which is kept as it is.
    let mut whole = Bytes::new();
    let mut kept = Vec::new();
    let mut length = 0;
    while length <= LARGEST_READ
        && let Some(chunk) = chunks.next().await
    {
        let unreadable = |error| format!("the body cannot be read: {error}");
        let chunk = chunk.map_err(|error| Unreadable::new(StatusCode::BAD_REQUEST, unreadable(error)))?;
        length += chunk.len();
        if length > LARGEST {
            (whole, kept) = (Bytes::new(), Vec::new());
        } else if length == chunk.len() {
            whole = chunk;
        } else {
            kept.extend_from_slice(&std::mem::take(&mut whole));
            kept.extend_from_slice(&chunk);
        }
    }
    if length > LARGEST {
        let message = format!("the body is too large: no AdmissionReview has over {LARGEST} bytes");
        return Err(Unreadable::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(if kept.is_empty() { whole } else { kept.into() })
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
        let outcome = read(Body::from_stream(chunks)).await;
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
