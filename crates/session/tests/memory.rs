//! Films' demand takes bounded memory, however many long films are watched at once. A separate
//! program, because the memory of curves is counted for the whole process.

use std::path::PathBuf;
use std::sync::Arc;

use reelway_admission::{Capacity, Config, Curves, Wants};
use reelway_catalogue::{Film, Growth};
use reelway_demand::{BINS, Carriage, Curve, Demand, memory_held};
use reelway_media::{Codec, Group, H264Config, Kind, Nanos, SECOND, Samples, Title, Track};
use reelway_rtp::PayloadOptions;
use reelway_session::{Gate, GateConfig, WHOLE_NETWORK};
use reelway_sys::FileIdentity;

const SECONDS: u32 = 2 * 3600;

/// Returns a two-hour film of one-second groups, every fourth of which has nine times the bytes of
/// the others.
fn film(number: u64) -> Arc<Film> {
    let group = |number: u32| Group {
        first: number * 25,
        count: 25,
        dts: i64::from(number) * 1000,
        cts: 0,
        bytes: if number % 4 == 3 { 900_000 } else { 100_000 },
        sync: true,
    };
    let codec = Codec::H264(H264Config {
        fourcc: *b"avc1",
        length_size: 4,
        profile: [100, 0, 30],
        sps: Vec::new(),
        pps: Vec::new(),
    });
    let track = Track {
        samples: SECONDS * 25,
        bytes: u64::from(SECONDS) * 300_000,
        duration: u64::from(SECONDS) * 1000,
        groups: (0..SECONDS)
            .map(group)
            .collect::<Vec<_>>()
            .into_iter()
            .collect(),
        ..Track::new(1, Kind::Video, codec, 1000)
    };
    let title = Title::new(vec![track]);
    // A film without samples: only its groups are known.
    let samples: Arc<dyn Samples> = Arc::new(Vec::new());
    Arc::new(Film {
        name: format!("film{number}"),
        path: PathBuf::from("/nowhere"),
        identity: FileIdentity {
            device: 1,
            inode: number,
            size: 1,
            mtime_ns: 0,
        },
        title: Arc::new(title),
        samples,
        growth: Growth::default(),
    })
}

/// Returns the curves by which two of its viewers are booked.
fn books(demand: &Demand) -> [Curve; 2] {
    assert!(demand.disk().total() > 0);
    [Carriage::UdpV4, Carriage::Http].map(|carriage| {
        let curve = demand.wire(&[0], carriage);
        assert!(curve.total() > 0);
        curve
    })
}

#[test]
fn three_hundred_films_of_two_hours_take_little_memory_and_are_booked_for_no_less_than_they_need() {
    let config = || Config {
        capacity: Capacity::unlimited().with(WHOLE_NETWORK, 1 << 40, 1000),
        ..Config::default()
    };
    let gate = Gate::new(GateConfig {
        admission: config(),
        ..GateConfig::default()
    });
    let watch = |number| {
        let demand = gate.demand(&film(number)).expect("the network is limited");
        let booked = books(&demand);
        (demand, booked)
    };
    let mut watched: Vec<(Arc<Demand>, [Curve; 2])> = (0..300).map(watch).collect();
    let held = memory_held();
    assert!(held < 40 << 20, "{} MiB", held >> 20);

    let exact = Demand::rough(
        &film(0).title,
        PayloadOptions::default(),
        Config::default().reading,
    );
    let whole = exact.wire(&[0], Carriage::UdpV4).bins();
    assert_eq!(
        watched[0].0.wire(&[0], Carriage::UdpV4).bins(),
        whole,
        "there was memory for it"
    );
    let coarse = watched[299].0.wire(&[0], Carriage::UdpV4);
    let second = |bins: &[u32]| bins.iter().sum::<u32>();
    let (coarse, mut more) = (coarse.bins(), 0);
    for (coarse, exact) in coarse.windows(BINS).zip(whole.windows(BINS)) {
        assert!(second(coarse) >= second(exact));
        more += usize::from(second(coarse) > second(exact));
    }
    assert!(more > 0, "there was none for this one");

    // Viewers of the exact film who continue in its middle each have a booking curve of their own.
    let mut curves = Curves::<u32>::new(&config());
    let wants = Wants {
        demand: watched[0].0.clone(),
        tracks: Vec::new(),
        carriage: Carriage::Http,
        is_remote: false,
        goes_on: false,
        eager: None,
    };
    let held = memory_held();
    let mut go_on = |second| curves.needs(&wants, None, (second * SECOND, Nanos::MAX));
    let went_on: Vec<_> = (1..=100).map(&mut go_on).collect();
    let each = (memory_held() - held) / went_on.len();
    assert!((1..16 << 10).contains(&each), "{each} bytes each");
    drop(went_on);

    // Once nobody watches, there is room again.
    watched.clear();
    assert_eq!(watch(1000).0.wire(&[0], Carriage::UdpV4).bins(), whole);
}
