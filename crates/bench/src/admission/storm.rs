//! Newcomers in a storm, each timed step by step: from connection to refusal, and how long the one answer took
//! that refuses them. A process of its own, so that it can stand at either end of the cable.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The task of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The server.
    pub server: SocketAddr,
    /// Films' names, asked for in turn.
    pub titles: Vec<String>,
    /// How many newcomers.
    pub newcomers: u32,
    /// Of them a second.
    pub per_second: f64,
}

/// What it says in the end. Times in ms, of those who were refused.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answered {
    /// Newcomers who were admitted; they leave at once.
    pub let_in: u32,
    /// Newcomers who were answered in no such way.
    pub failed: u32,
    /// What the first of those saw.
    pub trouble: Option<String>,
    /// From SETUP's last byte to the refusal's.
    pub answer_ms: Vec<f64>,
    /// From the connection's beginning to the refusal: SYN-ACK, description, refusal.
    pub whole_ms: Vec<f64>,
}

/// Longest answer.
const MOST: usize = 64 << 10;
/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does the task.
pub fn work(task: &Task) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answered = runtime.block_on(storm(task));
    println!("{}", serde_json::to_string(&answered)?);
    Ok(())
}

async fn storm(task: &Task) -> Answered {
    let began = reelway_clock::now();
    let mut coming = Vec::new();
    for number in 0..task.newcomers {
        let due = Duration::from_secs_f64(f64::from(number) / task.per_second);
        tokio::time::sleep(due.saturating_sub(reelway_clock::now().since(began))).await;
        let title = &task.titles[number as usize % task.titles.len()];
        let url = format!("rtsp://{}/{title}", task.server);
        let come = tokio::time::timeout(PATIENCE, come(task.server, url));
        coming.push(tokio::spawn(come));
    }
    let mut answered = Answered::default();
    for one in coming {
        let outcome = match one.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(anyhow::anyhow!("no answer in {} s", PATIENCE.as_secs())),
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(Some((answer, whole))) => {
                answered.answer_ms.push(answer.as_secs_f64() * 1e3);
                answered.whole_ms.push(whole.as_secs_f64() * 1e3);
            }
            Ok(None) => answered.let_in += 1,
            Err(error) => {
                answered.failed += 1;
                answered.trouble.get_or_insert(format!("{error:#}"));
            }
        }
    }
    answered.answer_ms.sort_by(f64::total_cmp);
    answered.whole_ms.sort_by(f64::total_cmp);
    answered
}

/// One newcomer: how long their refusal took, and all of it; none: they were admitted.
async fn come(server: SocketAddr, url: String) -> anyhow::Result<Option<(Duration, Duration)>> {
    let began = reelway_clock::now();
    let mut connection = TcpStream::connect(server).await?;
    connection.set_nodelay(true)?;
    let described = ask(&mut connection, "DESCRIBE", &url, "Accept: application/sdp").await?;
    if !described.starts_with("RTSP/1.0 200") {
        bail!("DESCRIBE: {}", described.lines().next().unwrap_or_default());
    }
    let asked = reelway_clock::now();
    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    let answer = ask(
        &mut connection,
        "SETUP",
        &format!("{url}/track=1"),
        transport,
    )
    .await?;
    let now = reelway_clock::now();
    match answer.split(' ').nth(1) {
        Some("453") if answer.contains("Retry-After:") => {
            Ok(Some((now.since(asked), now.since(began))))
        }
        Some("200") => Ok(None),
        _ => bail!("SETUP: {}", answer.lines().next().unwrap_or_default()),
    }
}

/// Asks, and reads the whole answer.
async fn ask(
    connection: &mut TcpStream,
    method: &str,
    url: &str,
    header: &str,
) -> anyhow::Result<String> {
    let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{header}\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lengths = head.lines().filter_map(|line| line.split_once(':'));
            let length = lengths
                .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .find_map(|(_, value)| value.trim().parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return Ok(text.into_owned());
            }
        }
        if answer.len() > MOST {
            bail!("{method}: an answer without an end");
        }
        if connection.read_buf(&mut answer).await? == 0 {
            bail!("{method}: the server hung up");
        }
    }
}
