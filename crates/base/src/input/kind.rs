//! What a file is that is not plain text, by its first bytes.

/// How many bytes of a file suffice to determine its kind: the mark of a tar archive starts at byte
/// 257.
pub(crate) const START_BYTES: usize = 512;

/// A kind of file that is not UTF-8 text. Its text form names the kind and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected text, but this is {name}: {advice}")]
pub struct FileKind {
    name: &'static str,
    advice: &'static str,
}

const UNPACK: &str = "unpack it first";
const EXPORT: &str = "export it as CSV";

/// The kinds by their first bytes.
const BY_START: [(&[u8], &str, &str); 13] = [
    (b"PAR1", "a Parquet file", "export it as CSV (docs/trace-format.md has a query for DuckDB)"),
    (b"ORC", "an ORC file", EXPORT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"ARROW1", "an Arrow file", EXPORT),
    (b"Obj\x01", "an Avro file", EXPORT),
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "unpack it, or export it as CSV"),
    (b"\x1f\x8b", "a gzip file", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd file", UNPACK),
    (b"\xfd7zXZ\0", "an xz file", UNPACK),
    (b"BZh", "a bzip2 file", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (b"%PDF", "a PDF", EXPORT),
    (b"\x7fELF", "a program", "give another file"),
];

const UTF_16: FileKind = FileKind {
    name: "UTF-16 text",
    advice: "convert it, for example with iconv -f UTF-16 -t UTF-8",
};

impl FileKind {
    /// The kind of a file that starts with `start`, or `None` if it may be text.
    pub fn of(start: &[u8]) -> Option<Self> {
        let start = &start[..start.len().min(START_BYTES)];
        if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
            return Some(UTF_16);
        }
        let known = BY_START.iter().find(|(bytes, ..)| start.starts_with(bytes));
        if let Some((_, name, advice)) = known {
            return Some(Self { name, advice });
        }
        if start.get(257..262) == Some(b"ustar") {
            return Some(Self { name: "a tar archive", advice: UNPACK });
        }
        let lower = start.trim_ascii_start().to_ascii_lowercase();
        if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
            return Some(Self { name: "a web page", advice: "download the file itself" });
        }
        // ASCII characters in UTF-16 have a zero byte each, always on the same side.
        let zeros = |side| start.iter().skip(side).step_by(2).filter(|byte| **byte == 0).count();
        let (even, odd) = (zeros(0), zeros(1));
        match even + odd {
            0 => None,
            _ if (even == 0 || odd == 0) && even.max(odd) * 4 > start.len() => Some(UTF_16),
            _ => Some(Self { name: "a binary file", advice: "give another file" }),
        }
    }
}
