//! May this process write? It may while it holds the lease and no shutdown has begun.

use std::sync::Arc;

use hns_runtime::lease::Leadership;
use hns_runtime::shutdown::Shutdown;

/// Checked before each write.
pub(crate) type Permission = Arc<dyn Fn() -> bool + Send + Sync>;

pub(crate) fn permission(leadership: &Leadership, shutdown: &Shutdown) -> Permission {
    let (leadership, shutdown) = (leadership.clone(), shutdown.clone());
    Arc::new(move || leadership.is_leader() && !shutdown.has_begun())
}
