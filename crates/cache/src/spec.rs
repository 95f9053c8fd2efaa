//! Policies by name, with their parameters: `lru`, `ons:threshold=5,new=0.7`.

use std::str::FromStr;

use crate::Policy;
use crate::arc::Arc;
use crate::fbr::{self, Fbr};
use crate::lfu::Lfu;
use crate::lru::Lru;
use crate::lru_k::LruK;
use crate::ons::{self, Ons};
use crate::s3_fifo::S3Fifo;
use crate::sieve::Sieve;
use crate::slru::Slru;
use crate::timetable::Timetable;
use crate::two_q::TwoQ;
use crate::w_tiny_lfu::WTinyLfu;

/// A policy and its parameters, from which any number of instances can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    text: String,
    kind: PolicyKind,
}

#[derive(Clone, Debug, PartialEq)]
enum PolicyKind {
    Fifo,
    Lru,
    Lfu,
    Ons(ons::Options),
    Slru { protected: f64 },
    TwoQ { share_in: f64, share_out: f64 },
    LruK { k: usize, history: f64 },
    Fbr(fbr::Options),
    Arc,
    S3Fifo { small: f64 },
    Sieve,
    WTinyLfu { window: f64 },
    Timetable,
}

impl Default for Spec {
    /// The least recently used block.
    fn default() -> Spec {
        Spec {
            text: "lru".to_owned(),
            kind: PolicyKind::Lru,
        }
    }
}

/// Why a text does not name a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no policy of this name.
    #[error("there is no cache policy `{0}`; there are: {list}", list = Spec::NAMES.join(", "))]
    Unknown(String),
    /// The policy has no such parameter, or the value is invalid.
    #[error("{policy}: {what}")]
    Parameter {
        /// The policy.
        policy: String,
        /// The error, and the correct form.
        what: String,
    },
}

/// Parameters that are not used yet.
struct Parameters<'a> {
    policy: &'a str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn error(&self, what: String) -> SpecError {
        SpecError::Parameter {
            policy: self.policy.to_owned(),
            what,
        }
    }

    fn parse(text: &'a str) -> Result<Parameters<'a>, SpecError> {
        let (policy, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut parameters = Parameters {
            policy,
            left: Vec::new(),
        };
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let pair = part.split_once('=').ok_or_else(|| {
                parameters.error(format!("`{part}` is not of the form name=value"))
            })?;
            parameters.left.push(pair);
        }
        Ok(parameters)
    }

    /// Takes the parameter `name`, or its default; fails if it is outside `range`.
    fn take<T: FromStr + PartialOrd + std::fmt::Display + Copy>(
        &mut self,
        name: &str,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, SpecError> {
        let Some(at) = self.left.iter().position(|(other, _)| *other == name) else {
            return Ok(default);
        };
        let (_, text) = self.left.remove(at);
        match text.parse() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.error(format!(
                "{name}={text}: a number from {} to {} is needed",
                range.start(),
                range.end()
            ))),
        }
    }

    fn end(&self) -> Result<(), SpecError> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(self.error(format!("there is no parameter `{name}`"))),
        }
    }
}

impl Spec {
    /// The names of all policies.
    pub const NAMES: &[&str] = &[
        "fifo",
        "lru",
        "lfu",
        "ons",
        "slru",
        "2q",
        "lru-k",
        "fbr",
        "arc",
        "s3-fifo",
        "sieve",
        "w-tinylfu",
        "timetable",
    ];

    /// The text from which it was parsed.
    pub fn name(&self) -> &str {
        &self.text
    }

    /// Makes a policy for a cache that holds blocks with a total weight of `capacity` (in the unit
    /// of [`Policy::insert`]'s weights), about `slots` of them at a time.
    pub fn build(&self, capacity: u64, slots: usize) -> Box<dyn Policy> {
        match self.kind {
            PolicyKind::Fifo => Box::new(Lru::fifo(slots)),
            PolicyKind::Lru => Box::new(Lru::new(slots)),
            PolicyKind::Lfu => Box::new(Lfu::new(slots)),
            PolicyKind::Ons(options) => Box::new(Ons::new(options, capacity, slots)),
            PolicyKind::Slru { protected } => Box::new(Slru::new(protected, capacity, slots)),
            PolicyKind::TwoQ {
                share_in,
                share_out,
            } => Box::new(TwoQ::new(share_in, share_out, capacity, slots)),
            PolicyKind::LruK { k, history } => Box::new(LruK::new(k, history, capacity, slots)),
            PolicyKind::Fbr(options) => Box::new(Fbr::new(options, capacity, slots)),
            PolicyKind::Arc => Box::new(Arc::new(capacity, slots)),
            PolicyKind::S3Fifo { small } => Box::new(S3Fifo::new(small, capacity, slots)),
            PolicyKind::WTinyLfu { window } => Box::new(WTinyLfu::new(window, capacity, slots)),
            PolicyKind::Sieve => Box::new(Sieve::new(slots)),
            PolicyKind::Timetable => Box::new(Timetable::new(slots)),
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let mut parameters = Parameters::parse(text)?;
        let kind = match parameters.policy {
            "fifo" => PolicyKind::Fifo,
            "lru" => PolicyKind::Lru,
            "lfu" => PolicyKind::Lfu,
            "ons" => PolicyKind::Ons(ons::Options {
                threshold: parameters.take("threshold", 5, 1..=1000)?,
                exceed: parameters.take("exceed", 0, 0..=1)? == 1,
                new: parameters.take("new", 0.7, 0.0..=1.0)?,
            }),
            "slru" => PolicyKind::Slru {
                protected: parameters.take("protected", 0.8, 0.0..=1.0)?,
            },
            "2q" => PolicyKind::TwoQ {
                share_in: parameters.take("in", 0.25, 0.0..=1.0)?,
                share_out: parameters.take("out", 0.5, 0.0..=1.0)?,
            },
            "lru-k" => PolicyKind::LruK {
                k: parameters.take("k", 2, 1..=3)?,
                history: parameters.take("history", 0.25, 0.0..=1.0)?,
            },
            "fbr" => {
                let new = parameters.take("new", 0.25, 0.0..=1.0)?;
                PolicyKind::Fbr(fbr::Options {
                    new,
                    old: parameters.take("old", 0.5_f64.min(1.0 - new), 0.0..=1.0 - new)?,
                    average: parameters.take("average", 100, 1..=1_000_000)?,
                })
            }
            "arc" => PolicyKind::Arc,
            "s3-fifo" => PolicyKind::S3Fifo {
                small: parameters.take("small", 0.1, 0.0..=1.0)?,
            },
            "w-tinylfu" => PolicyKind::WTinyLfu {
                window: parameters.take("window", 0.01, 0.0..=1.0)?,
            },
            "sieve" => PolicyKind::Sieve,
            "timetable" => PolicyKind::Timetable,
            unknown => return Err(SpecError::Unknown(unknown.to_owned())),
        };
        parameters.end()?;
        Ok(Spec {
            text: text.to_owned(),
            kind,
        })
    }
}
