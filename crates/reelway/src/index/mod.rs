//! `reelway index`: the contents of a film.
//!
//! | file | content |
//! |---|---|
//! | `figures.rs` | figures of a film that matter to a server |
//! | `document.rs` | everything as JSON |
//! | `table.rs` | a summary for users |

mod document;
mod figures;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reelway_catalogue::{IndexingError, count_packets, index_path};
use reelway_media::{Index, IndexOptions};
use reelway_sys::FileIdentity;
use serde_json::json;

/// Flags of `reelway index`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Film files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// With --json: include every sample with its position and times
    #[arg(long, requires = "json")]
    samples: bool,
    /// Also count the RTP packets of each film; this reads the whole film
    #[arg(long)]
    packets: bool,
    /// With --packets: maximum size of IP packets, in bytes (`rtp.mtu`)
    #[arg(long, default_value_t = 1500, requires = "packets")]
    mtu: u16,
}

impl Flags {
    fn index(&self, path: &Path) -> Result<(FileIdentity, Index), IndexingError> {
        let (identity, mut index) = index_path(path, IndexOptions::default())?;
        if self.packets {
            count_packets(path, identity, &mut index, self.mtu)?;
        }
        Ok((identity, index))
    }
}

/// Indexes each file and prints the result; fails if any could not be indexed.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let mut failed = false;
    let mut documents = Vec::new();
    for path in &flags.files {
        match flags.index(path) {
            Ok((identity, index)) if flags.json => {
                documents.push(document::document(
                    path,
                    identity.size,
                    &index,
                    flags.samples,
                ));
            }
            Ok((identity, index)) => table::print(path, identity.size, &index),
            Err(error) => {
                failed = true;
                eprintln!("reelway: {error}");
                documents.push(json!({"file": path.to_string_lossy(), "error": error.reason()}));
            }
        }
    }
    if flags.json {
        println!("{}", serde_json::to_string_pretty(&documents)?);
    }
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}
