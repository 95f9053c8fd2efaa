//! How long a core ran no program at all: a thread of the highest priority wakes on it every
//! millisecond and records how late it runs. Only the kernel or the machine's host can delay it, no
//! program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use reelway_yardstick::Histogram;

/// The highest real-time priority.
const HIGHEST: u8 = 99;
/// How often the thread wakes.
const EACH: Duration = Duration::from_millis(1);

/// A thread that watches a core.
pub struct Standstill {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Histogram>>,
}

impl Standstill {
    /// Starts to watch a core, counted from 0.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub fn watch(core: usize) -> std::io::Result<Standstill> {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let thread = std::thread::Builder::new()
            .name("standstill".into())
            .spawn(move || {
                reelway_sys::limits::set_thread_core(core)?;
                reelway_sys::limits::set_thread_realtime(HIGHEST)?;
                let mut late = Histogram::default();
                while !until.load(Ordering::Relaxed) {
                    let wakes = reelway_clock::now() + EACH;
                    std::thread::sleep(EACH);
                    late.add(reelway_clock::now().since(wakes));
                }
                Ok(late)
            })?;
        Ok(Standstill { ends, thread })
    }

    /// Stops watching; returns how late the thread ran each time.
    ///
    /// # Errors
    ///
    /// Real-time threads or the core are not permitted to the process.
    pub fn end(self) -> anyhow::Result<Histogram> {
        self.ends.store(true, Ordering::Relaxed);
        let late = self.thread.join();
        let late = late.map_err(|_| anyhow::anyhow!("the thread that watched the core failed"))?;
        Ok(late?)
    }
}
