//! Changes to be made in the kernel's table. Pure: the table is passed in as it was read.

use std::net::SocketAddr;

use reelway_ipvs::{Destination, Service, ServiceState, State};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The service is missing.
    NewService,
    /// The service exists, but its state is not the desired one.
    OtherService,
    /// An edge is missing.
    Add(Destination),
    /// An edge exists, but its state is not the desired one.
    Set(Destination),
    /// An edge is to be removed.
    Remove(SocketAddr),
}

/// Returns the changes that bring the table to its desired state, in the order in which they are to
/// be made. An edge is added before another is removed, so that the service does not become empty
/// in between.
pub(crate) fn changes(
    service: &Service,
    destinations: &[Destination],
    present: Option<(&ServiceState, &[State])>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let there = match present {
        None => {
            changes.push(Change::NewService);
            &[][..]
        }
        Some((state, there)) => {
            if !state.is(service) {
                changes.push(Change::OtherService);
            }
            there
        }
    };
    for wanted in destinations {
        match there.iter().find(|one| one.address == wanted.address) {
            None => changes.push(Change::Add(*wanted)),
            Some(one) if !one.is(wanted) => changes.push(Change::Set(*wanted)),
            Some(_) => {}
        }
    }
    let is_wanted = |at: SocketAddr| destinations.iter().any(|wanted| wanted.address == at);
    let gone = there.iter().filter(|one| !is_wanted(one.address));
    changes.extend(gone.map(|one| Change::Remove(one.address)));
    changes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reelway_ipvs::{Counters, Method, Scheduler, Target};

    use super::*;

    fn service() -> Service {
        Service {
            target: Target::Mark { mark: 7, v6: false },
            scheduler: Scheduler::RoundRobin,
            persistence: None,
            scheduler_flags: 0,
        }
    }

    fn state_of(service: &Service) -> ServiceState {
        ServiceState {
            target: service.target,
            scheduler: service.scheduler.name().into(),
            persistence: service.persistence,
            scheduler_flags: service.scheduler_flags,
            counters: Counters::default(),
        }
    }

    fn state(wanted: &Destination) -> State {
        State {
            address: wanted.address,
            method: Some(wanted.method),
            is_local: false,
            weight: wanted.weight,
            active: 3,
            inactive: 4,
            persistent: 5,
            counters: Counters::default(),
        }
    }

    fn destinations() -> impl Strategy<Value = Vec<Destination>> {
        proptest::collection::btree_map(0u8..8, 0u32..4, 0..6).prop_map(|all| {
            let destination = |(host, weight)| Destination {
                address: ([10, 0, 0, host], 0).into(),
                method: Method::Direct,
                weight,
            };
            all.into_iter().map(destination).collect()
        })
    }

    proptest! {
        #[test]
        fn the_changes_make_it_as_it_is_to_be_and_never_empty_between(
            old in destinations(), new in destinations(),
        ) {
            let service = service();
            let mut there: Vec<State> = old.iter().map(state).collect();
            let present = state_of(&service);
            for change in changes(&service, &new, Some((&present, &there.clone()))) {
                match change {
                    Change::NewService | Change::OtherService => unreachable!("it is as it is to be"),
                    Change::Add(one) => {
                        prop_assert!(there.iter().all(|state| state.address != one.address));
                        there.push(state(&one));
                    }
                    Change::Set(one) => {
                        let found = there.iter_mut().find(|state| state.address == one.address);
                        found.expect("it is there").weight = one.weight;
                    }
                    Change::Remove(at) => there.retain(|state| state.address != at),
                }
                prop_assert!(!there.is_empty() || new.is_empty());
            }
            prop_assert_eq!(changes(&service, &new, Some((&present, &there))), []);
        }
    }

    #[test]
    fn a_service_is_made_where_there_is_none_and_changed_where_it_differs() {
        let service = service();
        assert_eq!(changes(&service, &[], None), [Change::NewService]);
        let mut other = state_of(&service);
        other.scheduler = "wlc".into();
        let changed = changes(&service, &[], Some((&other, &[])));
        assert_eq!(changed, [Change::OtherService]);
    }
}
