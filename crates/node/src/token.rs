//! Values made at the first start and kept in the state directory: the API's token and the server's
//! id.

use std::path::Path;

use tracing::warn;

/// Length of a server's id in characters.
const ID_LENGTH: usize = 16;

/// Returns the token for API requests that change something. It is in the state directory, made at
/// the first start. If it cannot be stored, it is valid for this run only and nobody can know it,
/// so nothing can be changed.
pub(crate) fn api_token(state: &Path) -> String {
    let path = state.join("token");
    if let Ok(token) = std::fs::read_to_string(&path)
        && token.trim().len() >= 16
    {
        return token.trim().to_owned();
    }
    let token = reelway_session::new_token();
    if let Err(error) = keep(&path, &token) {
        warn!(
            "the API's token cannot be stored in {}: {error}; sessions cannot be ended through the API",
            path.display()
        );
    }
    token
}

/// Returns the unique id of this server. It is in the state directory, made at the first start. If
/// it cannot be stored, it is valid for this run only.
pub(crate) fn node_id(state: &Path) -> String {
    let path = state.join("id");
    let is_id = |id: &str| id.len() == ID_LENGTH && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if let Ok(id) = std::fs::read_to_string(&path)
        && is_id(id.trim())
    {
        return id.trim().to_owned();
    }
    let mut id = reelway_session::new_token();
    id.truncate(ID_LENGTH);
    if let Err(error) = keep(&path, &id) {
        warn!(
            "{}: {error}; the server's id changes at a restart",
            path.display()
        );
    }
    id
}

fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_and_id_are_made_once_and_an_id_that_was_damaged_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (token, id) = (api_token(&state), node_id(&state));
        assert_eq!((api_token(&state), node_id(&state)), (token, id.clone()));
        assert_eq!(id.len(), ID_LENGTH);
        std::fs::write(state.join("id"), "no id").unwrap();
        let other = node_id(&state);
        assert_ne!(other, id);
        assert_eq!(node_id(&state), other);
    }
}
