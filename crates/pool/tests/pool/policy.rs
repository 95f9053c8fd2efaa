//! What the cache policy is notified of, and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_cache::{BlockId, Film as Shape, FilmId, Policy, Slot, ViewerId, Watching};
use reelway_pool::{News, Pool};

use super::world::{Owner, memory};

/// Records the calls of a policy, and when they happen.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(u128, String)>>>);

impl Recorder {
    fn note(&self, now: Duration, what: String) {
        self.0.lock().unwrap().push((now.as_nanos(), what));
    }
}

impl Policy for Recorder {
    fn hit(&mut self, slot: Slot, now: Duration) {
        self.note(now, format!("hit {slot}"));
    }

    fn insert(&mut self, slot: Slot, id: BlockId, _: u32, now: Duration) {
        self.note(now, format!("insert {slot} {}", id.block));
    }

    fn victim(&mut self, _: BlockId, _: &mut dyn FnMut(Slot) -> bool, _: Duration) -> Option<Slot> {
        None
    }

    fn remove(&mut self, slot: Slot, now: Duration) {
        self.note(now, format!("remove {slot}"));
    }

    fn new_film(&mut self, film: FilmId, now: Duration) {
        self.note(now, format!("new film {film}"));
    }

    fn film(&mut self, film: FilmId, shape: Shape, now: Duration) {
        self.note(now, format!("film {film} {}", shape.blocks));
    }

    fn watch(&mut self, viewer: ViewerId, watching: Watching, now: Duration) {
        self.note(now, format!("viewer {viewer} at {}", watching.block));
    }

    fn left(&mut self, viewer: ViewerId, now: Duration) {
        self.note(now, format!("viewer {viewer} left"));
    }
}

#[test]
fn the_policy_s_time_begins_with_the_pool_and_news_come_in_their_order() {
    let recorder = Recorder::default();
    let mut owner = Owner::new(4, "lru", None);
    owner.pool = Pool::new(memory(4), Box::new(recorder.clone()), None, owner.now);
    let disk = owner.pool.add_queue(4, false);
    owner.now += Duration::from_nanos(5);
    let film = owner.film(1, disk);
    let mut news = vec![
        News::Film(
            film.number,
            Shape {
                blocks: 9,
                duration: Duration::from_secs(90),
            },
        ),
        News::Watches(
            7,
            Watching {
                film: film.number,
                block: 2,
                speed: 1.0,
            },
        ),
        News::Left(7),
    ];
    owner.now += Duration::from_nanos(1);
    owner.pool.exchange_news(&mut news);
    assert!(news.is_empty());
    owner.pool.pass_on_news(owner.now);
    owner.fetch(0, film, 2..3, 0);
    assert_eq!(owner.reads[0].asked, owner.now);
    owner.now += Duration::from_nanos(4);
    owner.read_all();
    owner.now += Duration::from_nanos(10);
    assert_eq!(owner.pool.policy_time(owner.now), Duration::from_nanos(20));
    owner.fetch(1, film, 2..3, 0);
    owner.answers.clear();
    owner.pool.forget(1, owner.now);
    let expected = [
        (5, "new film 0"),
        (6, "film 0 9"),
        (6, "viewer 7 at 2"),
        (6, "viewer 7 left"),
        (10, "insert 0 2"),
        (20, "hit 0"),
        (20, "remove 0"),
    ]
    .map(|(now, what)| (now, what.to_owned()));
    assert_eq!(*recorder.0.lock().unwrap(), expected);
}

#[test]
fn the_policy_learns_of_a_hit_by_each_request_that_waited_for_a_read_but_the_first() {
    let recorder = Recorder::default();
    let mut owner = Owner::new(4, "lru", None);
    owner.pool = Pool::new(memory(4), Box::new(recorder.clone()), None, owner.now);
    let disk = owner.pool.add_queue(4, false);
    let film = owner.film(1, disk);
    for tag in 0..3 {
        owner.fetch(tag, film, 2..3, 0);
    }
    owner.read_all();
    let heard: Vec<String> = recorder
        .0
        .lock()
        .unwrap()
        .drain(..)
        .map(|it| it.1)
        .collect();
    assert_eq!(heard, ["new film 0", "insert 0 2", "hit 0", "hit 0"]);
}
