//! Viewers beside each other in a film: those who take what others have read, and those who hold the same blocks. Who leaves
//! changes what is booked for them.

use std::sync::Arc;

use reelway_admission::{Admission, BookingId, Resource};
use reelway_timetable::{Carriage, Curve, Demand};

use super::{Booked, Gate, lock, now};
use crate::following::Left;
use crate::needs::Wants;
use crate::sharing::Moved;

impl Gate {
    /// What his film needs of the disks, if he may follow others and be followed.
    pub(super) fn followed(&self, wants: &Wants) -> Option<Arc<Curve>> {
        (self.0.follows && wants.carriage != Carriage::Http).then(|| wants.demand.disk())
    }

    /// What his film needs, if he may share its blocks with others.
    pub(super) fn shared<'a>(&self, wants: &'a Wants) -> Option<&'a Arc<Demand>> {
        (self.0.shares && wants.carriage != Carriage::Http).then_some(&wants.demand)
    }

    /// He does not play: what was booked is free.
    pub(crate) fn rests(&self, booked: &Booked) {
        let mut following = lock(&self.0.following);
        let mut sharing = lock(&self.0.sharing);
        let mut judge = lock(&self.0.judge);
        let left = following.leave(booked.id);
        judge.rest(now(), booked.id);
        self.read_for(&mut judge, left);
        self.hold_for(&mut judge, sharing.leave(booked.id, now()));
    }

    pub(crate) fn leaves(&self, id: BookingId) {
        let mut following = lock(&self.0.following);
        let mut sharing = lock(&self.0.sharing);
        let mut judge = lock(&self.0.judge);
        let left = following.leave(id);
        judge.end(now(), id);
        self.read_for(&mut judge, left);
        self.hold_for(&mut judge, sharing.leave(id, now()));
    }

    /// Books the disks for those whose films are not sure to be in memory any more.
    pub(super) fn read_for(&self, judge: &mut Admission, left: Vec<Left>) {
        for Left { id, disk } in left {
            judge.change(now(), id, Resource::Disk, &disk);
        }
    }

    /// Books the memory of those who share blocks with others than before.
    pub(super) fn hold_for(&self, judge: &mut Admission, moved: Vec<Moved>) {
        for Moved { id, holds } in moved {
            judge.change(now(), id, Resource::Memory, &holds);
        }
    }
}
