//! Limits on what a program is in the middle of: the memory and the processor time in use.
//!
//! Other limiters count what they grant. These look at the machine instead, and answer yes or no: a
//! [`MemoryLimiter`] is saturated when too much memory is in use, a [`CpuLimiter`] when too much processor time is. They
//! stop new work in an emergency, whoever asks and whatever it costs, and let it in again when that is over.
//!
//! ```
//! use plimsoll::{All, Clock, Concurrency, Gate, Limiter};
//! use plimsoll_ambient::{Amount, CpuLimiter, MemoryLimiter, Sampler};
//! use std::sync::Arc;
//!
//! # if cfg!(target_os = "linux") {
//! let sampler = Sampler::new(Clock::system());
//! let memory = MemoryLimiter::builder(Amount::Percent(80)).name("memory").build(&sampler)?;
//! let cpu = CpuLimiter::builder(95).name("cpu").build(&sampler)?;
//! let _sampling = sampler.spawn()?; // one thread for both, until this is dropped
//!
//! // Asked directly:
//! if let Err(denied) = memory.check_saturation() {
//!     println!("not now: {denied}");
//! }
//! // Or with other limits:
//! let slots = Gate::builder(Concurrency::new(100)).name("slots").build();
//! let all = All::new([Arc::new(memory) as Arc<dyn Limiter>, Arc::new(cpu), Arc::new(slots)]);
//! match all.try_acquire(1) {
//!     Ok(permit) => println!("at work, with {permit:?}"),
//!     Err(denied) => println!("not now: {denied}"),
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who measures
//!
//! A [`Sampler`] measures for all limiters built with it, in one [thread](Sampler::spawn), one
//! [task](Sampler::run), or when [told to](Sampler::sample). A limiter that is asked compares words; it reads no
//! files.
//!
//! A sample counts for two check intervals. If nobody samples after all, a limiter neither stays saturated for ever nor
//! opens silently: the first who asks after that measures, which is to read some short files of the
//! kernel's, and nobody else for an interval. If that fails too, nobody knows, and the limiter refuses as
//! [`Unavailable`](plimsoll::Reason::Unavailable) unless [told otherwise](WhenUnknown). A single
//! measurement that fails changes nothing.
//!
//! # What is measured
//!
//! | source | in use | of |
//! |---|---|---|
//! | [`CgroupMemory`] | the cgroup's memory without inactive file pages | its limit, or the machine's memory |
//! | [`ProcessMemory`] | the resident set | the cgroup's limit, or the machine's memory |
//! | [`CgroupCpu`] | the cgroup's processor time | its quota, or the processors allowed |
//! | [`ProcessCpu`] | the process's processor time | the cgroup's quota, or the processors allowed |
//! | [`MachineCpu`] | everybody's processor time | the processors of the machine |
//!
//! Cgroups are of version 1 or 2, and limits of those around them count. All of these are Linux's; elsewhere they
//! say so when they are made, and a closure can be the [source](MemorySource).

mod amount;
mod cgroup;
mod cpu;
mod error;
mod files;
mod limiter;
mod memory;
mod parse;
mod sampler;
mod watch;

pub use amount::Amount;
pub use cgroup::{CgroupCpu, CgroupMemory};
pub use cpu::{CpuLimiter, CpuLimiterBuilder, CpuReading, CpuSource, MachineCpu, ProcessCpu};
pub use error::{BuildError, SourceError};
pub use memory::{
    MemoryLimiter, MemoryLimiterBuilder, MemoryReading, MemorySource, MemoryUsage, ProcessMemory,
};
pub use sampler::{Run, Sampler, SamplerThread};
pub use watch::{Level, WhenUnknown};
