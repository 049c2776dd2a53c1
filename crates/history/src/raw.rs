//! Splits bytes into lines and holds one line at a time.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

/// The longest line, in bytes: 4 MiB, four times the size of ten thousand shapes of a hundred
/// bytes.
pub(crate) const LINE_BYTES_MAX: usize = 4 << 20;

/// The text between two line ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RawLine {
    /// A line, without its line end.
    Whole(Vec<u8>),
    /// A line longer than [`LINE_BYTES_MAX`], whose text was not held.
    TooLong,
    /// The last line, without a line end.
    Torn { bytes: u64 },
}

/// The lines of one object.
pub(crate) struct RawLines {
    chunks: BoxStream<'static, object_store::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// The offset in the chunk at which the next line begins.
    at: usize,
    held: Vec<u8>,
    /// The length of the current line so far, in bytes, held or not.
    length: usize,
    /// The number of the line that was last returned, from 1.
    number: u64,
}

impl RawLines {
    pub(crate) async fn open(store: &dyn ObjectStore, path: &Path) -> object_store::Result<Self> {
        let chunks = store.get(path).await?.into_stream();
        Ok(Self::new(chunks.map(|chunk| chunk.map(Vec::from)).boxed()))
    }

    fn new(chunks: BoxStream<'static, object_store::Result<Vec<u8>>>) -> Self {
        Self { chunks, chunk: Vec::new(), at: 0, held: Vec::new(), length: 0, number: 0 }
    }

    /// The next line and its number.
    pub(crate) async fn next(&mut self) -> object_store::Result<Option<(u64, RawLine)>> {
        loop {
            let rest = &self.chunk[self.at..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let part = &rest[..end.unwrap_or(rest.len())];
            self.length = self.length.saturating_add(part.len());
            if self.length <= LINE_BYTES_MAX {
                self.held.extend_from_slice(part);
            } else {
                self.held = Vec::new();
            }
            if let Some(end) = end {
                self.at += end + 1;
                return Ok(Some(self.line()));
            }
            match self.chunks.next().await.transpose()? {
                Some(chunk) => (self.chunk, self.at) = (chunk, 0),
                None if self.length == 0 => return Ok(None),
                None => {
                    (self.chunk, self.at) = (Vec::new(), 0);
                    let bytes = self.length as u64;
                    let (number, _) = self.line();
                    return Ok(Some((number, RawLine::Torn { bytes })));
                }
            }
        }
    }

    fn line(&mut self) -> (u64, RawLine) {
        self.number += 1;
        let held = std::mem::take(&mut self.held);
        let too_long = std::mem::take(&mut self.length) > LINE_BYTES_MAX;
        (self.number, if too_long { RawLine::TooLong } else { RawLine::Whole(held) })
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    async fn lines(chunks: Vec<Vec<u8>>) -> Vec<(u64, RawLine)> {
        let mut raw = RawLines::new(stream::iter(chunks).map(Ok).boxed());
        let mut lines = Vec::new();
        while let Some(line) = raw.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_the_chunks() {
        let text = b"one\n\nthree\nfo";
        let expected = vec![
            (1, RawLine::Whole(b"one".into())),
            (2, RawLine::Whole(vec![])),
            (3, RawLine::Whole(b"three".into())),
            (4, RawLine::Torn { bytes: 2 }),
        ];
        for size in 1..=text.len() {
            assert_eq!(
                lines(text.chunks(size).map(Vec::from).collect()).await,
                expected,
                "chunks of {size}"
            );
        }
        assert_eq!(lines(vec![]).await, []);
    }

    #[tokio::test]
    async fn a_line_above_the_limit_is_not_held() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        let chunks = vec![
            long.clone(),
            b"\n".into(),
            long.clone(),
            b"x\nafter\n".into(),
            long.clone(),
            long,
        ];
        let found = lines(chunks).await;
        assert!(matches!(&found[0], (1, RawLine::Whole(line)) if line.len() == LINE_BYTES_MAX));
        assert_eq!(found[1..3], [(2, RawLine::TooLong), (3, RawLine::Whole(b"after".into()))]);
        assert_eq!(found[3], (4, RawLine::Torn { bytes: 2 * LINE_BYTES_MAX as u64 }));
    }
}
