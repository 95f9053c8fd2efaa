use super::*;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::options::set;
fn bound(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address.parse().unwrap()).expect("a free port");
    socket.set_receive_timeout(Duration::from_secs(2)).unwrap();
    socket
}

/// Sends packets of these lengths, each in two slices, to `to`, and returns the outcomes.
fn send(
    turn: &mut Turn,
    lengths: &[usize],
    to: &Destination,
    segmentation: Segmentation,
    socket: &[UdpSocket],
) -> Vec<Sent> {
    let data: Vec<Vec<u8>> = lengths
        .iter()
        .enumerate()
        .map(|(n, len)| vec![n as u8; *len])
        .collect();
    let mut batch = turn.begin();
    for packet in &data {
        let (left, right) = packet.split_at(packet.len() / 2);
        batch.slice(left);
        batch.slice(right);
        batch.end_packet();
    }
    batch.end_message(0, to, segmentation, 0, 7);
    batch.send(socket);
    turn.messages().iter().map(|message| message.sent).collect()
}

fn received(socket: &UdpSocket, count: usize) -> Vec<(usize, u8)> {
    let mut buffer = [0; 2048];
    (0..count)
        .map(|_| {
            let (bytes, _) = socket.receive(&mut buffer).expect("a packet");
            (bytes, buffer[0])
        })
        .collect()
}

#[test]
fn a_run_arrives_packet_by_packet_however_it_is_cut() {
    for (from, to) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        ("[::]:0", "127.0.0.1:0"),
    ] {
        let (sender, receiver) = ([bound(from)], bound(to));
        let to = Destination::new(receiver.local_addr(), None, sender[0].is_ipv6());
        let mut turn = Turn::default();
        for segmentation in [Segmentation::Kernel, Segmentation::None] {
            for lengths in [&[1000, 1000, 1000, 200][..], &[500], &[300, 400, 20]] {
                assert_eq!(
                    send(&mut turn, lengths, &to, segmentation, &sender),
                    [Sent::Packets(lengths.len() as u16)]
                );
                let expected: Vec<_> = lengths
                    .iter()
                    .enumerate()
                    .map(|(n, len)| (*len, n as u8))
                    .collect();
                assert_eq!(
                    received(&receiver, lengths.len()),
                    expected,
                    "{from} {segmentation:?}"
                );
            }
        }
    }
}

#[test]
fn packets_leave_from_the_address_they_are_told_to() {
    for (socket, ipv6) in [("0.0.0.0:0", false), ("[::]:0", true)] {
        let (sender, receiver) = ([bound(socket)], bound("127.0.0.1:0"));
        let from = "127.0.0.3".parse().unwrap();
        let to = Destination::new(receiver.local_addr(), Some(from), ipv6);
        assert_eq!(
            send(
                &mut Turn::default(),
                &[100, 100],
                &to,
                Segmentation::Kernel,
                &sender
            ),
            [Sent::Packets(2)]
        );
        let (_, seen) = receiver.receive(&mut [0; 200]).unwrap();
        assert_eq!(seen, SocketAddr::new(from, sender[0].local_addr().port()));
    }
}

#[test]
fn a_message_that_fails_does_not_hold_up_the_others() {
    let (sender, receiver) = ([bound("127.0.0.1:0")], bound("127.0.0.1:0"));
    let good = Destination::new(receiver.local_addr(), None, false);
    // Broadcast is not allowed on this socket.
    let bad = Destination::new("255.255.255.255:9".parse().unwrap(), None, false);
    let data = [1u8; 64];
    for segmentation in [Segmentation::Kernel, Segmentation::None] {
        let mut turn = Turn::default();
        let mut batch = turn.begin();
        for to in [&good, &bad, &good] {
            for _ in 0..3 {
                batch.slice(&data);
                batch.end_packet();
            }
            batch.end_message(0, to, segmentation, 0, 0);
        }
        batch.send(&sender);
        let sent: Vec<_> = turn.messages().iter().map(|message| message.sent).collect();
        assert!(
            matches!(
                sent[..],
                [
                    Sent::Packets(3),
                    Sent::Failed { packets: 0, .. },
                    Sent::Packets(3)
                ]
            ),
            "{sent:?}"
        );
        received(&receiver, 6);
    }
}

#[test]
fn a_full_send_buffer_is_reported_as_no_room() {
    let sender = [bound("127.0.0.1:0")];
    sender[0].set_buffers(1, 1).unwrap();
    let to = Destination::new(sender[0].local_addr(), None, false);
    let data = vec![0u8; 1400];
    let mut turn = Turn::default();
    let mut batch = turn.begin();
    for _ in 0..32 {
        batch.slice(&data);
        batch.end_packet();
    }
    batch.end_message(0, &to, Segmentation::Kernel, 0, 0);
    batch.send(&sender);
    // 45 kB do not fit into the smallest buffer; the kernel may also take one datagram beyond its
    // limit.
    assert!(
        matches!(turn.messages()[0].sent, Sent::Packets(0 | 32)),
        "{:?}",
        turn.messages()
    );
}

