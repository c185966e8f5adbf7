//! The program, command by command. One program: each file in `tests/` would be linked by itself.

#[path = "../../../plimsoll-server/tests/server/browser.rs"]
mod browser;
mod check_command;
mod demo_command;
mod demo_runs;
mod dir;
mod gateway_command;
mod gateway_faults;
mod packaged;
mod replay_command;
mod serve_command;
mod serve_state;
mod simulate_command;
mod store_option;
mod test_command;
mod top_command;
