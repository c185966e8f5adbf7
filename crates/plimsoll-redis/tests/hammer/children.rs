//! Processes of their own, which are this same program.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::server::Server;

/// How many processes hammer.
pub(crate) const PROCESSES: usize = 8;

/// What a line begins with that a process says to the one who started it.
pub(crate) const SAYS: &str = "hammer says ";

/// A process that ends with the test.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts one that waits for [`go`](Self::go).
    pub(crate) fn start(server: &Server, job: &str) -> Self {
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this)
            .args(["--exact", "process::one_of_them", "--nocapture"])
            .env("PLIMSOLL_HAMMER_JOB", job)
            .env("PLIMSOLL_HAMMER_URL", server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// The next it says; `None` when it has ended.
    pub(crate) fn says(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.expect("a line");
            if let Some((_, said)) = line.split_once(SAYS) {
                return Some(said.to_owned());
            }
        }
    }

    pub(crate) fn go(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"go\n").expect("it listens");
    }

    /// With SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets eight processes hammer, and says what each said, and when they began and ended by the clock of the
/// server, in microseconds.
pub(crate) fn hammer(server: &Server, job: &str) -> (Vec<Vec<String>>, u64, u64) {
    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|_| Process::start(server, job))
        .collect();
    for process in &mut processes {
        assert_eq!(process.says().as_deref(), Some("ready"));
    }
    let began = time(server);
    processes.iter_mut().for_each(Process::go);
    // All pipes are emptied at once, so that nobody waits for room in one.
    let said = std::thread::scope(|scope| {
        let readers: Vec<_> = processes
            .iter_mut()
            .map(|process| scope.spawn(|| std::iter::from_fn(|| process.says()).collect()))
            .collect();
        let said = readers
            .into_iter()
            .map(|reader| reader.join().expect("what it said"));
        said.collect::<Vec<Vec<String>>>()
    });
    for lines in &said {
        assert_eq!(
            lines.last().map(String::as_str),
            Some("done"),
            "a process failed"
        );
    }
    (said, began, time(server))
}

fn time(server: &Server) -> u64 {
    let time = server.cli(&["time"]);
    let mut parts = time
        .lines()
        .map(|part| part.parse::<u64>().expect("a number"));
    let (seconds, micros) = (parts.next(), parts.next());
    seconds.expect("seconds") * 1_000_000 + micros.expect("microseconds")
}
