//! The default clock under a tool that hides the kernel's vDSO from the process.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use plimsoll::{Gate, TokenBucket};

#[test]
fn a_gate_decides() {
    let gate = Gate::new(TokenBucket::per_second(1));
    assert!(gate.try_acquire(1).is_ok());
    assert!(gate.try_acquire(1).is_err());
}

/// The vDSO was looked up in what the kernel had said when the process started, which is not what is mapped under
/// valgrind: the first reading of the clock crashed. Passes where there is no valgrind.
#[test]
fn a_gate_decides_under_valgrind() {
    let is_here = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !is_here.is_ok_and(|status| status.success()) {
        return;
    }
    let output = Command::new("valgrind")
        .args(["--tool=none", "--quiet"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_gate_decides"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
