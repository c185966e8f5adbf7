//! Sources that say what they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_ambient::{CpuReading, CpuSource, MemoryReading, MemorySource, SourceError};

#[derive(Clone, Default)]
pub(crate) struct Fed(Arc<Figures>);

#[derive(Default)]
struct Figures {
    value: AtomicU64,
    /// 0 for none.
    total: AtomicU64,
    broken: AtomicBool,
    reads: AtomicU64,
}

impl Fed {
    pub(crate) fn new(value: u64, total: u64) -> Self {
        let fed = Self::default();
        fed.set(value);
        fed.set_total(total);
        fed
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.value.store(value, Ordering::SeqCst);
    }

    pub(crate) fn add(&self, value: u64) {
        self.0.value.fetch_add(value, Ordering::SeqCst);
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.0.total.store(total, Ordering::SeqCst);
    }

    pub(crate) fn break_down(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::SeqCst);
    }

    /// How often it was read.
    pub(crate) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::SeqCst)
    }

    fn read_both(&self) -> Result<(u64, u64), SourceError> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        if self.0.broken.load(Ordering::SeqCst) {
            return Err(SourceError::new("broken"));
        }
        let total = self.0.total.load(Ordering::SeqCst);
        Ok((self.0.value.load(Ordering::SeqCst), total))
    }
}

/// The value is bytes.
impl MemorySource for Fed {
    fn read(&mut self) -> Result<MemoryReading, SourceError> {
        let (used, total) = self.read_both()?;
        Ok(MemoryReading {
            used,
            total: (total > 0).then_some(total),
        })
    }
}

/// The value is milliseconds, the total processors.
impl CpuSource for Fed {
    fn read(&mut self) -> Result<CpuReading, SourceError> {
        let (used, cores) = self.read_both()?;
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        Ok(CpuReading {
            used: Duration::from_millis(used),
            cores: f64::from(cores),
        })
    }
}
