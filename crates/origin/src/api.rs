//! A client for a server's control API (docs/reference/api.md), for programs that control it.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde::Deserialize;

use crate::address::Address;
use crate::secret::Secret;
use crate::web::{build, choose_cryptography, described};

/// Timeout for an answer.
const WAIT: Duration = Duration::from_secs(30);

/// A server, reached over its control API.
#[derive(Debug)]
pub struct Api {
    client: Client,
    address: Address,
    token: Secret,
}

/// The body of an error answer.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Api {
    /// Creates a client for the server at this address, with this token.
    ///
    /// # Errors
    /// Says why the client could not be made.
    pub fn new(address: Address, token: Secret) -> Result<Api, String> {
        if !address.is_web() {
            return Err(format!(
                "{}: must begin with http:// or https://",
                address.shown()
            ));
        }
        choose_cryptography();
        let client = build(!address.is_encrypted(), || {
            Client::builder()
                .user_agent(concat!("Reelway/", env!("CARGO_PKG_VERSION")))
                .timeout(WAIT)
        });
        Ok(Api {
            client: client.map_err(|error| described(&error))?,
            address,
            token,
        })
    }

    /// Fetches a document.
    ///
    /// # Errors
    /// Says that the server does not answer, or why it refuses.
    pub async fn get(&self, path: &str) -> Result<String, String> {
        let request = self.client.get(self.address.below(path, ""));
        self.ask(request).await
    }

    /// Sends a PUT request.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn put(&self, path: &str) -> Result<(), String> {
        self.change(Method::PUT, path).await
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn delete(&self, path: &str) -> Result<(), String> {
        self.change(Method::DELETE, path).await
    }

    async fn change(&self, method: Method, path: &str) -> Result<(), String> {
        let address = self.address.below(path, "");
        let request = self.client.request(method, address);
        let request = request.bearer_auth(self.token.expose());
        self.ask(request).await.map(drop)
    }

    async fn ask(&self, request: RequestBuilder) -> Result<String, String> {
        let shown = self.address.shown();
        let failed = |error| format!("{shown}: {}", described(&error));
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let text = answer.text().await.map_err(failed)?;
        if status.is_success() {
            return Ok(text);
        }
        let why = serde_json::from_str::<Refusal>(&text).map(|refusal| refusal.error);
        Err(match (status, why) {
            (StatusCode::UNAUTHORIZED, _) => {
                format!("{shown}: this is not its token (the file `token` in its state directory)")
            }
            (_, Ok(why)) => format!("{shown}: {why}"),
            (status, Err(_)) => format!("{shown}: status {status}"),
        })
    }
}
