//! Tests of index files: what is written, and what is refused.

use reelway_media::{Codec, Group, GroupPackets, Index, Kind, Packets, Track};

use super::*;

const IDENTITY: FileIdentity = FileIdentity {
    device: 1,
    inode: 2,
    size: 3,
    mtime_ns: 4,
};

const GROWN: Growth = Growth {
    mark: Some(Mark { from: 5, sum: 6 }),
    first: Some(First {
        identity: FileIdentity {
            size: 1,
            mtime_ns: 2,
            ..IDENTITY
        },
        began: Real::from_nanos(1),
    }),
};

fn an_index() -> Index {
    let mut table = SampleTable::default();
    for n in 0..1000 {
        table.push(Sample {
            offset: n * 10,
            size: 10,
            duration: 512,
            cts: -3,
            sync: n % 25 == 0,
        });
    }
    let title = Title {
        name: Some("Bunny".into()),
        ..Title::new(vec![Track {
            samples: 1000,
            bytes: 10_000,
            duration: 512_000,
            groups: (0..40)
                .map(|n| Group {
                    first: n * 25,
                    count: 25,
                    dts: i64::from(n) * 12_800,
                    cts: -3,
                    bytes: 250,
                    sync: true,
                })
                .collect(),
            ..Track::new(1, Kind::Video, Codec::Ac3, 12_800)
        }])
    };
    Index {
        title,
        tables: vec![table],
    }
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = IndexFile::path_for(dir.path(), &IDENTITY);
    let index = an_index();
    IndexFile::write(&path, &IDENTITY, &index.title, &index.tables, GROWN).unwrap();
    let (title, samples) = IndexFile::open(&path, &IDENTITY).unwrap();
    assert_eq!(title, index.title);
    assert_eq!(samples.growth, GROWN);
    assert_eq!(
        IndexFile::summary(&path, &IDENTITY).unwrap().0.duration,
        title.duration
    );
    let mut read = Vec::new();
    samples.read(0, 100..800, &mut read).unwrap();
    assert_eq!(
        read,
        index.tables[0]
            .iter()
            .skip(100)
            .take(700)
            .collect::<Vec<_>>()
    );
    assert!(matches!(
        samples.read(0, 900..1001, &mut read),
        Err(SamplesError::OutOfRange { count: 1000, .. })
    ));
    assert!(matches!(
        samples.read(1, 0..1, &mut read),
        Err(SamplesError::OutOfRange { .. })
    ));
}

#[test]
fn what_is_written_again_has_the_same_samples_and_says_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = IndexFile::path_for(dir.path(), &IDENTITY);
    let index = an_index();
    IndexFile::write(&path, &IDENTITY, &index.title, &index.tables, GROWN).unwrap();
    assert_eq!(IndexFile::counted(&path, &IDENTITY).unwrap(), 0);
    let (mut title, samples) = IndexFile::open(&path, &IDENTITY).unwrap();
    let packets = |number: u32| GroupPackets {
        packets: number + 1,
        bytes: 250,
        ..GroupPackets::default()
    };
    title.tracks[0].packets = Packets {
        payload: 1438,
        groups: (0..40).map(packets).collect(),
    };
    samples.write_again(&path, &IDENTITY, &title).unwrap();
    assert_eq!(IndexFile::counted(&path, &IDENTITY).unwrap(), 1438);
    let (again, samples) = IndexFile::open(&path, &IDENTITY).unwrap();
    assert_eq!((&again, samples.growth), (&title, GROWN));
    let mut read = Vec::new();
    samples.read(0, 0..1000, &mut read).unwrap();
    assert!(read.into_iter().eq(index.tables[0].iter()));
}

#[test]
fn any_flipped_byte_or_missing_end_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.rwx");
    let index = an_index();
    IndexFile::write(&path, &IDENTITY, &index.title, &index.tables, GROWN).unwrap();
    let good = fs::read(&path).unwrap();
    for at in (0..good.len())
        .step_by(97)
        .chain([8, 12, 16, 24, 32, good.len() - 1])
    {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        assert!(
            IndexFile::open(&path, &IDENTITY).is_err(),
            "flipped byte {at} went unnoticed"
        );
        fs::write(&path, &good[..at]).unwrap();
        assert!(
            IndexFile::open(&path, &IDENTITY).is_err(),
            "cut at {at} went unnoticed"
        );
    }
}

#[test]
fn an_index_of_a_changed_film_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.rwx");
    let index = an_index();
    IndexFile::write(&path, &IDENTITY, &index.title, &index.tables, GROWN).unwrap();
    let changed = FileIdentity {
        mtime_ns: 5,
        ..IDENTITY
    };
    assert!(matches!(
        IndexFile::open(&path, &changed),
        Err(IndexFileError::OtherFilm)
    ));
}
