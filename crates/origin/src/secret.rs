//! Secrets, which always print as `***`.

use std::fmt;

use serde::Deserialize;

/// A password, key or token.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// Why a secret could not be read. Does not contain the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// `env:NAME`, but there is no such variable.
    #[error("the environment has no variable {0}")]
    Environment(String),
    /// `file:PATH` cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
}

impl Secret {
    /// A secret with this value.
    pub fn new(words: impl Into<String>) -> Secret {
        Secret(words.into())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value from the configuration, or what it refers to: `env:NAME` is a variable,
    /// `file:PATH` the first line of a file.
    pub fn resolve(&self) -> Result<Secret, SecretError> {
        if let Some(name) = self.0.strip_prefix("env:") {
            let value =
                std::env::var(name).map_err(|_| SecretError::Environment(name.to_owned()))?;
            return Ok(Secret(value));
        }
        if let Some(path) = self.0.strip_prefix("file:") {
            let text = std::fs::read_to_string(path).map_err(|error| SecretError::File {
                path: path.to_owned(),
                error,
            })?;
            return Ok(Secret(
                text.lines().next().unwrap_or_default().trim().to_owned(),
            ));
        }
        Ok(self.clone())
    }

    /// The value, to be sent to the server that it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "***" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_stars() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
    }

    #[test]
    fn a_secret_may_lie_in_a_file() {
        let path = std::env::temp_dir().join(format!("reelway-secret-{}", std::process::id()));
        std::fs::write(&path, "s3cret\nsecond line\n").unwrap();
        let secret = Secret::new(format!("file:{}", path.display()))
            .resolve()
            .unwrap();
        assert_eq!(secret.expose(), "s3cret");
        std::fs::remove_file(&path).unwrap();
        let error = Secret::new(format!("file:{}", path.display()))
            .resolve()
            .unwrap_err();
        assert!(error.to_string().contains("reelway-secret"), "{error}");
        assert!(
            Secret::new("env:REELWAY_NO_SUCH_VARIABLE")
                .resolve()
                .is_err()
        );
    }
}
