//! Checks of an edge: whether it answers over RTSP, and says over HTTP that it is ready.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Checks an edge over RTSP and HTTP, both within the same time.
///
/// # Errors
/// What was wrong, in words.
pub(crate) async fn check([rtsp, http]: [SocketAddr; 2], within: Duration) -> Result<(), String> {
    let options = format!("OPTIONS rtsp://{rtsp}/ RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    let ready = format!("GET /readyz HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n");
    tokio::try_join!(
        ask("RTSP", rtsp, &options, "RTSP/1.0 200", within),
        ask("HTTP", http, &ready, "HTTP/1.1 200", within),
    )?;
    Ok(())
}

async fn ask(
    protocol: &str,
    at: SocketAddr,
    request: &str,
    wanted: &str,
    within: Duration,
) -> Result<(), String> {
    let asked = async {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = vec![0; wanted.len()];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(within, asked).await {
        Err(_) => Err(format!(
            "{protocol}: no answer within {} s",
            within.as_secs_f64()
        )),
        Ok(Err(error)) => Err(format!("{protocol}: {error}")),
        Ok(Ok(answer)) if answer == wanted.as_bytes() => Ok(()),
        Ok(Ok(answer)) => {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            Err(format!("{protocol}: answered {}", answer.escape_debug()))
        }
    }
}
