//! A file that is watched while its limits decide: what changed is reported, and what is wrong with it once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use plimsoll_engine::{Ask, Changes, ConfigError, FileWatch, FileWatcher, Limits};

struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let name = format!("plimsoll-engine-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file with a limit per user and a route.
fn text(rate: &str) -> String {
    format!(
        "limits: {{ per_user: {{ rate: {rate}, key: header:x-user }} }}\nroutes: [{{ match: /**, limits: [per_user] }}]\n"
    )
}

/// How many a user who has taken `taken` may still take.
fn left(limits: &Limits) -> u64 {
    let peeked = limits.peek(&[Ask::new("per_user").key("anna")]);
    let standing = |answer: plimsoll_engine::Answer<'_>| answer.standing?.remaining;
    match peeked {
        Ok(hold) => hold.answers().find_map(standing).expect("known"),
        Err(_) => 0,
    }
}

type Reports = Receiver<Result<Changes, ConfigError>>;

fn watch(limits: &Limits, path: &Path) -> (FileWatcher, Reports) {
    let (tell, told) = mpsc::channel();
    let report = move |result| tell.send(result).expect("it is read");
    let watcher = limits.watch_file(path, Duration::from_millis(2), report);
    (watcher.expect("a thread"), told)
}

fn next(reports: &Reports) -> Result<Changes, ConfigError> {
    let told = reports.recv_timeout(Duration::from_secs(30));
    told.expect("it is reported")
}

#[test]
fn a_config_map_is_followed_through_its_links() {
    let dir = Dir::new("config-map");
    // As the kubelet lays it out: the file is a link into `..data`, which is a link that is swapped.
    let version = |name: &str, rate: &str| {
        let of = dir.0.join(name);
        fs::create_dir(&of).expect("a directory");
        fs::write(of.join("limits.yaml"), text(rate)).expect("written");
        symlink(name, dir.0.join("..data_tmp")).expect("a link");
        fs::rename(dir.0.join("..data_tmp"), dir.0.join("..data")).expect("swapped");
    };
    version("..1", "100/h");
    let file = dir.0.join("limits.yaml");
    symlink("..data/limits.yaml", &file).expect("a link");
    let limits = Limits::from_file(&file).expect("right");
    limits
        .try_decide(&[Ask::new("per_user").key("anna").cost(90)])
        .expect("it fits")
        .finish(plimsoll::Outcome::Success);
    let (watcher, reports) = watch(&limits, &file);
    version("..2", "200/h");
    fs::remove_dir_all(dir.0.join("..1")).expect("removed");
    let changes = next(&reports).expect("right");
    assert_eq!(
        changes.to_string(),
        "per_user: 100/h → 200/h, 90 in use kept"
    );
    assert_eq!(left(&limits), 110);
    drop(watcher);
    assert!(reports.try_recv().is_err(), "nothing else is reported");
}

#[test]
fn a_file_that_is_wrong_in_any_way_is_reported_once_and_changes_nothing() {
    let dir = Dir::new("wrong");
    let file = dir.0.join("limits.yaml");
    fs::write(&file, text("100/h")).expect("written");
    let limits = Limits::from_file(&file).expect("right");
    let mut watch = FileWatch::new(&file);
    let looked = |watch: &mut FileWatch| -> Vec<_> {
        (0..5).filter_map(|_| limits.check_file(watch)).collect()
    };
    assert!(looked(&mut watch).is_empty(), "it is what was built");
    let clear = || {
        let _ = fs::remove_file(&file);
        let _ = fs::remove_dir(&file);
    };
    let long = format!("limits: {{ a: 1/s }} #{}", "x".repeat(20_000_000));
    let bomb = {
        let mut bomb = "x-0: &a0 [1]\n".to_owned();
        for level in 1..40 {
            let last = level - 1;
            bomb += &format!("x-{level}: &a{level} [*a{last}, *a{last}]\n");
        }
        bomb + "limits: { a: 1/s }"
    };
    let wrong: [(&str, &dyn Fn()); 9] = [
        ("deleted", &clear),
        ("a directory", &|| fs::create_dir(&file).expect("made")),
        ("half written", &|| {
            clear();
            fs::write(&file, &text("100/h")[..40]).expect("written");
        }),
        ("empty", &|| fs::write(&file, "").expect("written")),
        ("no UTF-8", &|| {
            fs::write(&file, [0xff, 0xfe, 0x00]).expect("written");
        }),
        ("huge", &|| fs::write(&file, &long).expect("written")),
        ("deep", &|| {
            fs::write(&file, "[".repeat(100_000)).expect("written");
        }),
        ("exploding", &|| fs::write(&file, &bomb).expect("written")),
        ("cyclic", &|| {
            fs::write(
                &file,
                "limits: { a: { kind: all, of: [b] }, b: { kind: all, of: [a] } }",
            )
            .expect("written");
        }),
    ];
    for (what, make) in wrong {
        make();
        let told = looked(&mut watch);
        let [Err(error)] = told.as_slice() else {
            panic!("{what}: {told:?}");
        };
        assert!(error.to_string().len() < 2000, "{what}: {error}");
        assert!(error.to_string().contains("limits.yaml"), "{what}: {error}");
        assert_eq!(left(&limits), 100, "{what}: the old limits stay");
    }
    fs::write(&file, text("50/h")).expect("written");
    let told = looked(&mut watch);
    assert!(matches!(told.as_slice(), [Ok(_)]), "{told:?}");
    assert_eq!(left(&limits), 50);
}
