//! What is observed every second while viewers run: machines, and the server's own metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reelway_yardstick::watching::{self, Machine, Series};

/// What to observe.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub machines: Vec<Machine>,
    /// The URL of a metrics page.
    pub metrics: Option<String>,
}

/// The observations.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub machines: Vec<(Machine, Series)>,
    pub metrics: Option<Series>,
}

/// Runs `what`, and observes meanwhile.
pub async fn watched<T>(wanted: Wanted, what: impl Future<Output = T>) -> (T, Observations) {
    let seen = Observations {
        machines: wanted
            .machines
            .into_iter()
            .map(|machine| (machine, Series::default()))
            .collect(),
        metrics: wanted.metrics.as_ref().map(|_| Series::default()),
    };
    let machines: Vec<Machine> = seen
        .machines
        .iter()
        .map(|(machine, _)| machine.clone())
        .collect();
    let seen = Arc::new(Mutex::new(seen));
    let shared = Arc::clone(&seen);
    let watcher = tokio::spawn(async move {
        let began = reelway_clock::now();
        let at = || reelway_clock::now().since(began).as_secs_f64();
        let locked = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            for (number, machine) in machines.iter().enumerate() {
                let load = watching::load(machine).await;
                locked().machines[number].1.note(at(), load);
            }
            if let Some(url) = &wanted.metrics {
                let page = watching::metrics(url).await;
                if let Some(metrics) = &mut locked().metrics {
                    metrics.note(at(), page);
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let done = what.await;
    watcher.abort();
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (done, seen)
}
