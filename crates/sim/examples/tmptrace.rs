use reelway_sim::{Config, run};
fn main() {
    let seed = std::env::args().nth(1).unwrap().parse().unwrap();
    let out = run(
        seed,
        &Config {
            trace: true,
            ..Config::default()
        },
    );
    for l in out.trace {
        println!("{l}");
    }
}
