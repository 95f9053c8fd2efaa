//! The kernel's IPVS table of one network namespace: that of the thread that opens it.

use std::io;

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;

use crate::attributes::Writer;
use crate::error::IpvsError;
use crate::model::{Destination, Service, ServiceState, State, SyncRole, Target};
use crate::wire::{self, command};

/// Name and version of the generic netlink family (`IPVS_GENL_NAME`, `IPVS_GENL_VERSION`).
const FAMILY: &str = "IPVS";
const VERSION: u8 = 1;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

type Message = Genlmsghdr<u8, u16>;

/// A connection to the kernel's IPVS table.
pub struct Table {
    router: NlRouter,
    family: u16,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.family)
    }
}

/// Why a command failed.
enum Said {
    Errno(i32),
    Else(String),
}

impl Said {
    fn of<T: std::fmt::Debug, P: std::fmt::Debug>(error: RouterError<T, P>) -> Said {
        match error {
            RouterError::Nlmsgerr(error) => Said::Errno(-*error.error()),
            other => Said::Else(format!("{other:?}")),
        }
    }

    fn error(self, what: &str) -> IpvsError {
        match self {
            Said::Errno(EPERM) => IpvsError::Forbidden,
            Said::Errno(errno) => IpvsError::Refused {
                what: what.to_owned(),
                error: io::Error::from_raw_os_error(errno),
            },
            Said::Else(words) => IpvsError::Netlink(words),
        }
    }
}

impl Table {
    /// Opens the table of this thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no IPVS or no netlink, or the caller is not root.
    pub fn open() -> Result<Table, IpvsError> {
        let connected = NlRouter::connect(NlFamily::Generic, None, Groups::empty());
        let (router, _) = connected.map_err(|error| Said::of(error).error("a socket"))?;
        let family = router
            .resolve_genl_family(FAMILY)
            .map_err(|error| match Said::of(error) {
                Said::Errno(ENOENT) => IpvsError::Missing,
                said => said.error("the family's number"),
            })?;
        let table = Table { router, family };
        // Anybody may resolve the family, but this command needs the privilege.
        table.ask(command::GET_INFO, None, NlmF::empty(), "the kernel's IPVS")?;
        Ok(table)
    }

    /// Returns all services, including those of other programs.
    ///
    /// # Errors
    /// The kernel's error, or an answer that cannot be parsed.
    pub fn services(&self) -> Result<Vec<ServiceState>, IpvsError> {
        let answers = self.ask(command::GET_SERVICE, None, NlmF::DUMP, "the services")?;
        let services = answers.iter().filter_map(|attributes| {
            // Services that cannot be parsed (SCTP) belong to other programs.
            wire::read_service(value(attributes, wire::SERVICE)?).ok()
        });
        Ok(services.collect())
    }

    /// Returns the destinations of a service.
    ///
    /// # Errors
    /// There is no such service, or its answer cannot be parsed.
    pub fn destinations(&self, of: &Target) -> Result<Vec<State>, IpvsError> {
        let name = Writer::default().nested(wire::SERVICE, wire::service_for_list(of));
        let what = format!("the destinations of {of}");
        let answers = self.ask(command::GET_DEST, Some(name), NlmF::DUMP, &what)?;
        let states = answers.iter().filter_map(|attributes| {
            let bytes = value(attributes, wire::DEST)?;
            Some(wire::read_destination(bytes, of.is_v6()))
        });
        Ok(states.collect::<Result<_, _>>()?)
    }

    /// Adds a service.
    ///
    /// # Errors
    /// A service with this target exists, or the kernel lacks the scheduler.
    pub fn add(&self, service: &Service) -> Result<(), IpvsError> {
        self.set_service(command::NEW_SERVICE, service)
    }

    /// Changes a service.
    ///
    /// # Errors
    /// There is no service with this target, or the kernel lacks the scheduler.
    pub fn change(&self, service: &Service) -> Result<(), IpvsError> {
        self.set_service(command::SET_SERVICE, service)
    }

    fn set_service(&self, command: u8, service: &Service) -> Result<(), IpvsError> {
        let name = Writer::default().nested(wire::SERVICE, wire::service(service));
        let what = format!("service {}", service.target);
        let set = self.ask(command, Some(name), NlmF::ACK, &what);
        set.map(drop).map_err(|error| match error {
            IpvsError::Refused { error, .. } if error.raw_os_error() == Some(ENOENT) => {
                IpvsError::NoScheduler(service.scheduler.name())
            }
            other => other,
        })
    }

    /// Removes a service with its destinations. The kernel keeps serving its connections until they
    /// expire.
    ///
    /// # Errors
    /// There is no service with this target.
    pub fn remove(&self, target: &Target) -> Result<(), IpvsError> {
        let name = Writer::default().nested(wire::SERVICE, wire::target(target));
        let what = format!("service {target}");
        let removed = self.ask(command::DEL_SERVICE, Some(name), NlmF::ACK, &what);
        removed.map(drop)
    }

