//! Indexes that another Reelway has made.

use std::time::Duration;

use reelway_media::exchange::Incoming;
use reelway_media::{Index, IndexOptions, Scratch};

use crate::fault::Fault;
use crate::version::Version;
use crate::web::Web;

/// Longest time for fetching an index; after it, the film's own tables are read instead.
const TIME: Duration = Duration::from_secs(300);

/// Fetches the index of the film whose file has this path, and returns it with its version: this
/// one, or a longer one of a recording that has grown. `None` if the server has no index. `came`
/// counts the bytes of each piece, and samples go into scratch space. The error says why no
/// usable index came.
pub(crate) async fn fetch(
    web: &Web,
    file: &str,
    version: &Version,
    scratch: Scratch,
    came: impl Fn(u64),
) -> Result<Option<(Version, Index)>, String> {
    let Some(film) = file.strip_suffix("/file") else {
        return Ok(None);
    };
    let mut begun = None;
    let take = |version: &Version, bytes: &[u8]| {
        came(bytes.len() as u64);
        let (_, incoming) = begun.get_or_insert_with(|| {
            let incoming = Incoming::new(version.len, IndexOptions::default());
            (version.clone(), incoming.with_scratch(scratch.clone()))
        });
        let fed = incoming.feed(bytes);
        fed.map_err(|error| Fault::Wrong(error.to_string()))
    };
    let path = format!("{film}/index");
    let taken = tokio::time::timeout(TIME, web.index(&path, version, take)).await;
    match taken.unwrap_or(Err(Fault::Stalled(TIME))) {
        Ok(true) => {
            let (version, incoming) =
                begun.ok_or("the index that the other server sent is empty")?;
            let index = incoming.finish().map_err(|error| error.to_string())?;
            Ok(Some((version, index)))
        }
        Ok(false) => Ok(None),
        Err(fault) => Err(fault.to_string()),
    }
}
