//! Prints the circles of files in the crates with the given folders (all by default), and every
//! dependency within them: `cargo run -p reelway-structure --example edges crates/store`.

use std::path::Path;

use reelway_structure::{circles, tree::Tree, workspace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for one in workspace::crates(&root)? {
        if !named.is_empty() && !named.contains(&one.folder) {
            continue;
        }
        for root in one.roots() {
            let edges = circles::edges(&Tree::of(&one.files, root, false)?);
            for circle in circles::circles(&edges) {
                println!("{}: a circle of {} files", one.folder, circle.len());
                for edge in &edges {
                    if circle.contains(&edge.from) && circle.contains(&edge.to) {
                        println!("    {edge}");
                    }
                }
            }
        }
    }
    Ok(())
}
