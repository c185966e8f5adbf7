//! Whether proxies may still spend shares that a server before this one assigned.
//!
//! A file beside the snapshot tells a first start from a restart: it is there, and empty, while a server runs, and says at
//! the end until when its shares last. So a directory without it has seen no server, and after a crash nothing is assumed.

use std::fs::{self, File};
use std::io::{self, Write};

use plimsoll::Moment;

use super::{NAME, Snapshots};

const SHARES: &str = "quota.shares";

impl Snapshots {
    /// Whether a server before this one may have assigned shares that still last.
    pub(crate) fn shares_may_last(&self, now: Moment) -> bool {
        match fs::read_to_string(self.directory.join(SHARES)) {
            Ok(text) => text
                .trim()
                .parse()
                .map_or(true, |until: u64| now.as_nanos() < until),
            // Servers of earlier versions left a snapshot only.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.directory.join(NAME).exists()
            }
            Err(_) => true,
        }
    }

    /// Notes that this server may assign shares from now on; or at its end until when they last.
    pub(crate) fn note_shares(&self, until: Option<Moment>) {
        let text = until.map(|until| until.as_nanos().to_string());
        if let Err(error) = self.write_shares(&text.unwrap_or_default()) {
            tracing::error!(
                directory = %self.directory.display(),
                "cannot write {SHARES}: {error}; after a restart it may not be known that proxies still have shares"
            );
        }
    }

    fn write_shares(&self, text: &str) -> io::Result<()> {
        let writing = self.directory.join("quota.shares.new");
        let mut file = File::create(&writing)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(writing, self.directory.join(SHARES))
    }
}
