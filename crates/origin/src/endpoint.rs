//! One endpoint: a web server or a bucket, behind one interface.

use std::ops::Range;

use crate::address::{Address, Scheme};
use crate::config::SourceConfig;
use crate::fault::Fault;
use crate::recording::RecordingStatus;
use crate::redirects::Hosts;
use crate::s3::S3;
use crate::version::Version;
use crate::web::Web;

/// An endpoint.
#[derive(Debug)]
pub(crate) enum Endpoint {
    Web(Web),
    S3(S3),
}

/// The result of probing a film at an endpoint.
#[derive(Debug)]
pub(crate) struct Probed {
    pub version: Version,
    /// Ids of the Reelway servers through which it comes, the nearest first.
    pub via: Vec<String>,
    /// Its state as a recording.
    pub status: RecordingStatus,
}

impl Endpoint {
    /// Creates a client for this endpoint of the source.
    pub fn new(address: &Address, config: &SourceConfig) -> Result<Endpoint, String> {
        let address = address.clone();
        let (connect, stall) = (config.connect, config.stall);
        let hosts = Hosts::of(config);
        Ok(match address.scheme {
            Scheme::Web => {
                let token = config.token.resolve().map_err(|error| error.to_string())?;
                Endpoint::Web(Web::new(address, &token, hosts, connect, stall)?)
            }
            Scheme::S3 => Endpoint::S3(S3::new(address, &config.s3, hosts, connect, stall)?),
        })
    }

    /// The endpoint's address as it is shown.
    pub fn shown(&self) -> &str {
        match self {
            Endpoint::Web(web) => web.address().shown(),
            Endpoint::S3(s3) => s3.address().shown(),
        }
    }

    /// Finds out which version of a film is there, and through which servers it comes.
    pub async fn probe(&self, path: &str) -> Result<Probed, Fault> {
        Ok(match self {
            Endpoint::Web(web) => {
                let (version, via, status) = web.probe(path).await?;
                Probed {
                    version,
                    via,
                    status,
                }
            }
            Endpoint::S3(s3) => Probed {
                version: s3.probe(path).await?,
                via: Vec::new(),
                status: RecordingStatus::default(),
            },
        })
    }

    /// Fills `into` with the bytes `range` of this version, or with the first of them; `have`
    /// counts the bytes received, even before a fault.
    pub async fn part(
        &self,
        path: &str,
        version: &Version,
        range: Range<u64>,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<(), Fault> {
        match self {
            Endpoint::Web(web) => web.part(path, version, range, into, have).await,
            Endpoint::S3(s3) => s3.part(path, version, range, into, have).await,
        }
    }
}
