//! The token for what changes anything.

use std::path::Path;

use tracing::warn;

/// The token for what changes anything: the one in the state directory, made at the first start.
/// Where it cannot be kept, one for this run, which nobody can know: nothing can be changed.
pub(crate) fn api_token(state: &Path) -> String {
    let path = state.join("token");
    if let Ok(token) = std::fs::read_to_string(&path)
        && token.trim().len() >= 16
    {
        return token.trim().to_owned();
    }
    let token = reelway_session::new_token();
    let kept = std::fs::create_dir_all(state).and_then(|()| write_private(&path, &token));
    if let Err(error) = kept {
        warn!(
            "the API's token cannot be stored in {}: {error}; sessions cannot be ended through the API",
            path.display()
        );
    }
    token
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}
