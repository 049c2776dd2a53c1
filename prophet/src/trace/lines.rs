//! Reads the lines of a file, plain or gzip, of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// The longest line, in bytes: 1 MiB. A longer line is not part of a job log, and the limit bounds
/// the memory.
const LINE_BYTES_MAX: u64 = 1 << 20;

pub(super) struct Lines {
    source: Box<dyn BufRead>,
    number: u64,
    bytes: Vec<u8>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let source: Box<dyn BufRead> = if gzip {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self { source, number: 0, bytes: Vec::new() })
    }

    /// Reads the next line without its line end. Returns false at the end of the file.
    pub(super) fn next(&mut self, line: &mut String) -> io::Result<bool> {
        line.clear();
        self.bytes.clear();
        if self.source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.bytes.len() as u64 == LINE_BYTES_MAX {
            let problem = format!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let text = String::from_utf8_lossy(&self.bytes);
        line.push_str(text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}'));
        Ok(true)
    }

    /// The number of the last line read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}
