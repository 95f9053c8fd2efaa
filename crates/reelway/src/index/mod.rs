//! `reelway index`: what is in a film.
//!
//! | file | what lives there |
//! |---|---|
//! | `figures.rs` | what a film needs of a server, in figures |
//! | `document.rs` | all of it as JSON |
//! | `table.rs` | what people want to know of it |

mod document;
mod figures;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reelway_catalogue::index_path;
use reelway_media::IndexOptions;
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
}

/// Indexes each file and prints what was found; fails if any could not be indexed.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let mut failed = false;
    let mut documents = Vec::new();
    for path in &flags.files {
        match index_path(path, IndexOptions::default()) {
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
