//! Converts lines to rows of a Parquet file, and back.
//!
//! A row is one time, policy and bucket. The columns have the names of the fields of a line.
//! Shapes, launches, pods that ended, buckets on offer and unknown fields are columns of JSON text.
//! The first row of a line holds the fields that belong to the whole line (`launches`, `finished`,
//! `offered`, `used`, `rollout_percent`, `kept`, `runs`, `line_rest`). A line without buckets is
//! one row without a bucket.

use std::collections::VecDeque;
use std::io::Write;

use chrono::DateTime;
use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fault::HistoryError;
use super::line::{BucketLine, Line, VERSION};
use super::parquet_columns::{bytes, caught, has_column, read, texts, write, writer};

/// The columns. Counts are signed, because Spark and Athena have no unsigned integers.
const SCHEMA: &str = "
    message tick {
        required int64 time (TIMESTAMP(MICROS, true));
        required binary policy (STRING);
        optional binary bucket (STRING);
        optional int64 demand;
        optional int64 demand_max;
        optional int64 announced;
        optional int64 headroom;
        optional int64 placeholders;
        optional int64 ready;
        optional int64 pods_hidden;
        optional int64 pods_waited;
        optional int64 planned;
        optional int64 notice;
        optional int64 prepaid;
        optional binary room (STRING);
        optional binary arrivals (STRING);
        optional binary launches (STRING);
        optional binary rest (STRING);
        optional binary line_rest (STRING);
        optional binary finished (STRING);
        optional binary offered (STRING);
        optional binary gangs (STRING);
        optional binary tiers (STRING);
        optional binary used (STRING);
        optional binary rollout_percent (STRING);
        optional binary namespaces (STRING);
        optional binary kept (STRING);
        optional binary runs (STRING);
    }";

/// The counts, in the order of the columns.
const COUNTS: [&str; BucketLine::COUNTS.len()] = BucketLine::COUNTS;

/// The number of the first [`COUNTS`] that every file has. Files of earlier builds lack the others,
/// which are then 0.
const COUNTS_MIN: usize = 6;

/// The JSON texts, in the order of the columns.
const TEXTS: [&str; 14] = [
    "room",
    "arrivals",
    "launches",
    "rest",
    "line_rest",
    "finished",
    "offered",
    "gangs",
    "tiers",
    "used",
    "rollout_percent",
    "namespaces",
    "kept",
    "runs",
];

/// The number of the first [`TEXTS`] that every file has. Files of earlier builds lack the others,
/// which are then empty.
const TEXTS_MIN: usize = 5;

/// The key of the file's metadata that holds the version of the format.
const VERSION_KEY: &str = "prophet.version";

/// The rows and the bytes of text after which a row group ends. A reader holds one row group in
/// memory, so these limits bound its memory.
const GROUP_ROWS: usize = 50_000;
const GROUP_BYTES: usize = 16 << 20;

/// One row of a Parquet file: the record of one bucket at one tick, or of a tick without buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Unix time in microseconds.
    time: i64,
    policy: String,
    bucket: Option<String>,
    /// In the order of [`COUNTS`].
    counts: [Option<i64>; COUNTS.len()],
    /// In the order of [`TEXTS`].
    texts: [Option<String>; TEXTS.len()],
}

impl Row {
    /// The time of the row, as Unix time in microseconds.
    pub(crate) fn time_micros(&self) -> i64 {
        self.time
    }
}

