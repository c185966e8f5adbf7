//! Fleets of proxies on a bad network: what is admitted against the bound, and how it is divided.

use std::time::Duration;

use plimsoll::{Moment, Quota};
use plimsoll_quota::simulation::{FleetResult, NetworkPartition, ProxyFleet, Without};
use proptest::prelude::*;

/// In no span of time more than the rate and the burst, but for what restarts of the server are allowed.
fn holds(outcome: &FleetResult, burst: u64) {
    assert!(!outcome.overlent, "more was lent than there is");
    assert!(
        outcome.worst <= burst as f64 + 1e-6,
        "{} above the rate, with a burst of {burst}",
        outcome.worst
    );
}

/// All that can go wrong: messages that take up to a second, streams that break every five minutes, proxies that restart every ten, a
/// server that restarts, and a fifth of the network cut off twice.
fn bad(fleet: ProxyFleet, proxies: usize) -> ProxyFleet {
    fleet
        .delay(Duration::from_secs(1))
        .cuts(1.0 / 300.0)
        .proxy_restarts(1.0 / 600.0)
        .server_restart(50)
        .partition(NetworkPartition::new(30, 42, proxies / 5))
        .partition(NetworkPartition::new(70, 110, proxies / 5))
}

/// Ten busy ones have half of the demand of all.
fn uneven(quota: u64, proxies: usize) -> impl Fn(usize, Moment) -> f64 + Send + Sync + 'static {
    let busy = proxies.div_ceil(10);
    let total = 1.5 * quota as f64;
    move |proxy, _| match proxy < busy {
        true => total / 2.0 / busy as f64,
        false => total / 2.0 / (proxies - busy).max(1) as f64,
    }
}

