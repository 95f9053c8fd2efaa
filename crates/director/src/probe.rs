//! Checks of an edge: whether it answers over RTSP, and says over HTTP that it is ready, and what its network carries.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::weight::Capacity;

/// Bytes of an answer's head that are read at most.
const LONGEST: usize = 4096;

/// Checks an edge over RTSP and HTTP, both within the same time; what it can carry, if it says so.
///
/// # Errors
/// What was wrong, in words.
pub(crate) async fn check(
    [rtsp, http]: [SocketAddr; 2],
    within: Duration,
) -> Result<Option<Capacity>, String> {
    let options = format!("OPTIONS rtsp://{rtsp}/ RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    let ready = format!("GET /readyz HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n");
    let (_, head) = tokio::try_join!(
        ask("RTSP", rtsp, &options, "RTSP/1.0 200", within),
        ask("HTTP", http, &ready, "HTTP/1.1 200", within),
    )?;
    Ok(capacity(&head))
}

/// What the head of an answer says of the edge's network.
fn capacity(head: &str) -> Option<Capacity> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut of_capacity = headers.filter(|(name, _)| name.eq_ignore_ascii_case("reelway-capacity"));
    Capacity::parse(of_capacity.next()?.1)
}

/// The head of the answer to a request.
async fn ask(
    protocol: &str,
    at: SocketAddr,
    request: &str,
    wanted: &str,
    within: Duration,
) -> Result<String, String> {
    let asked = async {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while head.len() < LONGEST && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                break;
            }
        }
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&head).into_owned())
    };
    match timeout(within, asked).await {
        Err(_) => Err(format!(
            "{protocol}: no answer within {} s",
            within.as_secs_f64()
        )),
        Ok(Err(error)) => Err(format!("{protocol}: {error}")),
        Ok(Ok(head)) if head.starts_with(wanted) => Ok(head),
        Ok(Ok(head)) if head.is_empty() => Err(format!("{protocol}: closed without an answer")),
        Ok(Ok(head)) => {
            let line: String = head
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect();
            Err(format!("{protocol}: answered {}", line.escape_debug()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_edge_carries_is_a_header_of_its_answer() {
        let head = "HTTP/1.1 200 OK\r\nreelway-capacity: total=9, free=4\r\n\r\n";
        assert_eq!(capacity(head), Some(Capacity { total: 9, free: 4 }));
        assert_eq!(capacity("HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
