//! Embeds the built web pages (`web/dist`) in the library, each also compressed. If they have not
//! been built, the server serves a page that says how to build them.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};

fn main() -> std::io::Result<()> {
    let here = PathBuf::from(
        std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"),
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where to build"));
    let dist = here.join("../../web/dist");
    // Watching a path that does not exist would rerun this script on every build.
    let watched = if dist.is_dir() {
        "../../web/dist"
    } else {
        "../../web"
    };
    println!("cargo:rerun-if-changed={watched}");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.is_dir() {
        walk(&dist, &mut files)?;
    }
    // By the strings that `find` compares: paths are compared component by component, in another
    // order.
    let mut files: Vec<_> = files
        .into_iter()
        .map(|file| (path_of(&file, &dist), file))
        .collect();
    files.sort();
    let mut code = String::from(
        "/// The files of `web/dist`, sorted by path.\npub(crate) static FILES: &[File] = &[\n",
    );
    for (number, (path, file)) in files.iter().enumerate() {
        let bytes = fs::read(file)?;
        // Copied because the sources may be gone when another checkout shares cargo's build
        // directory.
        let copy = out.join(format!("{number}.file"));
        fs::write(&copy, &bytes)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        let compressed = encoder.finish()?;
        let pays = compressed.len() * 10 < bytes.len() * 9;
        let gzip = if pays {
            let small = out.join(format!("{number}.gz"));
            fs::write(&small, compressed)?;
            format!("Some(include_bytes!({small:?}))")
        } else {
            "None".into()
        };
        let _ = writeln!(
            code,
            "    File {{ path: {path:?}, etag: \"\\\"{:016x}\\\"\", bytes: include_bytes!({copy:?}), gzip: {gzip} }},",
            hash(&bytes),
        );
    }
    code.push_str("];\n");
    fs::write(out.join("files.rs"), code)
}

/// Returns the file's path below `dist`, as it stands in addresses.
fn path_of(file: &Path, dist: &Path) -> String {
    let path = file.strip_prefix(dist).unwrap_or(file);
    path.to_string_lossy().replace('\\', "/")
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
