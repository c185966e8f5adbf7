//! Measurements that need a process of their own: what an allocator has kept of those who were measured
//! before would count for those who come after, and only processes can be several of a fleet.

use std::env;
use std::fs::File;
use std::io::Read;
use std::process::Command;

use super::contenders::{self, Entrant, Limit, Limiter};
use super::keys::Key;
use super::{growth, memory, returns, stalls};
use crate::redis::fairness::{self, FAIRNESS};

/// The argument that makes this program such a process.
pub(crate) const CHILD: &str = "--child";

/// Variables of an environment, with their values.
pub(super) type Variables = &'static [(&'static str, &'static str)];

/// Runs this program once more, with `args`, and returns what it says.
pub(super) fn ask(args: &[&str]) -> Option<String> {
    ask_with(args, &[])
}

/// The same with more in its environment.
pub(super) fn ask_with(args: &[&str], environment: Variables) -> Option<String> {
    let program = env::current_exe().ok()?;
    let mut command = Command::new(program);
    let command = command.envs(environment.iter().copied());
    let output = command.arg(CHILD).args(args).output().ok()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        eprintln!("{}: no result: {error}", args.join(" "));
        return None;
    }
    let said = String::from_utf8(output.stdout).ok()?;
    Some(said.trim_end().to_owned())
}

/// What such a process says.
pub(crate) fn answer(args: &[String]) -> Option<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["memory", u64::KIND, rest @ ..] => memory::child::<u64>(rest),
        ["memory", String::KIND, rest @ ..] => memory::child::<String>(rest),
        ["returns", u64::KIND, rest @ ..] => returns::child::<u64>(rest),
        ["returns", String::KIND, rest @ ..] => returns::child::<String>(rest),
        ["stalls", rest @ ..] => stalls::child(rest),
        ["growth", rest @ ..] => growth::child(rest),
        [FAIRNESS, rest @ ..] => fairness::child(rest),
        _ => None,
    }
}

/// An entrant, and one of its limiters that has been asked once: what all limiters share is there from now on.
pub(super) fn warmed_up<K: Key>(name: &str) -> Option<(Entrant<K>, Box<dyn Limiter<K>>)> {
    let mut all = contenders::all::<K>().into_iter();
    let entrant = all.find(|entrant| entrant.name == name)?;
    let mut limiter = (entrant.make)(&Limit::generous(1));
    limiter.fill(&K::of(u64::MAX), 1);
    limiter.ask(&K::of(u64::MAX));
    Some((entrant, limiter))
}

/// The bytes of this process that are in memory. Unlike `statm`, exact on many processors. It allocates nothing: a block in the
/// heap above a table would keep the memory of the table.
pub(super) fn resident() -> u64 {
    let mut text = [0; 2048];
    let rollup = File::open("/proc/self/smaps_rollup");
    let length = rollup.and_then(|mut file| file.read(&mut text));
    let rollup = std::str::from_utf8(&text[..length.unwrap_or(0)]).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