/// The rows of a line.
pub(crate) fn rows(line: &Line) -> serde_json::Result<Vec<Row>> {
    let empty = Row {
        time: line.time.timestamp_micros(),
        policy: line.policy.clone(),
        bucket: None,
        counts: [None; COUNTS.len()],
        texts: [const { None }; TEXTS.len()],
    };
    let mut rows = Vec::with_capacity(line.buckets.len().max(1));
    for (name, bucket) in &line.buckets {
        let BucketLine { room, arrivals, gangs, tiers, namespaces, rest, .. } = bucket;
        rows.push(Row {
            bucket: Some(name.clone()),
            counts: bucket.counts().map(|count| i64::try_from(count).ok()),
            texts: [
                text(room, room.is_empty())?,
                text(arrivals, arrivals.is_empty())?,
                None,
                text(rest, rest.is_empty())?,
                None,
                None,
                None,
                text(gangs, gangs.is_empty())?,
                text(tiers, tiers.is_empty())?,
                None,
                None,
                text(namespaces, namespaces.is_empty())?,
                None,
                None,
            ],
            ..empty.clone()
        });
    }
    if rows.is_empty() {
        rows.push(empty);
    }
    rows[0].texts[2] = text(&line.launches, line.launches.is_empty())?;
    rows[0].texts[4] = text(&line.rest, line.rest.is_empty())?;
    rows[0].texts[5] = text(&line.finished, line.finished.is_empty())?;
    rows[0].texts[6] = text(&line.offered, line.offered.is_none())?;
    rows[0].texts[9] = text(&line.used, line.used.is_empty())?;
    rows[0].texts[10] = text(&line.rollout_percent, line.rollout_percent.is_none())?;
    rows[0].texts[12] = text(&line.kept, line.kept.is_empty())?;
    rows[0].texts[13] = text(&line.runs, line.runs.is_empty())?;
    Ok(rows)
}

fn text(value: &impl Serialize, empty: bool) -> serde_json::Result<Option<String>> {
    if empty { Ok(None) } else { serde_json::to_string(value).map(Some) }
}

/// The line that some rows make, or a message if they do not make one.
fn line(rows: Vec<Row>) -> Result<Line, String> {
    let first = rows.first().ok_or("no rows")?;
    let time = DateTime::from_timestamp_micros(first.time)
        .ok_or_else(|| format!("time out of range: {}", first.time))?;
    let mut line = Line {
        v: VERSION,
        time,
        policy: first.policy.clone(),
        buckets: std::collections::BTreeMap::new(),
        launches: json(first, 2)?,
        used: json(first, 9)?,
        rollout_percent: json(first, 10)?,
        kept: json(first, 12)?,
        runs: json(first, 13)?,
        finished: json(first, 5)?,
        offered: json(first, 6)?,
        rest: json(first, 4)?,
    };
    for row in rows {
        let Some(name) = row.bucket.clone() else { continue };
        let mut counts = [0; COUNTS.len()];
        for (at, count) in counts.iter_mut().enumerate() {
            let absent = (at >= COUNTS_MIN).then_some(0);
            let found = row.counts[at].or(absent).and_then(|found| u64::try_from(found).ok());
            *count = found.ok_or_else(|| {
                format!("bucket {name} at {time}: column {}: expected a count", COUNTS[at])
            })?;
        }
        let (room, arrivals, rest) = (json(&row, 0)?, json(&row, 1)?, json(&row, 3)?);
        let (gangs, tiers, namespaces) = (json(&row, 7)?, json(&row, 8)?, json(&row, 11)?);
        let counts = BucketLine::of_counts(counts);
        let bucket = BucketLine { room, arrivals, gangs, tiers, namespaces, rest, ..counts };
        line.buckets.insert(name, bucket);
    }
    Ok(line)
}

fn json<T: Default + DeserializeOwned>(row: &Row, at: usize) -> Result<T, String> {
    let Some(text) = &row.texts[at] else { return Ok(T::default()) };
    serde_json::from_str(text).map_err(|error| format!("column {}: {error}", TEXTS[at]))
}

/// Writes lines as rows.
pub(crate) struct RowWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: Vec<Row>,
    bytes: usize,
}

impl<W: Write + Send> RowWriter<W> {
    pub(crate) fn new(to: W) -> ParquetResult<Self> {
        let version = KeyValue::new(VERSION_KEY.into(), VERSION.to_string());
        let writer = writer(to, SCHEMA, vec![version])?;
        Ok(Self { writer, rows: Vec::new(), bytes: 0 })
    }

