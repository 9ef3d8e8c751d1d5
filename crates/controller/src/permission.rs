//! Whether this process may write: while it leads and is not told to end.

use std::sync::Arc;

use hns_runtime::lease::Leadership;
use hns_runtime::shutdown::Shutdown;

/// Asked before each write.
pub(crate) type Permission = Arc<dyn Fn() -> bool + Send + Sync>;

/// The permission of a process that leads until it is told to end.
pub(crate) fn permission(leadership: &Leadership, shutdown: &Shutdown) -> Permission {
    let (leadership, shutdown) = (leadership.clone(), shutdown.clone());
    Arc::new(move || leadership.is_leader() && !shutdown.has_begun())
}
