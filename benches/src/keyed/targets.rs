//! What we set out to reach with a limit for each key.

use std::iter::zip;

use super::Results;
use super::asked::{Case, Row};
use super::contenders::Worth;
use super::growth::Growth;
use super::keys::Key;
use crate::report::Series;
use crate::targets::{Target, at_least, at_most};

impl Results {
    /// The targets that the cases which ran can tell about.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for case in &self.asked {
            targets.extend(against_peers(case));
            targets.extend(gain(case));
            targets.extend(resets(case));
        }
        for memory in &self.memory {
            let what = format!("keyed, {}: bytes a key", memory.kind());
            let ours = memory.ours().unwrap_or(f64::NAN);
            if memory.kind() == u64::KIND {
                targets.push(at_most(&what, ours, 32.0, " bytes"));
            } else if let Some((peer, bytes)) = memory.leanest() {
                let what = format!("{what} ÷ the leanest peer's ({peer}, {bytes:.1})");
                targets.push(at_most(&what, ours / bytes, 0.9, " ×"));
            }
        }
        for stalls in &self.stalls {
            let Some((p9999, longest)) = stalls.ours() else {
                continue;
            };
            let [p9999, longest] = [p9999, longest].map(|nanos| nanos as f64 / 1e3);
            targets.push(Target {
                what: format!("keyed, {}: p99.99 of single calls", stalls.phase.title()),
                wanted: "≤ 100 µs".to_owned(),
                measured: format!("{p9999:.1} µs, longest {longest:.0} µs"),
                met: p9999 > 0.0 && p9999 <= 100.0,
            });
        }
        for returns in &self.returns {
            let Some((process, table)) = returns.ours() else {
                continue;
            };
            let what = format!("keyed, {}: after all went idle ÷ fresh,", returns.kind());
            targets.push(at_most(&format!("{what} process"), process, 1.3, " ×"));
            targets.push(at_most(&format!("{what} table alone"), table, 1.3, " ×"));
        }
        if let Some((most, longest, slower)) = self.growth.as_ref().and_then(Growth::most) {
            let what = format!("keyed, u64: longest insertion up to {most} keys");
            targets.push(at_most(&what, longest, 1.0, " ms"));
            let what = format!("keyed, u64: a hit with {most} keys ÷ with a fiftieth of them");
            targets.push(at_most(&what, slower, 2.0, " ×"));
        }
        targets
    }
}

type Time = fn(&Row) -> Series;

fn against_peers(case: &Case) -> Vec<Target> {
    let own: &[Worth] = &[Worth::Exact];
    let any: &[Worth] = &[Worth::Exact, Worth::ExactLate];
    let times: [(&str, Time); 2] = [("", Row::one), (", two threads", Row::two)];
    let mut targets = Vec::new();
    for ((threads, time), wanted) in zip(times, case.wanted) {
        let mut seen = None;
        for (which, worths) in [("", own), (", on any clock", any)] {
            let (Some(ours), Some(peer)) = (case.ours(), case.fastest(worths, time)) else {
                continue;
            };
            let name = peer.series.name;
            if seen.replace(name) == Some(name) {
                continue;
            }
            let what = format!(
                "{}{threads} ÷ the fastest exact peer{which} ({name})",
                case.title
            );
            targets.push(at_most(&what, time(ours).over(&time(peer)), wanted, " ×"));
        }
    }
    targets
}

fn gain(case: &Case) -> Option<Target> {
    let ours = case.ours()?;
    let what = format!("{}: what two threads get done, of one", case.title);
    Some(at_least(&what, ours.gain(), 1.7, " ×"))
}

fn resets(case: &Case) -> Option<Target> {
    let (reset, of) = case.ours()?.resets();
    (of > 0).then(|| Target {
        what: format!("{}: limits reset", case.title),
        wanted: "none".to_owned(),
        measured: format!("{reset} of {of}"),
        met: reset == 0,
    })
}
