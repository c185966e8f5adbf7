//! A directory with files, and the program in it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for each test, gone at its end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plimsoll-cli-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        for (name, text) in files {
            std::fs::write(dir.join(name), text).expect("a file for the test");
        }
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.current_dir(&self.0).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
pub(crate) fn check(output: &Output, status: i32, out: &str, err: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), out);
    assert_eq!(String::from_utf8_lossy(&output.stderr), err);
    assert_eq!(output.status.code(), Some(status));
}