    /// Adds a destination to a service.
    ///
    /// # Errors
    /// The destination exists, or there is no such service.
    pub fn add_destination(&self, to: &Target, new: &Destination) -> Result<(), IpvsError> {
        self.set_destination(command::NEW_DEST, to, new)
    }

    /// Changes a destination of a service.
    ///
    /// # Errors
    /// The destination does not exist.
    pub fn change_destination(&self, of: &Target, changed: &Destination) -> Result<(), IpvsError> {
        self.set_destination(command::SET_DEST, of, changed)
    }

    fn set_destination(
        &self,
        command: u8,
        of: &Target,
        destination: &Destination,
    ) -> Result<(), IpvsError> {
        let attributes = Writer::default()
            .nested(wire::SERVICE, wire::target(of))
            .nested(wire::DEST, wire::destination(destination));
        let what = format!("destination {} of {of}", destination.address);
        self.ask(command, Some(attributes), NlmF::ACK, &what)
            .map(drop)
    }

    /// Removes a destination from a service; its clients are sent to others.
    ///
    /// # Errors
    /// The destination does not exist.
    pub fn remove_destination(
        &self,
        from: &Target,
        address: std::net::SocketAddr,
    ) -> Result<(), IpvsError> {
        let attributes = Writer::default()
            .nested(wire::SERVICE, wire::target(from))
            .nested(wire::DEST, wire::destination_name(address));
        let what = format!("destination {address} of {from}");
        self.ask(command::DEL_DEST, Some(attributes), NlmF::ACK, &what)
            .map(drop)
    }

    /// Starts one half of connection synchronisation, by multicast on this interface, with the
    /// directors of the same group (1 to 255). Returns whether it was started; `false` means that
    /// it was already running.
    ///
    /// # Errors
    /// There is no such interface, or it does not support multicast.
    pub fn start_sync(
        &self,
        role: SyncRole,
        interface: &str,
        group: u8,
    ) -> Result<bool, IpvsError> {
        let named = Writer::default().nested(wire::DAEMON, wire::sync(role, interface, group));
        let what = format!("the synchronisation of connections on {interface}");
        match self.ask(command::NEW_DAEMON, Some(named), NlmF::ACK, &what) {
            Err(IpvsError::Refused { error, .. }) if error.raw_os_error() == Some(EEXIST) => {
                Ok(false)
            }
            started => started.map(|_| true),
        }
    }

    /// Stops one half of connection synchronisation.
    ///
    /// # Errors
    /// It is not running.
    pub fn stop_sync(&self, role: SyncRole) -> Result<(), IpvsError> {
        let name = Writer::default().nested(wire::DAEMON, wire::sync_name(role));
        let what = "the synchronisation of connections";
        self.ask(command::DEL_DAEMON, Some(name), NlmF::ACK, what)
            .map(drop)
    }

    /// Sends a command, and returns the attributes of its answers.
    fn ask(
        &self,
        command: u8,
        attributes: Option<Writer>,
        flags: NlmF,
        what: &str,
    ) -> Result<Vec<GenlBuffer<u16, Buffer>>, IpvsError> {
        let broken = |error: &dyn std::fmt::Display| IpvsError::Netlink(error.to_string());
        let mut list = GenlBuffer::<u16, Buffer>::new();
        let bytes = attributes.map(Writer::into_bytes).unwrap_or_default();
        for (number, value) in crate::attributes::Reader::new(&bytes) {
            let kind = AttrTypeBuilder::default()
                .nla_type(number)
                .nla_nested(true)
                .build()
                .map_err(|error| broken(&error))?;
            let attribute = NlattrBuilder::default()
                .nla_type(kind)
                .nla_payload(value.to_vec())
                .build()
                .map_err(|error| broken(&error))?;
            list.push(attribute);
        }
        let message: Message = GenlmsghdrBuilder::default()
            .cmd(command)
            .version(VERSION)
            .attrs(list)
            .build()
            .map_err(|error| broken(&error))?;
        let sent = self.router.send::<u16, Message, u16, Message>(
            self.family,
            flags,
            NlPayload::Payload(message),
        );
        let answers = sent.map_err(|error| Said::of(error).error(what))?;
        let mut found = Vec::new();
        for answer in answers {
            let answer = answer.map_err(|error| Said::of(error).error(what))?;
            if let Some(payload) = answer.get_payload() {
                found.push(payload.attrs().clone());
            }
        }
        Ok(found)
    }
}

/// Returns the value of an attribute.
fn value(attributes: &GenlBuffer<u16, Buffer>, number: u16) -> Option<&[u8]> {
    let found = attributes
        .iter()
        .find(|attribute| *attribute.nla_type().nla_type() == number)?;
    Some(found.nla_payload().as_ref())
}
