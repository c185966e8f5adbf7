#![doc = include_str!("../README.md")]

mod amount;
mod answer;
mod cgroup;
mod cpu;
mod error;
mod files;
mod limiter;
mod machine;
mod memory;
mod parse;
mod process;
mod room;
mod sampler;
mod source;
mod watch;

pub use amount::Amount;
pub use cgroup::{CgroupCpu, CgroupMemory};
pub use cpu::{CpuLimiter, CpuLimiterBuilder};
pub use error::{BuildError, SourceError};
pub use machine::MachineCpu;
pub use memory::{MemoryLimiter, MemoryLimiterBuilder, MemoryUsage};
pub use process::{ProcessCpu, ProcessMemory};
pub use sampler::{Run, Sampler, SamplerThread};
pub use source::{CpuReading, CpuSource, MemoryReading, MemorySource};
pub use watch::{Level, WhenUnknown};
