//! Tests that need a kernel or queue that this machine may lack run in the lab (`lab/README.md`),
//! which checks the results itself and prints them.

use reelway_tests::lab::run as lab;

#[test]
fn where_fq_holds_packets_they_leave_in_order_and_evenly() {
    lab("sender-fq");
}

#[test]
fn on_a_link_that_downloads_fill_media_goes_first_and_is_neither_late_nor_lost() {
    lab("sender-link");
}

#[test]
fn where_the_machine_s_owner_forbids_rings_it_is_said_and_a_film_is_read_without() {
    lab("rings");
}

#[test]
fn a_clock_that_is_stepped_and_a_device_without_runs_of_packets_cost_no_packet() {
    lab("sender-faults");
}
