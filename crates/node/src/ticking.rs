//! Periodic work: once a second, and in between.

use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{Catalogue, Several, State};
use reelway_http::NodeView;
use reelway_library::Library;
use reelway_sender::Sender;
use reelway_session::{Resource, Sessions};
use reelway_store::Store;
use tracing::{info, warn};

use crate::disks::Disks;
use crate::keeping::Keeper;
use crate::view::Node;
use crate::wire::Wire;

/// Lateness in milliseconds above which viewers notice, if 1 of 100 packets is later. They also
/// notice if 1 of 100 streams stalls.
const LATE_MS: f64 = 500.0;

/// Number of measurements after a standstill of the server in which lateness says nothing about
/// disks and networks.
const SHAKEN: u32 = 5;

/// Each second: ends silent sessions, measures rates, and notices when the library is complete.
pub(crate) async fn tick(
    sessions: Sessions,
    node: Arc<Node>,
    library: Arc<Several>,
    store: Store,
    sender: Sender,
) {
    let (mut disks, mut wire, mut shifts) = (Disks::default(), Wire::default(), 0);
    let mut shaken = 0u32;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut settled = false;
    let (mut keeper, films) = (
        Keeper::default(),
        Library::new(library.clone(), store.clone()),
    );
    loop {
        reelway_supervise::inject("server.tick");
        if !settled && library.is_settled() {
            settled = true;
            node.set_settled();
            let films = library.list();
            let mut ready = films
                .iter()
                .filter(|entry| matches!(entry.state, State::Ready(_)))
                .peekable();
            let first = ready.peek().map_or_else(String::new, |entry| {
                format!(": {}", node.addresses().rtsp_of(&entry.name))
            });
            let more = if films.len() > 1 && !first.is_empty() {
                " …"
            } else {
                ""
            };
            info!(
                "{} of {} films are ready{first}{more}",
                ready.count(),
                films.len()
            );
            if films.is_empty() {
                warn!("no films yet: copy some into the directory, and they will appear");
            }
        }
        // This visits every session, which takes long with thousands of them; `block_in_place`
        // moves this thread's other tasks elsewhere.
        tokio::task::block_in_place(|| {
            // After a standstill of the server everything is late, but neither disks nor networks
            // are to blame.
            shaken = match sessions.tick().is_zero() {
                true => shaken.saturating_sub(1),
                false => SHAKEN,
            };
            if sessions.gate().books() {
                let stats = sender.stats();
                // Packets of a stalled stream do not count as late, as its timetable is moved.
                let stood = stats.shifts - std::mem::replace(&mut shifts, stats.shifts);
                let late = node.activity().late_p99_ms;
                let late =
                    late.is_some_and(|late| late > LATE_MS) || stood * 100 > stats.playing as u64;
                let late = late && shaken == 0;
                disks.look(&store, sessions.gate(), late);
                if sessions.gate().books_network() {
                    wire.look(&sessions.list(), &stats, sessions.gate(), late);
                }
            }
            follow_links(&sessions, &sender);
            node.tick();
        });
        // Until the first films are ready the loop runs more often, as somebody waits for them.
        if settled {
            keeper.tick(&sessions, &node, &films);
            let keeping = async {
                keeper.work(&node, &films).await;
                std::future::pending().await
            };
            tokio::select! {
                _ = second.tick() => {}
                () = keeping => {}
            }
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Sets the sender's pacing of limited links to what they carry at present.
fn follow_links(sessions: &Sessions, sender: &Sender) {
    let gate = sessions.gate();
    for (resource, limit) in gate.config().admission.capacity.limits() {
        if let Resource::Network(number) = resource {
            let share = gate.judge().share(*resource);
            let rate = u128::from(*limit) * u128::from(share) / 1000;
            sender.set_link_rate(*number, rate as u64);
        }
    }
}
