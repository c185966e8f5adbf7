//! Parsers of the kernel's files: pure functions that return `None` for malformed text.

use std::path::PathBuf;

/// A single number.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A limit of cgroup v2: a number, or `max` for none.
pub(crate) fn number_or_max(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        "max" => Some(None),
        other => other.parse().ok().map(Some),
    }
}

/// The value from which a limit of cgroup v1 means no limit. The kernel shows the greatest signed number, rounded down
/// to a page, and page sizes differ.
const V1_UNLIMITED: u64 = 1 << 62;

/// A memory limit of cgroup v1.
pub(crate) fn v1_limit(text: &str) -> Option<Option<u64>> {
    number(text).map(|limit| (limit < V1_UNLIMITED).then_some(limit))
}

/// A quota of cgroup v1 in microseconds; -1, or any negative number, is none.
pub(crate) fn v1_quota(text: &str) -> Option<Option<u64>> {
    let quota: i64 = text.trim().parse().ok()?;
    Some(u64::try_from(quota).ok())
}

/// `cpu.max` of cgroup v2, `<quota or max> <period>`, in cores.
pub(crate) fn cpu_max(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.trim().split_once(' ')?;
    let period = number(period)?;
    match number_or_max(quota)? {
        Some(quota) => cores(quota, period).map(Some),
        None => (period > 0).then_some(None),
    }
}

/// A quota in each period, converted to cores.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(crate) fn cores(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// The number after `key` in a file of `key number` lines.
pub(crate) fn stat(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(' ')?;
        number(rest)
    })
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub(crate) fn mem_total(text: &str) -> Option<u64> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    number(total.trim().strip_suffix("kB")?)?.checked_mul(1024)
}

/// The second number of `/proc/self/statm`: pages in memory.
pub(crate) fn resident_pages(text: &str) -> Option<u64> {
    number(text.split_whitespace().nth(1)?)
}

/// The number of processors in `Cpus_allowed_list` of `/proc/self/status`: `0-3,8` are 5.
pub(crate) fn allowed_cores(text: &str) -> Option<u64> {
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut count: u64 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// The ticks for which all processors were busy since the start, and their number, from `/proc/stat`.
///
/// Everything counts as busy except idling and waiting for a disk. The time of guests is contained in that of users.
pub(crate) fn machine_ticks(text: &str) -> Option<(u64, u64)> {
    let mut busy = None;
    let mut processors = 0;
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("cpu") => {
                let ticks: Vec<u64> = fields.map_while(number).take(8).collect();
                let [user, nice, system, _idle, rest @ ..] = &ticks[..] else {
                    return None;
                };
                let waiting = 1; // of the rest
                let sum = [user, nice, system]
                    .into_iter()
                    .chain(rest.iter().skip(waiting));
                busy = sum.copied().try_fold(0_u64, u64::checked_add);
            }
            Some(name) if name.starts_with("cpu") => processors += 1,
            _ => {}
        }
    }
    (processors > 0).then_some((busy?, processors))
}

/// A line of `/proc/self/cgroup`: `4:memory:/path`, or `0::/path` for version 2.
pub(crate) struct Membership<'a> {
    controllers: &'a str,
    pub(crate) path: &'a str,
}

impl Membership<'_> {
    /// Whether it is in the hierarchy of version 1 that has this controller.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|name| name == controller)
    }

    pub(crate) fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// The memberships of `/proc/self/cgroup`. Other lines are skipped.
pub(crate) fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let id = fields.next()?;
        let controllers = fields.next()?;
        let path = fields.next().filter(|path| path.starts_with('/'))?;
        // Only version 2 has the number 0, and only there no controller is named.
        ((id == "0") == controllers.is_empty()).then_some(Membership { controllers, path })
    })
}

/// A line of `/proc/self/mountinfo` that mounts cgroups.
pub(crate) struct Mount<'a> {
    /// The mounted cgroup.
    pub(crate) root: PathBuf,
    /// The mount point.
    pub(crate) point: String,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    pub(crate) fn is_v2(&self) -> bool {
        self.kind == "cgroup2"
    }

    /// Whether it is the hierarchy of version 1 that has this controller.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }
}

/// The cgroups that are mounted, from `/proc/self/mountinfo`.
pub(crate) fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let root = PathBuf::from(unescape(place.next()?));
        let point = unescape(place.next()?);
        let mut what = what.split(' ');
        let kind = what.next().filter(|kind| kind.starts_with("cgroup"))?;
        Some(Mount {
            root,
            point,
            kind,
            options: what.nth(1).unwrap_or_default(),
        })
    })
}

/// `\040` is a space: bytes that would end a field are written as three octal digits.
fn unescape(field: &str) -> String {
    let mut plain = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4);
        let character = digits
            .filter(|digits| digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit)))
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
            .filter(u8::is_ascii);
        let skipped = match character {
            Some(character) => {
                plain.push(char::from(character));
                4
            }
            None => {
                plain.push('\\');
                1
            }
        };
        rest = &rest[at + skipped..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests;