    pub(crate) fn push(&mut self, line: &Line) -> ParquetResult<()> {
        let rows = rows(line).map_err(|error| ParquetError::External(error.into()))?;
        self.bytes +=
            rows.iter().flat_map(|row| row.texts.iter().flatten()).map(String::len).sum::<usize>();
        self.rows.extend(rows);
        if self.rows.len() >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the remaining rows and returns the writer.
    pub(crate) fn finish(mut self) -> ParquetResult<W> {
        self.flush()?;
        self.writer.into_inner()
    }

    fn flush(&mut self) -> ParquetResult<()> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        write::<Int64Type, _>(&mut group, rows.iter().map(|row| Some(row.time)), false)?;
        write::<ByteArrayType, _>(
            &mut group,
            rows.iter().map(|row| Some(bytes(&row.policy))),
            false,
        )?;
        write::<ByteArrayType, _>(
            &mut group,
            rows.iter().map(|row| row.bucket.as_deref().map(bytes)),
            true,
        )?;
        for at in 0..COUNTS.len() {
            write::<Int64Type, _>(&mut group, rows.iter().map(|row| row.counts[at]), true)?;
        }
        for at in 0..TEXTS.len() {
            write::<ByteArrayType, _>(
                &mut group,
                rows.iter().map(|row| row.texts[at].as_deref().map(bytes)),
                true,
            )?;
        }
        group.close()?;
        Ok(())
    }
}

/// Reads rows as lines.
pub(crate) struct RowReader {
    file: Box<dyn FileReader>,
    name: String,
    /// The index of the next row group.
    group: usize,
    rows: VecDeque<Row>,
}

impl RowReader {
    pub(crate) fn new(
        from: impl ChunkReader + 'static,
        name: String,
    ) -> Result<Self, HistoryError> {
        let opened = caught(|| SerializedFileReader::new(from));
        let file = opened.map_err(|source| parquet_fault(&name, source))?;
        let pairs = file.metadata().file_metadata().key_value_metadata();
        let version = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == VERSION_KEY));
        match version.and_then(|pair| pair.value.as_deref()?.parse::<u32>().ok()) {
            Some(VERSION) => {
                Ok(Self { file: Box::new(file), name, group: 0, rows: VecDeque::new() })
            }
            Some(other) => Err(HistoryError::Columns {
                file: name,
                fault: format!("{VERSION_KEY} is {other}, and this build reads {VERSION}"),
            }),
            None => {
                Err(HistoryError::Columns { file: name, fault: format!("has no {VERSION_KEY}") })
            }
        }
    }

    /// The next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, HistoryError> {
        let rows = self.next_rows()?;
        if rows.is_empty() {
            return Ok(None);
        }
        line(rows)
            .map(Some)
            .map_err(|fault| HistoryError::Columns { file: self.name.clone(), fault })
    }

    /// The rows of the next line, empty at the end.
    pub(crate) fn next_rows(&mut self) -> Result<Vec<Row>, HistoryError> {
        let mut rows: Vec<Row> = Vec::new();
        while let Some(row) = self.peek()? {
            if rows
                .first()
                .is_some_and(|first| (first.time, &first.policy) != (row.time, &row.policy))
            {
                break;
            }
            rows.extend(self.rows.pop_front());
        }
        Ok(rows)
    }

    fn peek(&mut self) -> Result<Option<&Row>, HistoryError> {
        while self.rows.is_empty() && self.group < self.file.num_row_groups() {
            let rows = caught(|| read_group(&*self.file.get_row_group(self.group)?));
            self.rows = rows.map_err(|source| parquet_fault(&self.name, source))?;
            self.group += 1;
        }
        Ok(self.rows.front())
    }
}

fn parquet_fault(name: &str, source: ParquetError) -> HistoryError {
    HistoryError::Parquet { act: "failed to read", file: name.into(), source }
}

