//! The memory that indexing a film takes, which grows with the length of the film by next to nothing.

mod long;

use long::{Film, Space, films};
use reelway_media::Scratch;
use reelway_sys::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new("indexing");

/// The most that any film may take.
const MOST: i64 = 16 << 20;

/// Bytes of memory that indexing a film takes at most, its index included.
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
fn a_film_of_a_day_takes_little_more_memory_than_a_short_one() {
    for (short, long) in films(30).iter().zip(&films(6 * 60)) {
        let (minutes, hours) = (most(short), most(long));
        // Where chunks lie is in memory: so much for each hour.
        let day = hours + (hours - minutes).max(0) * 18 * 2 / 11;
        println!("{}: {minutes}, {hours} and {day} bytes", long.name);
        assert!(day < MOST, "{}: {day} bytes for a day", long.name);
        assert!(
            day < minutes + (2 << 20),
            "{}: {minutes} to {day} bytes",
            long.name
        );
    }
}
