//! Records whether proxies may still spend quota shares that an earlier server assigned.
//!
//! A file next to the snapshot distinguishes a first start from a restart. It is empty while a server runs, and at shutdown the server
//! writes the moment at which its last share expires. If the file is missing, no server ran before; if it is empty, the server
//! crashed and its shares may still be valid.

use std::fs::{self, File};
use std::io::{self, Write};

use plimsoll::Moment;

use super::{NAME, Snapshots};

const SHARES: &str = "quota.shares";

impl Snapshots {
    /// Whether an earlier server may have assigned shares that have not expired.
    pub(crate) fn shares_may_last(&self, now: Moment) -> bool {
        match fs::read_to_string(self.directory.join(SHARES)) {
            Ok(text) => text
                .trim()
                .parse()
                .map_or(true, |until: u64| now.as_nanos() < until),
            // Servers of earlier versions wrote only a snapshot.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.directory.join(NAME).exists()
            }
            Err(_) => true,
        }
    }

    /// Records that this server assigns shares (`None`), or at shutdown the moment at which the last one expires.
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
