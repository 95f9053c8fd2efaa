//! Makes texts on request: API answers, metrics, playlists, index heads. They are made off the
//! reactor, a few at a time. What clients have not read yet is limited, with half of the limit for
//! one address: a request waits for room before its answer is made.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use reelway_connections::network;
use reelway_supervise as supervise;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::answer::{self, Answer, accepts_gzip};
use crate::blocking::blocking;
use crate::peer::Peer;

/// Bytes reserved before a text is made; the unused part is given back.
const RESERVED: usize = 64 << 10;
/// Longest wait for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// Number of addresses with a semaphore at which unused ones are removed.
const ADDRESSES: usize = 1024;

/// The client that requests a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    address: IpAddr,
    takes_gzip: bool,
}

impl Asker {
    pub fn of(request: &Parts) -> Asker {
        let peer = request.extensions.get::<Peer>();
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Asker {
            address: peer.map_or(nowhere, |Peer(peer)| network(peer.ip())),
            takes_gzip: accepts_gzip(&request.headers),
        }
    }
}

/// A text and its media type.
pub(crate) struct Text {
    pub media_type: &'static str,
    pub text: String,
}

/// Makes texts.
pub(crate) struct Desk {
    /// One permit for each text that may be in the making.
    turns: Arc<Semaphore>,
    /// One permit for each byte that may wait for its reader.
    room: Arc<Semaphore>,
    all: usize,
    /// The same for each address, which gets half of the room.
    addresses: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    /// Longest wait for room.
    patience: Duration,
}

