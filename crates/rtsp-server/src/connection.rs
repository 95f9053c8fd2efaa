//! One RTSP connection: reading, deadlines and closing.

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

/// Bytes read at once: a request, or many reports.
const READ: usize = 4096;

/// How long the sender may take to send its last packets on a closing connection: several of its
/// one-millisecond turns.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Most bytes that are read from a peer and discarded while the connection closes.
const MOST_IGNORED: usize = 64 * 1024;

pub(crate) struct Connection {
    pub hub: Arc<Hub>,
    pub conn: ConnId,
    pub stream: Arc<TcpStream>,
    pub config: Arc<RtspConfig>,
}

/// Why reading from a connection stops.
enum End {
    /// The peer closed the connection, or the network failed.
    Gone,
    /// The server closes it, after writing what is queued.
    Ours,
}

impl Connection {
    /// Serves the connection until it ends.
    pub async fn run(self) {
        let _ = supervise::caught("rtsp connection", self.converse()).await;
        self.hub.remove_door(self.conn);
        // Also runs after a panic: the connection's sessions end with it, or wait for another
        // connection.
        self.hub.happen(Event::Disconnected { conn: self.conn });
    }

    async fn converse(&self) {
        let (Ok(peer), Ok(local)) = (self.stream.peer_addr(), self.stream.local_addr()) else {
            return;
        };
        // Detects a vanished peer even if nothing is sent to it.
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(60))
            .with_interval(Duration::from_secs(15));
        let _ = SockRef::from(&*self.stream).set_tcp_keepalive(&keepalive.with_retries(4));
        // Answers take precedence over media until this connection carries media as well.
        if let Err(error) = marks::set_control(self.stream.as_fd()) {
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
        // The deadline by which a message must be complete. The first message's deadline starts
        // with the connection. It is not restarted for each byte: otherwise a client that keeps
        // sending single bytes would never time out.
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
                // Makes tokio poll the kernel again before it reports the socket as writable.
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
                    // A skipped frame is not counted in `taken`, but it ends a message as well.
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

    /// Reads some of the available bytes. They are held only in the parser: an idle connection has
    /// no buffer.
    fn read(&self, parser: &mut Parser) -> io::Result<usize> {
        let mut buffer = [0; READ];
        let read = self.stream.try_read(&mut buffer)?;
        parser.push(&buffer[..read]);
        Ok(read)
    }

    /// Handles the complete messages that have arrived, one after the other. Returns their number.
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

    /// Flushes queued data, shuts down the write side, and waits briefly for the peer to see it:
    /// closing with unread bytes from the peer would discard the last answer.
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
