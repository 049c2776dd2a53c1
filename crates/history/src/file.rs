//! Appends a line to a file atomically: either the whole line is written or none of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// The outcome of an append.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    /// The line was appended.
    To {
        /// The new length of the file, in bytes.
        bytes: u64,
        /// The line number (from 1) and the length in bytes of a torn last line that was removed
        /// first.
        cut: Option<(u64, u64)>,
    },
    /// The file does not have the expected length, so nothing was written.
    Changed,
}

/// Appends a line and returns once it is on the disk.
///
/// Missing folders and a missing file are created. On failure the file keeps its length. Without an
/// expected length, a last line without a line end is removed first, because such a line was never
/// acknowledged to its writer.
pub(crate) fn grow(path: &Path, expected: Option<u64>, line: &[u8]) -> io::Result<Grown> {
    let mut file = open(path)?;
    // An abandoned append may still be running, so the file is locked. Some network file systems do
    // not support locks.
    file.lock().or_else(|error| {
        if error.kind() == io::ErrorKind::Unsupported { Ok(()) } else { Err(error) }
    })?;
    let length = file.metadata()?.len();
    if expected.is_some_and(|expected| expected != length) {
        return Ok(Grown::Changed);
    }
    let cut = if expected.is_none() { cut_torn(&mut file, length)? } else { None };
    let before = length - cut.map_or(0, |(_, bytes)| bytes);
    if let Err(error) = file.write_all(line).and_then(|()| file.sync_data()) {
        // Truncation needs no space. If it fails nevertheless, the next append removes the torn
        // line.
        let _ = file.set_len(before).and_then(|()| file.sync_data());
        return Err(error);
    }
    Ok(Grown::To { bytes: before + line.len() as u64, cut })
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let Some(day) = path.parent() else { return options.create(true).open(path) };
    std::fs::create_dir_all(day)?;
    let file = options.create(true).open(path)?;
    // The directory entries of the file, its day and its policy must be durable, too.
    for folder in day.ancestors().take(3).filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

/// Removes a last line without a line end, and returns its number (from 1) and its length in bytes.
fn cut_torn(file: &mut File, length: u64) -> io::Result<Option<(u64, u64)>> {
    let (mut lines, mut whole, mut at) = (0, 0, 0);
    let mut chunk = vec![0; 1 << 16];
    file.rewind()?;
    while at < length {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        for byte in &chunk[..read] {
            at += 1;
            if *byte == b'\n' {
                (lines, whole) = (lines + 1, at);
            }
        }
    }
    if whole >= length {
        return Ok(None);
    }
    file.set_len(whole)?;
    file.sync_data()?;
    Ok(Some((lines + 1, length - whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_removed_before_the_next_line_is_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy=p/day=d/ticks");
        assert_eq!(grow(&path, None, b"one\n").unwrap(), Grown::To { bytes: 4, cut: None });
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        assert_eq!(grow(&path, None, b"3\n").unwrap(), Grown::To { bytes: 10, cut: Some((3, 3)) });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n3\n");
        std::fs::write(&path, "torn").unwrap();
        assert_eq!(grow(&path, None, b"1\n").unwrap(), Grown::To { bytes: 2, cut: Some((1, 4)) });
    }

    #[test]
    fn a_file_of_unexpected_length_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        grow(&path, None, b"one\n").unwrap();
        assert_eq!(grow(&path, Some(9), b"two\n").unwrap(), Grown::Changed);
        assert_eq!(grow(&path, Some(4), b"two\n").unwrap(), Grown::To { bytes: 8, cut: None });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }
}
