//! Traffic from a log.

use plimsoll_sim::{AccessLog, Contender, Simulation, run};

const SERVER: &str = "name: n\nduration: 10s\nrate: 1\nworkers: 100\nservice: 1ms\n";

#[test]
fn requests_come_when_they_came() {
    let log = AccessLog::of_nanos([9_500, 7_250, 9_750, 60_000].map(|millis| millis * 1_000_000));
    let simulation = Simulation::from_text("s.yaml", SERVER).expect("a simulation");
    let simulation = simulation.access_log(log.expect("requests"));
    for seed in 1..4 {
        let run = run(&simulation, &Contender::none(), seed);
        let good = run.seconds.iter().map(|second| second.counts().good);
        // What comes after the end of the simulation does not come.
        assert_eq!(good.collect::<Vec<_>>()[..5], [1, 0, 2, 0, 0]);
    }
    assert!(AccessLog::of_nanos([]).is_none());
}
