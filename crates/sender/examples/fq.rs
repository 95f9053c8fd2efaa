//! For the lab: sends a file as a stream of small packets, or records their arrival times.
//!
//! ```text
//! fq send FILE FROM TO PACKETS MICROSECONDS   sends a packet from FROM to TO every MICROSECONDS
//! fq receive AT PACKETS                       reports when ready; prints each number and time, ns
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use reelway_sender::{
    FileStream, Out, Sender, SenderConfig, Stream, StreamEvent, StreamKind, TrackOut,
};
use reelway_store::{Store, StoreConfig};
use reelway_sys::udp::UdpSocket;

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["send", file, from, to, packets, micros] => send(
            file,
            from.parse()?,
            to.parse()?,
            packets.parse()?,
            Duration::from_micros(micros.parse()?),
        ),
        ["receive", at, packets] => receive(at.parse()?, packets.parse()?),
        _ => Err("fq send FILE FROM TO PACKETS MICROSECONDS | fq receive AT PACKETS".into()),
    }
}

fn send(
    file: &str,
    from: IpAddr,
    to: SocketAddr,
    packets: u32,
    interval: Duration,
) -> Result<(), Problem> {
    let store = Store::new(StoreConfig {
        pool_bytes: 8 << 20,
        ..StoreConfig::default()
    })?;
    let config = SenderConfig {
        addresses: vec![from],
        threads: 1,
        rtp_port: 0,
        rtcp_port: 0,
        ..SenderConfig::default()
    };
    let sender = Sender::new(config, store.clone())?;
    let (tell, events) = mpsc::channel();
    let out = TrackOut {
        track: 0,
        payload_type: 96,
        ssrc: 1,
        seq: 0,
        rtp_base: 0,
        again: None,
        out: Out::Udp {
            from: None,
            rtp: to,
            rtcp: SocketAddr::new(to.ip(), to.port() + 1),
        },
    };
    let handle = sender.play(Stream {
        what: StreamKind::File(FileStream {
            source: store.open(file.as_ref())?,
            position: 0,
            packet_bytes: 32,
            interval,
            packets: Some(packets.into()),
            timestamp_step: 1,
            out,
        }),
        events: Box::new(move |event| drop(tell.send(event))),
    });
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(handle.ready())?;
    handle.go();
    loop {
        match events.recv()? {
            StreamEvent::Ended => break,
            StreamEvent::Failed(why) => return Err(why.into()),
            _ => {}
        }
    }
    let stats = sender.stats();
    println!(
        "packets {} turns {} calls {} late {:?}",
        stats.packets, stats.turns, stats.calls, stats.late
    );
    Ok(())
}

fn receive(at: SocketAddr, packets: usize) -> Result<(), Problem> {
    let socket = UdpSocket::bind(at)?;
    socket.set_buffers(4096, 4 << 20)?;
    socket.set_timestamps()?;
    socket.set_receive_timeout(Duration::from_secs(10))?;
    eprintln!("listening");
    let mut buffer = [0; 2048];
    let mut got = Vec::with_capacity(packets);
    while got.len() < packets {
        let (bytes, at) = socket.receive_stamped(&mut buffer)?;
        if bytes < 4 {
            return Err(format!("{bytes} bytes are no RTP packet").into());
        }
        got.push((u16::from_be_bytes([buffer[2], buffer[3]]), at));
    }
    for (number, at) in got {
        println!("{number} {at}");
    }
    Ok(())
}
