//! Tests that must not change this machine's clock, or need another kernel. They run in the lab
//! (`lab/README.md`), which does the checks itself and reports what it found.

use reelway_tests::lab::run as lab;

#[test]
fn a_real_time_that_others_set_and_a_leap_second_are_followed() {
    lab("clock-step");
}

#[test]
fn a_kernel_that_slews_its_clock_by_500_ppm_is_followed() {
    lab("clock-slew");
}

#[test]
fn after_a_suspension_the_clock_falls_back_says_so_and_comes_back() {
    lab("clock-suspend");
}

#[test]
fn where_the_vdso_must_enter_the_kernel_a_reading_costs_a_fifth() {
    lab("clock-hpet");
    lab("clock-acpi-pm");
}

#[test]
fn the_contract_holds_as_root_in_a_kernel_of_its_own() {
    lab("clock-preload");
}
