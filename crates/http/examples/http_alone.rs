//! The HTTP side alone, over a directory of films:
//! `cargo run -p reelway-http --example http_alone DIR [PORT [PACE]]`. This is the server without
//! RTSP, handy for trying out players.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{Directory, DirectoryConfig};
use reelway_http::{Addresses, HttpConfig, HttpServer, NodeState, NodeView};
use reelway_library::Library;
use reelway_metrics::Exposition;
use reelway_session::{Limits, Sessions};
use reelway_store::{Store, StoreConfig};
use serde_json::Value;

struct Alone;

impl NodeView for Alone {
    fn id(&self) -> String {
        "alone".to_owned()
    }

    fn name(&self) -> String {
        "alone".into()
    }
    fn state(&self) -> NodeState {
        NodeState::Serving
    }
    fn sending(&self) -> Value {
        Value::Null
    }
    fn sent(&self) -> u64 {
        0
    }
    fn write_metrics(&self, _: &mut Exposition) {}
    fn addresses(&self) -> Addresses {
        Addresses::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let films = arguments.next().ok_or("name a directory of films")?;
    let port: u16 = arguments.next().map_or(Ok(8080), |port| port.parse())?;
    let pace: f64 = arguments.next().map_or(Ok(2.0), |pace| pace.parse())?;
    let store = Store::new(StoreConfig {
        pool_bytes: 64 << 20,
        ..StoreConfig::default()
    })?;
    let sessions = Sessions::new(Limits::default());
    let config = DirectoryConfig {
        films: vec![films.into()],
        index: None,
        ..DirectoryConfig::default()
    };
    let library = Arc::new(Directory::open(config));
    let config = HttpConfig {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], port))],
        api_token: "secret".into(),
        pace,
        ..HttpConfig::default()
    };
    let server = HttpServer::bind(
        config,
        Library::new(library.clone(), store),
        sessions.clone(),
        Arc::new(Alone),
    )
    .await?;
    println!("http://{}/api/films", server.addresses()[0]);
    let ticking = async {
        loop {
            sessions.tick();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(server.run(), ticking);
    Ok(())
}