#[test]
fn a_thousand_proxies_on_a_bad_network_stay_within_the_bound() {
    for proxies in [10, 100, 1000] {
        for without in [Without::Deny, Without::Allow] {
            if proxies == 1000 && without == Without::Allow {
                continue;
            }
            let fleet = ProxyFleet::new(Quota::per_second(2000), 2000, proxies);
            let fleet = bad(fleet.demand(uneven(2000, proxies)), proxies).without(without);
            let outcome = fleet.run(proxies as u64);
            holds(&outcome, 2000);
            let used = outcome.total() as f64 / (2000.0 * 120.0);
            println!(
                "{proxies} proxies: {:.0} % used, {:.0} above the rate at worst, {} stale, {} unassigned, {} pushes, {} changes",
                100.0 * used,
                outcome.worst,
                outcome.stale,
                outcome.unassigned,
                outcome.pushes,
                outcome.changes
            );
            assert!(used > 0.5, "{used}");
            // Those that were cut off when the server restarted had their old shares until they ran out.
            assert!(outcome.stale <= 2000 * 17);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let fleet = || bad(ProxyFleet::new(Quota::per_second(100), 50, 20), 20);
    assert_eq!(fleet().run(7), fleet().run(7));
    assert_ne!(fleet().run(7), fleet().run(8));
}

#[test]
fn a_good_network_wastes_little() {
    for proxies in [1, 2, 10, 100, 400] {
        let fleet = ProxyFleet::new(Quota::per_second(2000), 4000, proxies).seconds(180);
        let outcome = fleet.run(1);
        holds(&outcome, 4000);
        let used = outcome.total() as f64 / (2000.0 * 180.0);
        println!("{proxies}: {used}");
        assert!(used > 0.92, "{proxies}: {used}");
    }
}

#[test]
fn shares_follow_demand_and_are_fair() {
    // Nine to one, and together more than there is: the small one has all it asks for, the other what is left.
    let demand = |proxy, _| if proxy == 0 { 135.0 } else { 15.0 };
    let at = |seconds| {
        ProxyFleet::new(Quota::per_second(100), 100, 2)
            .demand(demand)
            .seconds(seconds)
            .run(3)
            .admitted
    };
    let (early, late) = (at(20), at(80));
    let [busy, small] = [0, 1].map(|proxy| (late[proxy] - early[proxy]) as f64 / 60.0);
    println!("{busy} and {small} a second, of 135 and 15");
    assert!((80.0..=90.0).contains(&busy) && (13.0..=16.0).contains(&small));
}

#[test]
fn a_rate_below_the_number_of_proxies_still_flows() {
    // Five a minute for twenty proxies that all want more, with and without enough tokens for a bucket each.
    for (quota, burst, proxies, minutes, least) in [
        (Quota::per_minute(5), 20, 20, 20, 0.8),
        (Quota::per_minute(5), 5, 20, 20, 0.8),
        (Quota::per_minute(1), 1, 20, 20, 0.7),
        (Quota::per_second(10), 3, 20, 20, 0.5),
        (Quota::per_second(1), 1, 1, 20, 0.8),
        (Quota::per_minute(60), 200, 200, 4, 0.8),
    ] {
        let fleet = ProxyFleet::new(quota, burst, proxies)
            .demand(|_, _| 5.0)
            .seconds(60 * minutes);
        let outcome = fleet.run(5);
        holds(&outcome, burst);
        let whole = quota.units() as f64 / quota.period().as_secs_f64() * 60.0 * minutes as f64;
        let used = outcome.total() as f64 / whole;
        let most = outcome.admitted.iter().max().unwrap();
        let served = outcome.admitted.iter().filter(|count| **count > 0).count();
        println!(
            "{quota:?}, burst {burst}, {proxies} proxies: {used:.2}, {served} served, at most {most}"
        );
        assert!(used > least, "{quota:?} with {burst}: {used}");
    }
}

#[test]
fn a_restart_of_the_server_is_no_free_burst() {
    // All buckets are empty when it restarts: what comes then is the rate, and a token for each.
    let fleet = |seconds| ProxyFleet::new(Quota::per_second(50), 1000, 10).seconds(seconds);
    let until = fleet(100).run(9).total();
    let restarted = |seconds| fleet(seconds).server_restart(100).run(9).total();
    for after in [5, 10, 20, 40] {
        let more = restarted(100 + after) - until;
        println!("{more} in {after} s after the restart");
        assert!(more <= 50 * (after + 1) + 10, "{more} in {after} s");
        assert!(more >= 50 * after / 3, "{more} in {after} s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_span_of_time_sees_more_than_the_rate_and_the_burst(
        seed in any::<u64>(),
        units in 1_u64..500,
        period in prop::sample::select(vec![1_u64, 10, 60]),
        burst in 1_u64..300,
        proxies in 1_usize..12,
        delay in 0_u64..1000,
        cuts in 0.0..0.2,
        restarts in 0.0..0.1,
        server in prop::collection::vec(1_u64..90, 0..3),
        partitions in prop::collection::vec((1_u64..90, 1_u64..40, 1_usize..12), 0..3),
        shape in 0_u64..4,
        allow in any::<bool>(),
    ) {
        let quota = Quota::new(units, Duration::from_secs(period));
        let rate = units as f64 / period as f64;
        let demand = move |proxy: usize, now: Moment| {
            let second = now.as_nanos() / 1_000_000_000;
            let part = rate * 2.0 / proxies as f64;
            match shape {
                0 => part,
                1 => if proxy == 0 { 2.0 * rate } else { 0.1 * rate },
                // It moves from one to the next.
                2 => if (second / 13) as usize % proxies == proxy { 3.0 * rate } else { 0.0 },
                // Nothing, then everything at once.
                _ => if second.is_multiple_of(20) { 20.0 * part } else { 0.0 },
            }
        };
        let mut fleet = ProxyFleet::new(quota, burst, proxies)
            .demand(demand)
            .seconds(100)
            .delay(Duration::from_millis(delay))
            .cuts(cuts)
            .proxy_restarts(restarts)
            .without(if allow { Without::Allow } else { Without::Deny });
        for second in server {
            fleet = fleet.server_restart(second);
        }
        for (from, long, count) in partitions {
            fleet = fleet.partition(NetworkPartition::new(from, from + long, count));
        }
        let outcome = fleet.run(seed);
        prop_assert!(!outcome.overlent);
        prop_assert!(outcome.worst <= burst as f64 + 1e-6, "{} above the rate", outcome.worst);
    }
}
