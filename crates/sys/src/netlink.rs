//! What the kernel knows about the routes out of this machine (rtnetlink(7)): by which interface a
//! packet leaves, and which queue it passes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::check;

/// Lengths of the kernel's headers: `nlmsghdr`, `rtmsg`, `tcmsg`.
const MESSAGE: usize = 16;
const ROUTE: usize = 12;
const QUEUE: usize = 20;
/// The parent of the root queue (`TC_H_ROOT`, linux/pkt_sched.h; missing in libc).
const ROOT: u32 = u32::MAX;
/// The maximum size of an answer in bytes: the kernel's own limit (`NLMSG_GOODSIZE`).
const ANSWER: usize = 8 << 10;
/// The maximum number of answers that are read before giving up.
const MOST_ANSWERS: usize = 64;

/// The queue (qdisc) of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Queue {
    kind: String,
    handle: u32,
    parent: u32,
}

/// Returns the index of the interface by which packets to `to` leave.
///
/// # Errors
///
/// The kernel's error, such as a missing route.
pub fn egress(to: IpAddr) -> io::Result<u32> {
    let mut address = Vec::with_capacity(16);
    let family = match to.to_canonical() {
        IpAddr::V4(to) => {
            address.extend_from_slice(&to.octets());
            libc::AF_INET
        }
        IpAddr::V6(to) => {
            address.extend_from_slice(&to.octets());
            libc::AF_INET6
        }
    };
    let mut body = vec![0; ROUTE];
    body[0] = family as u8;
    body[1] = (address.len() * 8) as u8;
    body.extend_from_slice(&(4 + address.len() as u16).to_ne_bytes());
    body.extend_from_slice(&libc::RTA_DST.to_ne_bytes());
    body.extend_from_slice(&address);
    let mut found = None;
    ask(libc::RTM_GETROUTE, 0, &body, |kind, route| {
        if kind == libc::RTM_NEWROUTE {
            let number = attribute(route.get(ROUTE..)?, libc::RTA_OIF)?;
            found = Some(u32::from_ne_bytes(number.get(..4)?.try_into().ok()?));
        }
        Some(())
    })?;
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
}

/// Whether packets that leave by the interface with the index `interface` wait in fq queues, which
/// hold each packet until its departure time (`SO_TXTIME`); other queues silently ignore such
/// times.
///
/// # Errors
///
/// The kernel's error.
pub fn keeps_departures(interface: u32) -> io::Result<bool> {
    let mut body = vec![0; QUEUE];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let mut queues = Vec::new();
    ask(
        libc::RTM_GETQDISC,
        libc::NLM_F_DUMP as u16,
        &body,
        |kind, queue| {
            let word =
                |at: usize| Some(u32::from_ne_bytes(queue.get(at..at + 4)?.try_into().ok()?));
            // Kernels list the queues of all interfaces, whichever was asked for.
            if kind == libc::RTM_NEWQDISC && word(4)? == interface {
                let name = attribute(queue.get(QUEUE..)?, libc::TCA_KIND)?;
                let name = name.split(|byte| *byte == 0).next()?;
                queues.push(Queue {
                    kind: String::from_utf8_lossy(name).into_owned(),
                    handle: word(8)?,
                    parent: word(12)?,
                });
            }
            Some(())
        },
    )?;
    Ok(all_fq(&queues))
}

/// Whether all packets pass an fq: at the root, or below a root that only distributes them over the
/// device's queues.
fn all_fq(queues: &[Queue]) -> bool {
    let Some(root) = queues.iter().find(|queue| queue.parent == ROOT) else {
        return false;
    };
    let below = || {
        queues
            .iter()
            .filter(|queue| queue.parent != ROOT && queue.parent >> 16 == root.handle >> 16)
    };
    match &*root.kind {
        "fq" => true,
        "mq" => below().next().is_some() && below().all(|queue| queue.kind == "fq"),
        _ => false,
    }
}

