//! The director in front of edges, in the lab's kernel, which has IPVS.

use reelway_tests::lab;

#[test]
fn edges_behind_a_virtual_address_play_by_every_method_and_one_that_dies_is_passed_over() {
    lab::run("director");
}

#[test]
fn edges_behind_a_virtual_address_of_ipv6_play_by_every_method() {
    lab::run("director-v6");
}

#[test]
fn viewers_of_a_film_with_an_address_reach_one_edge_by_each_scheduler_that_goes_by_addresses() {
    lab::run("director-films");
}

#[test]
fn edges_are_added_drained_and_killed_while_viewers_play() {
    lab::run("director-changes");
}

#[test]
fn players_of_others_play_through_the_virtual_address_directly_and_by_nat() {
    lab::run("director-players");
}

#[test]
fn a_second_director_takes_over_while_films_play_and_all_settings_are_put_back() {
    lab::run("director-failover");
}

#[test]
fn a_second_director_takes_over_an_address_of_ipv6() {
    lab::run("director-failover-v6");
}

#[test]
fn all_of_it_can_be_tried_in_one_command_and_nothing_is_left_of_it() {
    lab::run("director-try");
}

#[test]
fn an_edge_with_twice_the_network_gets_twice_as_many_viewers() {
    lab::run("director-weights");
}
