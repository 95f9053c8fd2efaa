//! The films in the folders of a web server that lists its folders.

use std::path::Path;

use reelway_catalogue::is_film;
use tracing::warn;

use crate::fault::Fault;
use crate::lists::{self, MOST_FILMS, MOST_LIST};
use crate::web::Web;

/// Maximum number of folder pages of a web server that are read, and their maximum depth.
const MOST_FOLDERS: usize = 10_000;
const DEEPEST: usize = 16;

/// Returns the paths of all films that the server's folder pages link to, and the folders that
/// could not be listed.
pub(crate) async fn films(web: &Web) -> Result<(Vec<String>, Vec<(String, Fault)>), String> {
    const HINT: &str = "name the films (`films` of the source) or a list of them (`list`)";
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let mut waiting = vec![String::new()];
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        seen += 1;
        if seen > MOST_FOLDERS {
            warn!(
                "{}: more than {MOST_FOLDERS} folders: the rest is left out",
                web.address().shown()
            );
            break;
        }
        // Servers recognise a folder by the slash at its end.
        let html = match web
            .document(&format!("{folder}/"), "", "text/html", MOST_LIST)
            .await
        {
            Ok(Some(html)) => html,
            Ok(None) if folder.is_empty() => {
                return Err(format!("the origin lists no folder; {HINT}"));
            }
            Err(fault) if folder.is_empty() => {
                return Err(format!("{fault}; if the origin lists no folders, {HINT}"));
            }
            Ok(None) => continue,
            // If one folder is closed, or its page is invalid, the others may still be readable.
            Err(fault @ (Fault::Forbidden(_) | Fault::Redirected(_) | Fault::Wrong(_))) => {
                left_out.push((folder, fault));
                continue;
            }
            Err(fault) => return Err(format!("{folder}/: {fault}")),
        };
        for link in lists::links(&html, web.address(), &folder) {
            match link.strip_suffix('/') {
                Some(below)
                    if below.split('/').count() <= DEEPEST && waiting.len() < MOST_FOLDERS =>
                {
                    waiting.push(below.to_owned());
                }
                None if is_film(Path::new(&link)) => found.push(link),
                _ => {}
            }
        }
        // The caller cuts the list and logs that.
        if found.len() > MOST_FILMS {
            break;
        }
    }
    Ok((found, left_out))
}
