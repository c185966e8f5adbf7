//! As much of rocksdb's interface as limitador needs to compile. Nothing is stored, and nothing of it is called: the benchmark
//! counts in memory and in Redis.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

#[derive(Debug)]
pub struct Error;

#[derive(Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Unknown,
    TimedOut,
    TryAgain,
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no storage on disk here")
    }
}

impl std::error::Error for Error {}

pub enum CompactionDecision {
    Keep,
    Remove,
}

pub enum DBCompressionType {
    None,
    Bz2,
}

pub enum IteratorMode {
    Start,
}

pub struct MultiThreaded;

#[derive(Default)]
pub struct Options;

pub struct MergeOperands;

impl<'a> IntoIterator for &'a MergeOperands {
    type Item = &'a [u8];
    type IntoIter = std::iter::Empty<&'a [u8]>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::empty()
    }
}

impl Options {
    pub fn set_compression_type(&mut self, _: DBCompressionType) {}

    pub fn set_compaction_filter<F>(&mut self, _: &str, _: F)
    where
        F: FnMut(u32, &[u8], &[u8]) -> CompactionDecision,
    {
    }

    pub fn set_merge_operator_associative<F>(&mut self, _: &str, _: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>>,
    {
    }

    pub fn create_if_missing(&mut self, _: bool) {}
}

pub struct DBWithThreadMode<T>(PhantomData<T>);

pub type DB = DBWithThreadMode<MultiThreaded>;

type Pair = Result<(Box<[u8]>, Box<[u8]>), Error>;

impl<T> DBWithThreadMode<T> {
    pub fn open(_: &Options, _: impl AsRef<Path>) -> Result<Self, Error> {
        Err(Error)
    }

    pub fn get(&self, _: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        Err(Error)
    }

    pub fn merge(&self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<(), Error> {
        Err(Error)
    }

    pub fn delete(&self, _: impl AsRef<[u8]>) -> Result<(), Error> {
        Err(Error)
    }

    pub fn prefix_iterator(&self, _: impl AsRef<[u8]>) -> std::vec::IntoIter<Pair> {
        Vec::new().into_iter()
    }

    pub fn iterator(&self, _: IteratorMode) -> std::vec::IntoIter<Pair> {
        Vec::new().into_iter()
    }
}
