//! Reads the lines of a file, plain or gzip, of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use base::input::{FileKind, is_a_folder};
use flate2::bufread::MultiGzDecoder;

/// The longest line, in bytes: 1 MiB. A longer line is not part of a job log, and the limit bounds
/// the memory.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The longest event of a log with an event a line, in bytes.
const EVENT_BYTES_MAX: usize = 8_192;

/// The size of the buffers, in bytes. Larger ones read no faster.
const BUFFER_BYTES: usize = 1 << 16;

pub(super) struct Lines {
    source: Box<dyn BufRead>,
    gzip: bool,
    number: u64,
    bytes: Vec<u8>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(is_a_folder());
        }
        Self::new(BufReader::with_capacity(BUFFER_BYTES, file))
    }

    /// Reads the lines of `file`.
    pub(super) fn new(mut file: impl BufRead + 'static) -> io::Result<Self> {
        let gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let mut source: Box<dyn BufRead> = if gzip {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let start = source.fill_buf().map_err(|error| explained(error, gzip, 0))?;
        if let Some(kind) = FileKind::of(start) {
            return Err(invalid(kind.to_string()));
        }
        Ok(Self { source, gzip, number: 0, bytes: Vec::new() })
    }

    /// Whether the text begins as JSON, with a first line that is too long for an event of a log.
    pub(super) fn begins_document(&mut self) -> io::Result<bool> {
        let start = self.source.fill_buf()?;
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        Ok(matches!(first, Some(b'{' | b'[')) && start.len() > EVENT_BYTES_MAX && {
            !start[..EVENT_BYTES_MAX].contains(&b'\n')
        })
    }

    /// Reads the next line without its line end. Returns false at the end of the file.
    pub(super) fn next(&mut self, line: &mut String) -> io::Result<bool> {
        line.clear();
        self.bytes.clear();
        let read = self.source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.bytes);
        if read.map_err(|error| explained(error, self.gzip, self.number))? == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.bytes.len() as u64 == LINE_BYTES_MAX {
            return Err(invalid(format!(
                "line {} is longer than 1 MiB, so the file is not a job log with a job per line",
                self.number
            )));
        }
        let text = String::from_utf8_lossy(&self.bytes);
        line.push_str(text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}'));
        Ok(true)
    }

    /// The text from the start of the last line on.
    pub(super) fn rest(self) -> impl Read {
        let start = if self.bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        io::Cursor::new(self.bytes[start..].to_vec()).chain(self.source)
    }

    /// The number of the last line read, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Explains an error of the decompression. `lines` is the number of lines read before.
fn explained(error: io::Error, gzip: bool, lines: u64) -> io::Error {
    let problem = match error.kind() {
        _ if !gzip => return error,
        io::ErrorKind::UnexpectedEof => "ends early",
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => "is damaged",
        _ => return error,
    };
    let whence = if lines == 0 { String::new() } else { format!(" after line {lines}") };
    invalid(format!("the gzip stream {problem}{whence}: copy or download the file again"))
}
