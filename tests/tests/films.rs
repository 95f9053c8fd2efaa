//! The films themselves.
#[test]
fn every_film_can_be_made() {
    for film in reelway_tests::films::all() {
        assert!(film.path.exists(), "{}", film.name);
    }
}
