//! The memory use of indexing, which hardly grows with the length of the film.

mod long;

use long::{Film, Space, films};
use reelway_media::Scratch;
use reelway_sys::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new("indexing");

/// The maximum for any film.
const MOST: i64 = 16 << 20;

/// The peak memory use of indexing a film, including its index, in bytes.
fn most(film: &Film) -> i64 {
    let indexing = || {
        let space = Space::new(u64::MAX, u64::MAX);
        let before = ALLOCATOR.bytes();
        ALLOCATOR.forget_most();
        let index = film.index(Scratch::new(space)).expect("an index");
        assert!(index.title.duration > 0);
        ALLOCATOR.most() - before
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("indexing".into());
        let thread = thread.spawn_scoped(scope, indexing).expect("a thread");
        thread.join().expect("it ends")
    })
}

#[test]
fn a_film_of_half_a_day_takes_little_more_memory_than_a_short_one() {
    for (short, long) in films(2 * 60).iter().zip(&films(12 * 60)) {
        let (hours, half_a_day) = (most(short), most(long));
        println!("{}: {hours}, then {half_a_day} bytes", long.name);
        // The locations of chunks stay in memory.
        let grew = half_a_day - hours;
        assert!(half_a_day < MOST / 2 && grew < 1 << 20, "{}", long.name);
    }
}
