//! What we set out to reach, and whether we did.

use crate::contender::Role;
use crate::report::{Case, Series, Table};
use crate::waiting::{self, Waited};
use crate::{calls, floors, handoff, instant, keyed, limiters, permits, redis, sizes, tower};

pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) met: bool,
}

/// The targets that the cases which ran can tell about.
pub(crate) fn markdown(
    cases: &[Case],
    waits: &[(u32, Vec<Series<Waited>>)],
    sizes: Option<&sizes::Sizes>,
    keyed: &keyed::Results,
    tower: &tower::Results,
    redis: &redis::Results,
) -> String {
    let mut targets = ratios(cases);
    targets.extend(cost_of_totals(cases));
    targets.extend(calls::targets(cases));
    for (rate, series) in waits {
        targets.extend(waiting(*rate, series));
    }
    targets.extend(sizes.map(|sizes| Target {
        what: "wait future".to_owned(),
        wanted: "≤ 128 bytes".to_owned(),
        measured: format!("{} bytes", sizes.our_future()),
        met: sizes.our_future() <= 128,
    }));
    targets.extend(keyed.targets());
    targets.extend(tower.targets());
    targets.extend(redis.targets());
    let mut table = Table::new(&["target", "wanted", "measured", ""]);
    for target in targets {
        let met = if target.met { "met" } else { "**missed**" };
        table.rows.push(vec![
            target.what,
            target.wanted,
            target.measured,
            met.to_owned(),
        ]);
    }
    table.markdown()
}

struct Ratio {
    what: &'static str,
    case: &'static str,
    this: &'static str,
    over: &'static str,
    at_most: f64,
}

