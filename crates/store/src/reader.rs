//! The threads that read. Plain blocking reads: a handful of threads keeps a disk busy with blocks
//! this large, and the io_uring backend that replaces them has the same bookkeeping.

use std::io;
use std::sync::Arc;

use crate::store::Inner;

/// Starts the reader threads; they end when the store is closed.
pub(crate) fn start(store: &Arc<Inner>, threads: usize) -> io::Result<()> {
    for number in 0..threads.max(1) {
        let store = Arc::clone(store);
        std::thread::Builder::new()
            .name(format!("read-{number}"))
            .spawn(move || run(&store))?;
    }
    Ok(())
}

fn run(store: &Inner) {
    let mut finished = Vec::new();
    while let Some(mut read) = store.next_read() {
        let offset = read.key.index * read.page.len() as u64;
        let result = read.source.read_block(offset, &mut read.page);
        if let Err(error) = &result {
            tracing::warn!("{error}");
        }
        store.lock().read_done(read, result, &mut finished);
        store.after(&mut finished);
    }
}
