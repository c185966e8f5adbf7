//! A real file is edited while requests are decided by a limiter that was looked up once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use plimsoll::{Clock, LimiterExt, Reason};
use plimsoll_config::{Config, FileWatch, Limits};

struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("plimsoll-watch-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("limits.yaml")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn build(path: &Path, text: &str) -> Limits {
    fs::write(path, text).expect("written");
    let config = Config::from_file(path).unwrap_or_else(|error| panic!("{error}"));
    config.build(&Clock::system()).expect("builds")
}

/// What a file may say of the limiters that are held, one edit after the other.
const EDITS: [&str; 12] = [
    "api: { kind: concurrency, limit: 50, queue: { bound: 100 } }",
    "api: { kind: token_bucket, burst: 500, refill: 100000, every: 1s }",
    "api: { kind: token_bucket, burst: 500, refill: 100000, every: 1s, queue: { bound: 10 } }",
    "api: { kind: sliding_counter, limit: 100000, window: 1s, name: calls }",
    "api: { kind: adaptive, algorithm: vegas, initial: 50, max: 50 }",
    "api: { kind: all, of: [{ kind: concurrency, limit: 60 }, { kind: fixed_window, limit: 100000, window: 1s }] }",
    "api: { kind: token_bucket, burst: 500, refill: 100000, every: 1s, keyed: true, max_keys: 10 }",
    "api: { kind: cpu, threshold: 100% }",
    "api: { kind: concurrency, limit: 50, keyed: true, queue: { bound: 3 } }",
    "api: { kind: concurrency, limit: 70 }\n  other: { kind: concurrency, limit: 1 }",
    "this is: [not a configuration",
    "api: { kind: concurrency, limit: 0 }",
];

#[test]
fn every_request_is_decided_while_the_file_is_edited() {
    let dir = Dir::new("edited");
    let file = dir.file();
    let limits = Arc::new(build(&file, &format!("limiters:\n  {}\n", EDITS[0])));
    let seen = Arc::new(Mutex::new((0, 0)));
    let told = Arc::clone(&seen);
    let watcher = limits.watch_file(&file, Duration::from_millis(2), move |result| {
        let mut seen = told.lock().expect("not poisoned");
        match result {
            Ok(_) => seen.0 += 1,
            Err(_) => seen.1 += 1,
        }
    });
    let watcher = watcher.expect("a thread");
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..3)
            .map(|at: usize| {
                // Looked up once, as a layer does.
                let api = limits.limiter("api").expect("there");
                let done = &done;
                scope.spawn(move || {
                    let mut answers = BTreeMap::<&str, u64>::new();
                    while !done.load(Ordering::Relaxed) {
                        let permit = if at == 0 {
                            let within = plimsoll::Demand::ONE.within(Duration::from_millis(50));
                            api.acquire_blocking(within)
                        } else {
                            api.try_acquire(1.into())
                        };
                        let answer = match &permit {
                            Ok(_) => "granted",
                            Err(denied) => denied.reason().as_str(),
                        };
                        *answers.entry(answer).or_default() += 1;
                        std::thread::yield_now();
                    }
                    answers
                })
            })
            .collect();
        let (_stop, pause) = mpsc::channel::<()>();
        for round in 0..4 {
            for (at, edit) in EDITS.iter().enumerate() {
                let text = format!("limiters:\n  {edit}\n");
                // In place, or by another file in its place.
                if (round + at) % 2 == 0 {
                    fs::write(&file, text).expect("written");
                } else {
                    let other = dir.0.join("new");
                    fs::write(&other, text).expect("written");
                    fs::rename(&other, &file).expect("renamed");
                }
                let _ = pause.recv_timeout(Duration::from_millis(15));
            }
        }
        done.store(true, Ordering::Relaxed);
        let mut sum = BTreeMap::<&str, u64>::new();
        for asking in asking {
            for (answer, count) in asking.join().expect("no panic") {
                *sum.entry(answer).or_default() += count;
            }
        }
        sum
    });
    drop(watcher);
    assert_eq!(answers.get(Reason::Closed.as_str()), None, "{answers:?}");
    assert!(answers["granted"] > 0, "{answers:?}");
    let (applied, refused) = *seen.lock().expect("not poisoned");
    assert!(
        applied >= 10 && refused >= 2,
        "{applied} applied, {refused} refused"
    );
    // Whatever happened, nothing is out any more.
    fs::write(&file, format!("limiters:\n  {}\n", EDITS[0])).expect("written");
    limits.replace_file(&file).expect("right");
    let api = limits.limiter("api").expect("there");
    assert_eq!(api.snapshot().in_use(), 0);
    let all: Vec<_> = (0..60)
        .filter_map(|_| api.try_acquire(1.into()).ok())
        .collect();
    assert_eq!(all.len(), 50);
}

