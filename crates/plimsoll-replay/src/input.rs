//! The input of logs, and its lines, in bounded memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

/// The longest line. Longer ones are counted and skipped.
pub(crate) const LONGEST: usize = 64 * 1024;

/// The byte order mark, in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The size of a read.
const CHUNK: usize = 256 * 1024;

/// Opens a file, or the standard input by the name `-`. Gzip is decompressed. `passed` counts the bytes of the file that were
/// read.
pub(crate) fn open(path: &Path, passed: &Arc<AtomicU64>) -> io::Result<Box<dyn Read>> {
    let raw: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "it is a directory",
                ));
            }
            Box::new(file)
        }
    };
    unpacked(Box::new(Counted(raw, Arc::clone(passed))))
}

/// Decompresses gzip. Other input is unchanged.
pub(crate) fn unpacked(mut raw: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 2];
    let mut length = 0;
    while length < 2 {
        match raw.read(&mut magic[length..])? {
            0 => break,
            more => length += more,
        }
    }
    let whole = io::Cursor::new(magic).take(length as u64).chain(raw);
    Ok(match magic == [0x1f, 0x8b] {
        true => Box::new(MultiGzDecoder::new(whole)),
        false => Box::new(whole),
    })
}

struct Counted(Box<dyn Read>, Arc<AtomicU64>);

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(to)?;
        self.1.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// The lines of a text that is read piece by piece.
pub(crate) struct Lines {
    from: Box<dyn Read>,
    buffer: Vec<u8>,
    /// The start of the line that was returned last.
    last: usize,
    /// The end of that line, and the start of the next one.
    start: usize,
    end: usize,
    ended: bool,
    /// Whether the rest of a line is being skipped, because the line is too long.
    skips: bool,
    /// The error at which reading ended, if it failed.
    failed: Option<io::Error>,
}

/// A line, or the reason why there is none.
pub(crate) enum Line<'a> {
    Text(&'a [u8]),
    TooLong,
    /// Reading failed. No more lines follow.
    Failed(io::Error),
    End,
}

impl Lines {
    /// Lines without the byte order mark that some editors put before the first one.
    pub(crate) fn new(from: Box<dyn Read>) -> Self {
        let mut lines = Self {
            from,
            buffer: vec![0; CHUNK + LONGEST],
            last: 0,
            start: 0,
            end: 0,
            ended: false,
            skips: false,
            failed: None,
        };
        while !lines.ended && lines.end < MARK.len() {
            lines.fill();
        }
        if lines.buffer[..lines.end].starts_with(MARK) {
            lines.start = MARK.len();
        }
        lines
    }

    /// The whole lines at the start, as far as one read returns them.
    ///
    /// # Errors
    ///
    /// If nothing can be read.
    pub(crate) fn first(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.end - self.start < LONGEST {
            self.fill();
        }
        if self.end == self.start
            && let Some(error) = self.failed.take()
        {
            return Err(error);
        }
        let text = &self.buffer[self.start..self.end];
        // A line that is cut off is not used.
        let end = memchr::memrchr(b'\n', text).map_or(text.len(), |at| at + 1);
        Ok(&text[..end])
    }

    fn fill(&mut self) {
        if self.last > 0 {
            self.buffer.copy_within(self.last..self.end, 0);
            (self.start, self.end) = (self.start - self.last, self.end - self.last);
            self.last = 0;
        }
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(length) => {
                    self.end += length;
                    self.ended = length == 0;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    (self.ended, self.failed) = (true, Some(error));
                    return;
                }
            }
        }
    }

    /// The line that was returned last and the `more` lines after it as one text, without consuming them. `None` if there are not
    /// so many, or if the text is too long.
    pub(crate) fn longer(&mut self, more: usize) -> Option<&[u8]> {
        loop {
            let after = &self.buffer[self.start..self.end];
            let mut ends = memchr::memchr_iter(b'\n', after);
            let found = ends.nth(more - 1);
            // The last line may have no end.
            let before = memchr::memchr_iter(b'\n', after).count();
            let last =
                self.ended && before + 1 == more && !after.is_empty() && !after.ends_with(b"\n");
            match found.or(last.then_some(after.len())) {
                Some(length) => {
                    let end = self.start + length;
                    let fits = end - self.last <= LONGEST;
                    return fits.then(|| trimmed(&self.buffer[self.last..end]));
                }
                None if self.ended || self.end - self.last > LONGEST => return None,
                None => self.fill(),
            }
        }
    }

    /// The next line, without its end.
    pub(crate) fn next(&mut self) -> Line<'_> {
        let mut looked = 0;
        self.last = self.start;
        loop {
            let text = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &text[looked..]) {
                let length = looked + at;
                let start = self.start;
                self.start += length + 1;
                if std::mem::take(&mut self.skips) || length > LONGEST {
                    return Line::TooLong;
                }
                return Line::Text(trimmed(&self.buffer[start..start + length]));
            }
            looked = text.len();
            if looked > LONGEST {
                // The content of the line is not needed until its end.
                self.skips = true;
                (self.start, self.last, looked) = (self.end, self.end, 0);
            }
            if self.ended {
                let start = std::mem::replace(&mut self.start, self.end);
                if std::mem::take(&mut self.skips) {
                    return Line::TooLong;
                }
                if start < self.end {
                    return Line::Text(trimmed(&self.buffer[start..self.end]));
                }
                return self.failed.take().map_or(Line::End, Line::Failed);
            }
            self.fill();
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
