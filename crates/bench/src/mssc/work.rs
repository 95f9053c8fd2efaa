//! Carries out the task of a process.

use anyhow::Context;

use super::task::{Late, PORT, Task, Watched, Way};
use super::{load, reel, sessions, traffic};

/// Carries out a task, given as JSON, and prints its outcome.
pub fn work(task: &str) -> anyhow::Result<()> {
    let task: Task = serde_json::from_str(task).context("--task")?;
    let outcome = match task {
        Task::Spin { seconds } => {
            load::spin(seconds);
            return Ok(());
        }
        Task::Watch { at } => return watch(at),
        Task::Sessions(task) => match &task.way {
            Way::Reelway { backend, .. } => reel::sessions(&task, backend)?,
            _ => sessions::run(&task)?,
        },
        Task::Traffic(task) => match &task.way {
            Way::Reelway { backend, burst } => reel::traffic(&task, backend, *burst)?,
            _ => traffic::run(&task)?,
        },
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

fn watch(at: std::net::IpAddr) -> anyhow::Result<()> {
    let receiver = reelway_yardstick::light::LightReceiver::start(at, 0, 90_000)?;
    println!("{PORT}{}", receiver.port());
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "judge" => receiver.judge(),
            "finish" => break,
            _ => {}
        }
    }
    let story = receiver.finish()?;
    let millis = |share| story.late.percentile(share).as_secs_f64() * 1e3;
    let watched = Watched {
        streams: story.streams,
        packets: story.packets,
        lost: story.lost,
        late: Late {
            p50: millis(0.5),
            p99: millis(0.99),
            p999: millis(0.999),
            max: millis(1.0),
        },
        burst_p99: story.burst(0.99),
        burst_max: story.burst(1.0),
    };
    println!("{}", serde_json::to_string(&watched)?);
    Ok(())
}