/// The value of an attribute of a message.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Sends a request to the kernel, and passes each answer's kind and body to `take`; malformed
/// answers (`None`) are skipped.
fn ask(
    kind: u16,
    flags: u16,
    body: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Option<()>,
) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let fd = check(i64::from(unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    }))?;
    // SAFETY: a new descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    let mut request = Vec::with_capacity(MESSAGE + body.len());
    request.extend_from_slice(&((MESSAGE + body.len()) as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&(libc::NLM_F_REQUEST as u16 | flags).to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    // SAFETY: the request lives through the call, which only reads it.
    check(unsafe {
        libc::send(
            socket.as_raw_fd(),
            request.as_ptr().cast(),
            request.len(),
            0,
        )
    } as i64)?;
    let mut answer = [0u8; ANSWER];
    for _ in 0..MOST_ANSWERS {
        // SAFETY: the buffer lives through the call, which does not write past its end. The kernel
        // has answered by now, or begun to, so this never waits long.
        let bytes = check(unsafe {
            libc::recv(
                socket.as_raw_fd(),
                answer.as_mut_ptr().cast(),
                answer.len(),
                0,
            )
        } as i64)? as usize;
        let mut rest = &answer[..bytes];
        let mut more = false;
        while let Some((len, kind, several)) = head(rest) {
            let body = rest.get(MESSAGE..len).unwrap_or_default();
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => {
                    let error = body.get(..4).and_then(|error| error.try_into().ok());
                    return match error.map_or(-libc::EIO, i32::from_ne_bytes) {
                        0 => Ok(()),
                        error => Err(io::Error::from_raw_os_error(-error)),
                    };
                }
                _ => drop(take(kind, body)),
            }
            more = several;
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        if !more {
            return Ok(());
        }
    }
    Err(io::Error::from_raw_os_error(libc::EMSGSIZE))
}

/// Length and kind of the first message, and whether it is part of a multipart answer.
fn head(messages: &[u8]) -> Option<(usize, u16, bool)> {
    let len = u32::from_ne_bytes(messages.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(messages.get(4..6)?.try_into().ok()?);
    let flags = u16::from_ne_bytes(messages.get(6..8)?.try_into().ok()?);
    (len >= MESSAGE).then_some((len, kind, i32::from(flags) & libc::NLM_F_MULTI != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(kind: &str, handle: u32, parent: u32) -> Queue {
        Queue {
            kind: kind.to_owned(),
            handle,
            parent,
        }
    }

    #[test]
    fn loopback_leads_to_itself_and_has_no_fq() {
        let lo = egress("127.0.0.1".parse().unwrap()).unwrap();
        let index = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        assert_eq!(lo.to_string(), index.trim());
        assert!(!keeps_departures(lo).unwrap());
        assert!(!keeps_departures(u32::MAX).unwrap(), "no such interface");
    }

    #[test]
    fn departures_are_kept_where_every_packet_passes_an_fq() {
        assert!(all_fq(&[queue("fq", 0x8001_0000, ROOT)]));
        assert!(!all_fq(&[queue("fq_codel", 0, ROOT)]));
        assert!(!all_fq(&[queue("noqueue", 0, ROOT)]) && !all_fq(&[]));
        let spread = |second| {
            [
                queue("mq", 0x10000, ROOT),
                queue("fq", 0x8001_0000, 0x10001),
                queue(second, 0x8002_0000, 0x10002),
            ]
        };
        assert!(all_fq(&spread("fq")));
        assert!(!all_fq(&spread("fq_codel")));
        let shaped = [queue("htb", 0x10000, ROOT), queue("fq", 0x20000, 0x10001)];
        assert!(!all_fq(&shaped), "what is shaped departs when it is let");
    }

    #[test]
    fn no_answer_however_short_or_long_is_read_beyond_its_end() {
        for len in 0..40 {
            let bytes = vec![0xff; len];
            assert_eq!(attribute(&bytes, 1), None);
            assert!(head(&bytes).is_none_or(|(len, ..)| len >= MESSAGE));
        }
    }
}