#[test]
fn a_file_that_is_deleted_broken_or_half_written_changes_nothing_and_is_told_once() {
    let dir = Dir::new("deleted");
    let file = dir.file();
    let good = "limiters: { a: { kind: concurrency, limit: 1 } }";
    let limits = build(&file, good);
    let mut watch = FileWatch::new(&file);
    // It says what the limits were built from.
    assert!(watch.check(&limits).is_none() && watch.check(&limits).is_none());
    let before = limits.current();
    let wrong: [&dyn Fn(); 4] = [
        &|| fs::remove_file(&file).expect("removed"),
        &|| fs::create_dir(&file).expect("a directory"),
        &|| {
            fs::remove_dir(&file).expect("removed");
            fs::write(&file, "limiters: { a: { kind: conc").expect("written");
        },
        &|| fs::write(&file, [0xff, 0xfe, 0x00]).expect("written"),
    ];
    for (at, make) in wrong.iter().enumerate() {
        make();
        let told: Vec<_> = (0..5).filter_map(|_| watch.check(&limits)).collect();
        assert_eq!(told.len(), 1, "{at}: {told:?}");
        assert!(told[0].is_err(), "{at}");
    }
    // It is the same set until the file is right again and says something else.
    assert_eq!(
        before.config().to_string(),
        limits.current().config().to_string()
    );
    fs::write(&file, good.replace("limit: 1", "limit: 2")).expect("written");
    assert!(watch.check(&limits).is_none(), "it may still be written");
    let changes = watch.check(&limits).expect("something new").expect("right");
    assert_eq!(changes.changed, ["a"]);
    assert!(watch.check(&limits).is_none());
}

#[test]
fn a_file_that_grows_while_it_is_looked_at_is_left_alone() {
    let dir = Dir::new("growing");
    let file = dir.file();
    let whole =
        "limiters:\n  a: { kind: concurrency, limit: 1 }\n  b: { kind: concurrency, limit: 1 }\n";
    let limits = build(&file, whole);
    let mut watch = FileWatch::new(&file);
    let _ = (watch.check(&limits), watch.check(&limits));
    let longer = format!("{whole}  c: {{ kind: concurrency, limit: 1 }}\n");
    for end in 0..longer.len() {
        // Every beginning is seen once; some of them would be right.
        fs::write(&file, &longer[..end]).expect("written");
        assert!(watch.check(&limits).is_none(), "{end}");
    }
    fs::write(&file, &longer).expect("written");
    let _ = watch.check(&limits);
    let changes = watch.check(&limits).expect("something new").expect("right");
    assert_eq!(
        (changes.added, changes.removed),
        (vec!["c".to_owned()], vec![])
    );
}

#[test]
fn files_that_a_file_includes_are_looked_at_too() {
    let dir = Dir::new("included");
    let (file, other) = (dir.file(), dir.0.join("other.yaml"));
    fs::write(&other, "limits: { b: { concurrency: 1 } }\n").expect("written");
    let limits = build(
        &file,
        "include: other.yaml\nlimits: { a: { concurrency: 1 } }\n",
    );
    let mut watch = FileWatch::new(&file);
    let told = |watch: &mut FileWatch| {
        (0..4)
            .filter_map(|_| watch.check(&limits))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(&mut watch).len(),
        0,
        "it says what the limits were built from"
    );
    fs::write(&other, "limits: { b: { concurrency: 2 } }\n").expect("written");
    let changes = told(&mut watch);
    assert!(
        matches!(changes.as_slice(), [Ok(changes)] if changes.changed == ["b"]),
        "{changes:?}"
    );
    for wrong in [
        Some("limits: { b: { concurrency: 0 } }\n"),
        Some("limits: {"),
        None,
    ] {
        match wrong {
            Some(text) => fs::write(&other, text).expect("written"),
            None => fs::remove_file(&other).expect("gone"),
        }
        let told = told(&mut watch);
        assert!(matches!(told.as_slice(), [Err(_)]), "{wrong:?}: {told:?}");
    }
    fs::write(&other, "limits: { b: { concurrency: 3 } }\n").expect("written");
    let changes = told(&mut watch);
    assert!(
        matches!(changes.as_slice(), [Ok(changes)] if changes.changed == ["b"]),
        "{changes:?}"
    );
}
