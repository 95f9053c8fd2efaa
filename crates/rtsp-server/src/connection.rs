//! One connection: reading, deadlines, the end.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::{ConnId, Event};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::{Malformed, Parser};
use reelway_rtsp::response::Status;
use reelway_sender::FrameWriter;
use reelway_session::patience;
use reelway_supervise as supervise;
use reelway_sys::marks;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::hub::Hub;
use crate::services::Writer;

/// Bytes read at once: a request, or a good many reports.
const READ: usize = 4096;

/// How long the sender may take to say goodbye on a connection that is about to close: some turns
/// of a millisecond.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Bytes that are read of a peer, and forgotten, while the connection closes.
const MOST_IGNORED: usize = 64 * 1024;

pub(crate) struct Connection {
    pub hub: Arc<Hub>,
    pub conn: ConnId,
    pub stream: Arc<TcpStream>,
    pub config: Arc<RtspConfig>,
}

/// Why a connection is not read any further.
enum End {
    /// By the peer, or the network.
    Gone,
    /// By us: what is queued is to be written before.
    Ours,
}

impl Connection {
    /// Serves the connection to its end.
    pub async fn run(self) {
        let _ = supervise::caught("rtsp connection", self.converse()).await;
        self.hub.remove_door(self.conn);
        // After a panic too: its sessions end with it, or wait for another one.
        self.hub.happen(Event::Disconnected { conn: self.conn });
    }

    async fn converse(&self) {
        let (Ok(peer), Ok(local)) = (self.stream.peer_addr(), self.stream.local_addr()) else {
            return;
        };
        // A peer that has vanished is noticed even where nothing is sent to it.
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(60))
            .with_interval(Duration::from_secs(15));
        let _ = SockRef::from(&*self.stream).set_tcp_keepalive(&keepalive.with_retries(4));
        // Answers go before media, until media are sent over this connection, too.
        if let Err(error) = marks::set_said(self.stream.as_fd()) {
            tracing::debug!(%peer, "marks: {error}");
        }
        let writer: Writer = Arc::new(FrameWriter::new(self.stream.clone()));
        let door = self.hub.open_door(self.conn);
        self.hub.happen(Event::Connected {
            conn: self.conn,
            peer,
            local,
            writer: writer.clone(),
        });
        let end = self.serve(&writer, &door).await;
        self.hub.remove_door(self.conn);
        if matches!(end, End::Ours) {
            self.linger(&writer).await;
        }
    }

    async fn serve(&self, writer: &FrameWriter, door: &Notify) -> End {
        let mut parser = Parser::new(self.config.bounds);
        // A message must be whole by then; the first one is waited for from the beginning.
        // It is not made anew with each byte: a last look would never end for who sends one in time.
        let whole = || Box::pin(patience(self.config.message_timeout));
        let mut due = Some(whole());
        let mut has_asked = false;
        loop {
            let Ok(written) = writer.flush() else {
                return End::Gone;
            };
            let interest = if written {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let late = async {
                match &mut due {
                    Some(due) => due.await,
                    None => std::future::pending().await,
                }
            };
            let ready = tokio::select! {
                biased;
                () = door.notified() => return End::Ours,
                ready = self.stream.ready(interest) => ready,
                () = late => {
                    let reason = format!("no whole request within {} s", self.config.message_timeout.as_secs());
                    let bad = Malformed { status: Status::REQUEST_TIMEOUT, cseq: None, reason, lost: true };
                    self.hub.happen(Event::Malformed { conn: self.conn, bad });
                    return End::Ours;
                }
            };
            let Ok(ready) = ready else { return End::Gone };
            if ready.is_writable() && !written {
                // So that tokio asks the kernel again before it says writable.
                let _ = self.stream.try_io(Interest::WRITABLE, || writer.flush_io());
            }
            if !ready.is_readable() {
                continue;
            }
            match self.read(&mut parser) {
                Ok(0) => return End::Gone,
                Ok(_) => {
                    let taken = self.take(&mut parser).await;
                    has_asked |= taken > 0;
                    // What is passed over is none of those that were taken, and ends as well.
                    if taken > 0 || has_asked && !parser.is_within_message() {
                        due = None;
                    }
                    if parser.is_within_message() && due.is_none() {
                        due = Some(whole());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return End::Gone,
            }
        }
    }

    /// Reads what is there, some of it. The bytes are nowhere but in the parser: a waiting connection
    /// holds no buffer.
    fn read(&self, parser: &mut Parser) -> io::Result<usize> {
        let mut buffer = [0; READ];
        let read = self.stream.try_read(&mut buffer)?;
        parser.push(&buffer[..read]);
        Ok(read)
    }

    /// Takes the whole messages that have come, one after the other. Returns how many.
    async fn take(&self, parser: &mut Parser) -> usize {
        let conn = self.conn;
        let mut messages = 0;
        loop {
            let event = match parser.next() {
                Ok(None) => return messages,
                Ok(Some(Message::Request(request))) => Event::Request { conn, request },
                Ok(Some(Message::Frame { channel, data })) => Event::Frame {
                    conn,
                    channel,
                    data,
                },
                Err(bad) => Event::Malformed { conn, bad },
            };
            messages += 1;
            supervise::inject("rtsp.connection");
            self.hub.happen_and_finish(event).await;
        }
    }

    /// Lets what is queued go out, says that nothing more follows, and waits a little for the peer to
    /// see it: closing with unread bytes of theirs would take the last answer back.
    async fn linger(&self, writer: &FrameWriter) {
        sleep(LAST_WORDS).await;
        let _ = timeout(self.config.linger, async {
            while let Ok(false) = writer.flush() {
                if self.stream.writable().await.is_err() {
                    return;
                }
                let _ = self.stream.try_io(Interest::WRITABLE, || writer.flush_io());
            }
            let _ = SockRef::from(&*self.stream).shutdown(Shutdown::Write);
            let mut ignored = 0;
            while ignored < MOST_IGNORED && self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut [0; READ]) {
                    Ok(0) => return,
                    Ok(read) => ignored += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        })
        .await;
        let _ = SockRef::from(&*self.stream).shutdown(Shutdown::Both);
    }
}
