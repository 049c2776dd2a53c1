//! Reads a text file of bounded size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::kind::FileKind;

/// The largest text file, in bytes: 16 MiB. A catalog or a settings file has some kilobytes, so a
/// larger file is another one, and the limit bounds the memory.
const BYTES_MAX: u64 = 16 << 20;

/// Reads a text file, without a byte order mark.
///
/// # Errors
/// The file cannot be read, is not UTF-8 text, or is larger than the limit.
pub fn read_text(path: &Path) -> io::Result<String> {
    let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(is_a_folder());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if let Some(kind) = FileKind::of(&bytes) {
        return Err(invalid(kind.to_string()));
    }
    if bytes.len() as u64 > BYTES_MAX {
        return Err(invalid(format!("the file is larger than {} MiB", BYTES_MAX >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        invalid(format!("line {line} is not UTF-8 text: convert the file, for example with iconv"))
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The error of a folder in place of a file.
pub fn is_a_folder() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a folder: give a file in it")
}