fn read_group(group: &dyn RowGroupReader) -> ParquetResult<VecDeque<Row>> {
    let times = read::<Int64Type>(group, "time")?;
    let policies = texts(group, "policy")?;
    let buckets = texts(group, "bucket")?;
    let mut counts = Vec::new();
    for (at, name) in COUNTS.into_iter().enumerate() {
        let is_absent = at >= COUNTS_MIN && !has_column(group, name);
        let column =
            if is_absent { vec![None; times.len()] } else { read::<Int64Type>(group, name)? };
        counts.push(column.into_iter());
    }
    let mut columns = Vec::new();
    for (at, name) in TEXTS.into_iter().enumerate() {
        let is_absent = at >= TEXTS_MIN && !has_column(group, name);
        let column = if is_absent { vec![None; times.len()] } else { texts(group, name)? };
        columns.push(column.into_iter());
    }
    let missing = || ParquetError::General("a row without time or policy".into());
    let mut rows = VecDeque::with_capacity(times.len());
    for ((time, policy), bucket) in times.into_iter().zip(policies).zip(buckets) {
        rows.push_back(Row {
            time: time.ok_or_else(missing)?,
            policy: policy.ok_or_else(missing)?,
            bucket,
            counts: std::array::from_fn(|at| counts[at].next().flatten()),
            texts: std::array::from_fn(|at| columns[at].next().flatten()),
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::file::properties::WriterProperties;
    use parquet::schema::parser::parse_message_type;
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{at, line as line_of, lines};

    fn written(lines: &[Line]) -> Vec<u8> {
        let mut writer = RowWriter::new(Vec::new()).unwrap();
        for line in lines {
            writer.push(line).unwrap();
        }
        writer.finish().unwrap()
    }

    fn reader(bytes: &[u8]) -> Result<RowReader, HistoryError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        RowReader::new(file, "a.parquet".into())
    }

    proptest! {
        #[test]
        fn lines_survive_the_conversion_to_rows_and_back(lines in lines(0..9)) {
            let mut reader = reader(&written(&lines)).unwrap();
            let mut back = Vec::new();
            while let Some(line) = reader.next().unwrap() {
                back.push(line);
            }
            prop_assert_eq!(back, lines);
        }
    }

    #[test]
    fn columns_that_earlier_builds_did_not_write_are_zero_or_empty() {
        let added = [&COUNTS[COUNTS_MIN..], &TEXTS[TEXTS_MIN..]].concat();
        let is_added = |line: &&str| added.iter().any(|name| line.contains(name));
        let schema: Vec<&str> = SCHEMA.lines().filter(|line| !is_added(line)).collect();
        let schema = Arc::new(parse_message_type(&schema.join("\n")).unwrap());
        let version = KeyValue::new(VERSION_KEY.into(), VERSION.to_string());
        let properties =
            WriterProperties::builder().set_key_value_metadata(Some(vec![version])).build();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
        let row = rows(&line_of(at(0, 1), 4)).unwrap().remove(0);
        let mut group = writer.next_row_group().unwrap();
        let once = |text: &str| std::iter::once(Some(bytes(text)));
        write::<Int64Type, _>(&mut group, std::iter::once(Some(row.time)), false).unwrap();
        write::<ByteArrayType, _>(&mut group, once(&row.policy), false).unwrap();
        write::<ByteArrayType, _>(&mut group, once("m5.large"), true).unwrap();
        for count in &row.counts[..COUNTS_MIN] {
            write::<Int64Type, _>(&mut group, std::iter::once(*count), true).unwrap();
        }
        for text in &row.texts[..TEXTS_MIN] {
            let text = text.as_deref().map(bytes);
            write::<ByteArrayType, _>(&mut group, std::iter::once(text), true).unwrap();
        }
        group.close().unwrap();
        let line = reader(&writer.into_inner().unwrap()).unwrap().next().unwrap().unwrap();
        let bucket = &line.buckets["m5.large"];
        assert_eq!((bucket.demand, bucket.pods_hidden, bucket.pods_waited), (4, 0, 0));
        assert_eq!((line.finished, line.offered), (vec![], None));
    }

    #[test]
    fn a_file_of_another_format_is_refused_by_name() {
        let error = reader(b"this is not a Parquet file").err().unwrap();
        assert!(error.to_string().starts_with("a.parquet: failed to read"), "{error}");
        let schema = Arc::new(parse_message_type("message m { required int64 time; }").unwrap());
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        let error = reader(&writer.into_inner().unwrap()).err().unwrap();
        assert_eq!(error.to_string(), "a.parquet: has no prophet.version");
    }
}