/// Runs `what` in a network with only a loopback, whose queue holds two packets and passes a
/// hundred bytes per second.
fn on_a_tiny_queue(what: impl FnOnce() + Send) {
    let run = |command: &str| {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let done = std::process::Command::new(program).args(words).status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "{command}: needs root and iproute2"
        );
    };
    let inside = || {
        // SAFETY: takes a number only.
        let done = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(done, 0, "a network of its own: this test needs root");
        run("ip link set lo up");
        run("tc qdisc add dev lo root handle 1: htb default 1");
        run("tc class add dev lo parent 1: classid 1:1 htb rate 800bit burst 1600 cburst 1600");
        run("tc qdisc add dev lo parent 1:1 handle 2: pfifo limit 2");
        what();
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(inside).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_queue_that_throws_away_is_no_room_to_a_socket_that_asks_and_nothing_to_ours() {
    on_a_tiny_queue(|| {
        for asks in [true, false] {
            let sender = [bound("127.0.0.1:0")];
            if asks {
                set(sender[0].as_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, 1).unwrap();
            }
            // The port is open, so that no ICMP error comes back.
            let receiver = bound("127.0.0.1:0");
            let to = Destination::new(receiver.local_addr(), None, false);
            for segmentation in [Segmentation::Kernel, Segmentation::None] {
                let mut turn = Turn::default();
                let mut send = || send(&mut turn, &[1000; 8], &to, segmentation, &sender);
                // Until the queue is full.
                (0..4).for_each(|_| drop(send()));
                let sent = send();
                let [Sent::Packets(taken)] = sent[..] else {
                    panic!("it is no fault of the viewer: {sent:?}")
                };
                assert_eq!(taken < 8, asks, "{taken} packets taken, {segmentation:?}");
            }
        }
    });
}

#[test]
fn what_is_waiting_is_known_without_waiting() {
    let (sender, receiver) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    assert!(!receiver.has_waiting());
    let to = Destination::new(receiver.local_addr(), None, false);
    for datagram in [&b"one"[..], b"", b"two"] {
        sender.send(datagram, &to).unwrap();
    }
    for _ in 0..3 {
        assert!(receiver.has_waiting());
        received(&receiver, 1);
    }
    assert!(!receiver.has_waiting());
}

#[test]
fn a_port_in_use_is_refused_but_siblings_share_one() {
    let first = bound("127.0.0.1:0");
    let sibling = first.sibling().expect("a second socket on the port");
    assert_eq!(sibling.local_addr(), first.local_addr());
    let error = UdpSocket::bind(first.local_addr()).expect_err("a stranger");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn a_run_the_kernel_will_not_cut_goes_packet_by_packet() {
    let (sender, receiver) = ([bound("127.0.0.1:0")], bound("127.0.0.1:0"));
    let to = Destination::new(receiver.local_addr(), None, false);
    let mut turn = Turn::default();
    // Without a checksum (SO_NO_CHECK) the kernel cannot segment: it returns EIO or EINVAL.
    sender[0].set_no_checksum().unwrap();
    let lengths = [900, 900, 100];
    let sent = send(&mut turn, &lengths, &to, Segmentation::Kernel, &sender);
    assert_eq!(sent, [Sent::Packets(3)]);
    assert!(turn.messages()[0].cut_refused);
    assert_eq!(received(&receiver, 3), [(900, 0), (900, 1), (100, 2)]);
}

#[test]
fn a_turn_larger_than_a_call_takes_arrives_whole_and_in_order() {
    let (sender, receiver) = ([bound("127.0.0.1:0")], bound("127.0.0.1:0"));
    receiver.set_buffers(4096, 16 << 20).unwrap();
    let to = Destination::new(receiver.local_addr(), None, false);
    let packets: Vec<[u8; 2]> = (0..1500u16).map(u16::to_be_bytes).collect();
    for run in [3, 600] {
        let mut turn = Turn::default();
        let mut batch = turn.begin();
        for (number, run) in packets.chunks(run).enumerate() {
            for packet in run {
                batch.slice(packet);
                batch.end_packet();
            }
            batch.end_message(0, &to, Segmentation::None, 0, number as u64);
        }
        batch.send(&sender);
        let taken: usize = turn
            .messages()
            .iter()
            .map(|message| match message.sent {
                Sent::Packets(packets) => usize::from(packets),
                _ => 0,
            })
            .sum();
        assert_eq!(taken, packets.len());
        let mut buffer = [0; 16];
        for packet in &packets {
            assert_eq!(receiver.receive(&mut buffer).unwrap().0, 2);
            assert_eq!(buffer[..2], *packet);
        }
    }
}

#[test]
fn what_is_sent_carries_its_marks() {
    use std::os::fd::AsRawFd;
    for (sender, to) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::]:0", "127.0.0.1:0"),
        ("[::]:0", "[::1]:0"),
    ] {
        let (sender, receiver) = (bound(sender), bound(to));
        sender.set_marks(34, 6).unwrap();
        let (level, ask) = if receiver.is_ipv6() {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)
        } else {
            (libc::IPPROTO_IP, libc::IP_RECVTOS)
        };
        let (fd, yes) = (receiver.as_fd().as_raw_fd(), 1i32);
        // SAFETY: an int to be read.
        let asked = unsafe { libc::setsockopt(fd, level, ask, (&raw const yes).cast(), 4) };
        assert_eq!(asked, 0);
        let to = Destination::new(receiver.local_addr(), None, sender.is_ipv6());
        sender.send(b"marked", &to).unwrap();
        let (mut data, mut control) = ([0u8; 16], [0u64; 8]);
        let mut slice = libc::iovec {
            iov_base: data.as_mut_ptr().cast(),
            iov_len: data.len(),
        };
        // SAFETY: all-zero is a valid msghdr; the buffers live through the call.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = 64;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::recvmsg(fd, &mut message, 0) }, 6);
        // A cmsghdr of 16 bytes, then the byte (IPv4) or int (IPv6).
        assert_eq!(control[2] & 0xff, 34 << 2, "to {}", receiver.local_addr());
    }
}
