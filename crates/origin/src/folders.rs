//! The films in the folders of a web server that shows what is in them.

use std::path::Path;

use reelway_catalogue::is_film;
use tracing::warn;

use crate::fault::Fault;
use crate::lists::{self, MOST_FILMS, MOST_LIST};
use crate::web::Web;

/// Most folders' pages of a web server that are looked at, and how deep.
const MOST_FOLDERS: usize = 10_000;
const DEEPEST: usize = 16;

/// All films that the pages of a web server's folders lead to, by their paths, and the folders that gave no page.
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
        // With a slash at its end a folder is itself.
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
            // One folder is closed, or its page is none: the others are not.
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
        // More than enough: the rest is left out.
        if found.len() > MOST_FILMS {
            break;
        }
    }
    Ok((found, left_out))
}
