//! A storm of newcomers, each timed: from the connection to the refusal, and from SETUP to the
//! refusal. It is a separate process, so that it can run at either end of the cable.

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
    /// Titles of films, requested in turn.
    pub titles: Vec<String>,
    /// Number of newcomers.
    pub newcomers: u32,
    /// Newcomers per second.
    pub per_second: f64,
}

/// The result of the process. Times are in ms, of refused newcomers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answered {
    /// Newcomers who were admitted; they leave at once.
    pub let_in: u32,
    /// Newcomers who were neither admitted nor refused.
    pub failed: u32,
    /// The error of the first of those.
    pub trouble: Option<String>,
    /// From the last byte of SETUP to that of the refusal.
    pub answer_ms: Vec<f64>,
    /// From the start of the connection to the refusal: SYN-ACK, description, refusal.
    pub whole_ms: Vec<f64>,
}

/// Maximum length of an answer, bytes.
const MOST: usize = 64 << 10;
/// Timeout of a newcomer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries out the task.
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

/// Runs one newcomer; returns the time from SETUP to their refusal and the whole time, or `None` if
/// they were admitted.
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

/// Sends a request, and reads the whole answer.
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