const fn ratio(
    what: &'static str,
    case: &'static str,
    [this, over]: [&'static str; 2],
    at_most: f64,
) -> Ratio {
    Ratio {
        what,
        case,
        this,
        over,
        at_most,
    }
}

fn ratios(cases: &[Case]) -> Vec<Target> {
    use floors::BY_COUNTER;
    use handoff::{ONE_WORKER, TWO_WORKERS};
    use instant::{DENIED, GRANTED, GRANTED_TWO, PERMIT, PERMIT_TWO};
    use limiters::{BATCHED, BUCKET, FIXED, GOVERNOR, PRECISE, SLIDING};
    use permits::{ADAPTIVE, CONCURRENCY, SEMAPHORE};
    let ratios = [
        ratio("granted ÷ governor", GRANTED, [BUCKET, GOVERNOR], 0.7),
        ratio("denied ÷ governor", DENIED, [BUCKET, GOVERNOR], 0.25),
        ratio(
            "precise, granted ÷ governor",
            GRANTED,
            [PRECISE, GOVERNOR],
            1.02,
        ),
        ratio(
            "precise, granted ÷ floor",
            GRANTED,
            [PRECISE, BY_COUNTER],
            1.2,
        ),
        ratio(
            "two threads ÷ governor",
            GRANTED_TWO,
            [BUCKET, GOVERNOR],
            0.6,
        ),
        ratio(
            "batches, granted ÷ governor",
            GRANTED,
            [BATCHED, GOVERNOR],
            0.15,
        ),
        ratio("… two threads", GRANTED_TWO, [BATCHED, GOVERNOR], 0.1),
        ratio(
            "take and give back ÷ Semaphore",
            PERMIT,
            [CONCURRENCY, SEMAPHORE],
            0.5,
        ),
        ratio("… two threads", PERMIT_TWO, [CONCURRENCY, SEMAPHORE], 0.5),
        ratio(
            "adaptive, take and finish ÷ Concurrency",
            PERMIT,
            [ADAPTIVE, CONCURRENCY],
            2.5,
        ),
        ratio("… two threads", PERMIT_TWO, [ADAPTIVE, CONCURRENCY], 2.5),
        ratio(
            "hand-off ÷ Semaphore",
            ONE_WORKER,
            [CONCURRENCY, SEMAPHORE],
            1.0,
        ),
        ratio("… two workers", TWO_WORKERS, [CONCURRENCY, SEMAPHORE], 1.0),
        ratio("fixed window ÷ bucket", GRANTED, [FIXED, BUCKET], 1.2),
        ratio("sliding window ÷ bucket", GRANTED, [SLIDING, BUCKET], 2.0),
    ];
    let find = |case, name| cases.iter().find(|c| c.id == case)?.find(name);
    let found = ratios.into_iter().filter_map(|ratio| {
        let [this, over] = [ratio.this, ratio.over].map(|name| find(ratio.case, name));
        Some(at_most(ratio.what, this?.over(over?), ratio.at_most, " ×"))
    });
    found.collect()
}

fn cost_of_totals(cases: &[Case]) -> Vec<Target> {
    let cases = cases
        .iter()
        .filter(|case| [instant::GRANTED, instant::DENIED].contains(&case.id));
    let costs = cases.filter_map(|case| {
        let cost = case
            .find(limiters::BUCKET)?
            .minus(case.find(limiters::UNCOUNTED)?);
        Some(at_most(&format!("totals, {}", case.id), cost, 3.0, " ns"))
    });
    costs.collect()
}

pub(crate) fn at_most(what: &str, measured: f64, bound: f64, unit: &str) -> Target {
    Target {
        what: what.to_owned(),
        wanted: format!("≤ {bound}{unit}"),
        measured: written(measured, unit),
        met: measured <= bound,
    }
}

pub(crate) fn at_least(what: &str, measured: f64, bound: f64, unit: &str) -> Target {
    Target {
        what: what.to_owned(),
        wanted: format!("≥ {bound}{unit}"),
        measured: written(measured, unit),
        met: measured >= bound,
    }
}

fn written(measured: f64, unit: &str) -> String {
    if measured.is_nan() {
        "nothing: the machine was too busy".to_owned()
    } else {
        format!("{measured:.3}{unit}")
    }
}

fn waiting(rate: u32, series: &[Series<Waited>]) -> Vec<Target> {
    let Some(ours) = series.iter().find(|series| series.name == waiting::OURS) else {
        return Vec::new();
    };
    let what = |what: &str| format!("waiting, {rate}/s: {what}");
    let reached = ours.each(|waited| waited.reached);
    let highest = reached.samples.iter().copied().fold(0.0, f64::max);
    let fewest = ours.each(|waited| waited.fewest).median();
    let most = ours.each(|waited| waited.most).median();
    let mut targets = vec![
        Target {
            what: what("rate reached"),
            wanted: "0.99 to 1 ×".to_owned(),
            measured: format!("{:.4}, at most {highest:.4} ×", reached.median()),
            met: reached.median() >= 0.99 && highest <= 1.0,
        },
        at_most(
            &what("p99 ÷ (queue ÷ rate)"),
            ours.each(|waited| waited.p99_over_queue).median(),
            1.3,
            " ×",
        ),
        Target {
            what: what("grants of a task ÷ mean"),
            wanted: "within 10 % of each other".to_owned(),
            measured: format!("{fewest:.3} to {most:.3}"),
            met: most <= 1.1 * fewest,
        },
    ];
    let peers = || series.iter().filter(|series| series.role == Role::Peer);
    // Whoever serves one task a hundred times in a row has little to do; who waits, waits in vain.
    let in_turn = peers().filter(|peer| {
        let fewest = peer.each(|waited| waited.fewest).median();
        fewest >= 0.8 && peer.each(|waited| waited.reached).median() >= 0.99
    });
    for (which, leanest) in [
        ("", leanest(peers())),
        (" who serves in turn", leanest(in_turn)),
    ] {
        let Some(peer) = leanest else { continue };
        let name = format!("processor time ÷ the leanest peer's{which} ({})", peer.name);
        let cpu = ours.each(|waited| waited.cpu);
        targets.push(at_most(&what(&name), cpu.over(&peer), 0.8, " ×"));
    }
    targets
}

fn leanest<'a>(peers: impl Iterator<Item = &'a Series<Waited>>) -> Option<Series> {
    peers
        .map(|peer| peer.each(|waited| waited.cpu))
        .min_by(|a, b| a.median().total_cmp(&b.median()))
}
