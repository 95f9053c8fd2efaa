//! Work that waits for a disk or takes long.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs work off the reactor. A panic in it continues in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Runs work on this thread, which may wait for a disk now and then while other tasks continue.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}