/// A reservation of room: of an address's, and of the total.
struct Room {
    address: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Room {
    /// Reserves `bytes` more, if available.
    fn grow(&mut self, bytes: u32) -> Result<(), TryAcquireError> {
        let take = |of: &OwnedSemaphorePermit| of.semaphore().clone().try_acquire_many_owned(bytes);
        let (address, all) = (take(&self.address)?, take(&self.all)?);
        self.address.merge(address);
        self.all.merge(all);
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        drop((self.address.split(bytes), self.all.split(bytes)));
    }
}

/// A body and its reservation.
struct BodyBytes {
    bytes: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for BodyBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Desk {
    /// Creates a desk that makes at most `turns` texts at once, of which at most `bytes` wait for
    /// their readers.
    pub fn new(turns: usize, bytes: u64) -> Desk {
        let all = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .clamp(2 * RESERVED, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Desk {
            turns: Arc::new(Semaphore::new(turns)),
            room: Arc::new(Semaphore::new(all)),
            all,
            addresses: Mutex::default(),
            patience: PATIENCE,
        }
    }

    /// Returns the bytes that wait for their readers, including reservations.
    pub fn waiting(&self) -> usize {
        self.all - self.room.available_permits()
    }

    /// Returns the room of one address.
    fn share(&self) -> usize {
        self.all / 2
    }

    /// Returns the semaphore of an address.
    fn room_of(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut addresses = supervise::whole(self.addresses.lock());
        if addresses.len() >= ADDRESSES {
            // Reservations and waiting requests hold a reference to their semaphore.
            addresses.retain(|_, room| Arc::strong_count(room) > 1);
        }
        let room = || Arc::new(Semaphore::new(self.share()));
        addresses.entry(address).or_insert_with(room).clone()
    }

    /// Reserves room for an answer before it is made.
    async fn reserve(&self, address: IpAddr) -> Option<Room> {
        let room = self.room_of(address);
        let reserve = async {
            // The address's own room first: waiting for that takes nothing from other addresses.
            let address = room.acquire_many_owned(RESERVED as u32).await.ok()?;
            let all = self.room.clone().acquire_many_owned(RESERVED as u32);
            let all = all.await.ok()?;
            Some(Room { address, all })
        };
        tokio::time::timeout(self.patience, reserve).await.ok()?
    }

    /// Answers with the text that `make` returns, or with its error; compressed if the client
    /// accepts that and it pays off. Answers 503 if other answers take all the room, or those to
    /// the same address their half.
    pub async fn answer(
        &self,
        asker: &Asker,
        make: impl FnOnce() -> Result<Text, Box<Answer>> + Send + 'static,
    ) -> Answer {
        let compress = asker.takes_gzip;
        let making = move || {
            let Text { media_type, text } = make()?;
            let (bytes, is_compressed) = answer::compressed(text, compress);
            Ok((bytes, (media_type, is_compressed)))
        };
        let (bytes, (media_type, is_compressed)) = match self.make(asker, making).await {
            Ok(made) => made,
            Err(answer) => return *answer,
        };
        let body = Body::from(bytes);
        let mut answer = answer::with(StatusCode::OK, media_type, body);
        if is_compressed {
            answer::set(&mut answer, header::CONTENT_ENCODING, "gzip");
        }
        answer::set(&mut answer, header::VARY, "Accept-Encoding");
        answer
    }

    /// Returns the bytes that `make` makes, which hold their reservation as long as they exist, and
    /// its other result; or its error. 503 as for a text.
    pub async fn make<T: Send + 'static>(
        &self,
        asker: &Asker,
        make: impl FnOnce() -> Result<(Vec<u8>, T), Box<Answer>> + Send + 'static,
    ) -> Result<(Bytes, T), Box<Answer>> {
        let room = self.reserve(asker.address).await;
        let mut room = room.ok_or_else(|| self.no_room())?;
        // Never closed, so this cannot fail.
        let turn = self.turns.clone().acquire_owned().await;
        let making = move || {
            let _turn = turn;
            make()
        };
        let (bytes, of_them) = blocking(making).await?;
        // A text larger than its address's whole room may use all of it.
        let needed = bytes.len().min(self.share());
        if needed > RESERVED {
            let grown = room.grow((needed - RESERVED) as u32);
            grown.map_err(|_| self.no_room())?;
        } else {
            room.shrink(RESERVED - needed);
        }
        let held = BodyBytes { bytes, _room: room };
        Ok((Bytes::from_owner(held), of_them))
    }

    fn no_room(&self) -> Box<Answer> {
        let words = format!(
            "answers that clients do not read take all of their memory, {} KiB (http.answers); ask again later",
            self.all >> 10
        );
        let mut answer = answer::api_error(StatusCode::SERVICE_UNAVAILABLE, words);
        answer::retry_after(&mut answer, PATIENCE);
        Box::new(answer)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn text(bytes: usize) -> Result<Text, Box<Answer>> {
        Ok(Text {
            media_type: "text/plain",
            text: "x".repeat(bytes),
        })
    }

    fn asker(number: u8) -> Asker {
        Asker {
            address: [10, 0, 0, number].into(),
            takes_gzip: false,
        }
    }

    #[tokio::test]
    async fn answers_that_are_not_read_take_a_bounded_room_and_those_that_are_read_give_it_back() {
        let desk = Desk {
            patience: Duration::from_millis(1),
            ..Desk::new(2, 2 << 20)
        };
        let headers = asker(1);
        let mut unread = Vec::new();
        loop {
            let answer = desk.answer(&headers, || text(50_000)).await;
            assert!(desk.waiting() <= 1 << 20, "one address has half");
            if answer.status() != StatusCode::OK {
                assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                assert!(String::from_utf8_lossy(&body).contains("http.answers"));
                break;
            }
            unread.push(answer);
        }
        assert_eq!(unread.len(), ((1 << 20) - RESERVED) / 50_000 + 1);
        let other = desk.answer(&asker(2), || text(50_000)).await;
        assert_eq!(
            other.status(),
            StatusCode::OK,
            "another address has its own"
        );
        drop(other);
        let body = unread.pop().unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 50_000);
        let again = desk.answer(&headers, || text(50_000)).await;
        assert_eq!(again.status(), StatusCode::OK);
        drop((unread, again));
        assert_eq!(desk.waiting(), 0);
    }

    #[tokio::test]
    async fn one_answer_may_be_larger_than_the_room() {
        let desk = Desk::new(2, 200_000);
        let answer = desk.answer(&asker(1), || text(300_000)).await;
        assert_eq!((answer.status(), desk.waiting()), (StatusCode::OK, 100_000));
    }

    #[tokio::test]
    async fn nothing_is_made_or_compressed_on_the_reactor() {
        let desk = Desk::new(2, 1 << 20);
        let asker = Asker {
            takes_gzip: true,
            ..asker(1)
        };
        let reactor = std::thread::current().id();
        let made_by = Arc::new(std::sync::Mutex::new(None));
        let seen = made_by.clone();
        let answer = reelway_clock::reactor::metered(desk.answer(&asker, move || {
            *seen.lock().unwrap() = Some(std::thread::current().id());
            text(500_000)
        }))
        .await;
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        assert!(made_by.lock().unwrap().is_some_and(|by| by != reactor));
        assert_eq!(reelway_clock::reactor::polls().most_bytes, 0);
    }
}
