//! The columns of a Parquet file, as vectors of values.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A writer of a compressed file with this schema, which names the columns in the syntax of a
/// message type, and these pairs of keys and values.
///
/// # Errors
/// The schema is malformed, or the file cannot be written.
pub fn writer<W: Write + Send>(
    to: W,
    schema: &str,
    pairs: Vec<KeyValue>,
) -> ParquetResult<SerializedFileWriter<W>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(pairs))
        .build();
    let schema = Arc::new(parse_message_type(schema)?);
    SerializedFileWriter::new(to, schema, Arc::new(properties))
}

/// A text as a value.
pub fn bytes(text: &str) -> ByteArray {
    text.into()
}

/// Writes the next column of a row group.
///
/// # Errors
/// The schema has no further column, or one of another type, or the file cannot be written.
pub fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
    optional: bool,
) -> ParquetResult<()> {
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let column = group.next_column()?;
    let mut column =
        column.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
    column.typed::<T>().write_batch(&present, optional.then_some(&levels), None)?;
    column.close()
}

/// The result of reading a Parquet file. The library panics on some damaged files, such as one with
/// a negative offset.
///
/// # Errors
/// Those of `read`, and one after a panic.
pub fn caught<T>(read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    result.unwrap_or_else(|_| Err(ParquetError::General("its content is inconsistent".into())))
}

/// Whether a row group has this column.
pub(crate) fn has_column(group: &dyn RowGroupReader, name: &str) -> bool {
    let columns = group.metadata().schema_descr().columns();
    columns.iter().any(|column| column.path().string() == name)
}

/// All values of a column of texts.
///
/// # Errors
/// As [`read`], or a value is no text.
pub fn texts(group: &dyn RowGroupReader, name: &str) -> ParquetResult<Vec<Option<String>>> {
    let text = |bytes: ByteArray| bytes.as_utf8().map(str::to_owned);
    read::<ByteArrayType>(group, name)?
        .into_iter()
        .map(|value| value.map(text).transpose())
        .collect()
}

/// All values of a column, `None` where a row has none.
///
/// # Errors
/// There is no such column, it has another type, or it is damaged.
pub fn read<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> ParquetResult<Vec<Option<T::T>>> {
    let described = group.metadata().schema_descr();
    let at = described.columns().iter().position(|column| column.path().string() == name);
    let at = at.ok_or_else(|| ParquetError::General(format!("no column {name}")))?;
    let column = described.column(at);
    if column.physical_type() != T::get_physical_type() {
        return Err(ParquetError::General(format!("column {name} is {}", column.physical_type())));
    }
    let total = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let (mut present, mut levels, mut records) = (Vec::new(), Vec::new(), 0);
    while records < total {
        let (read, _, _) =
            reader.read_records(total - records, Some(&mut levels), None, &mut present)?;
        if read == 0 {
            return Err(ParquetError::General(format!(
                "column {name} ends after {records} of {total} rows"
            )));
        }
        records += read;
    }
    if column.max_def_level() == 0 {
        return Ok(present.into_iter().map(Some).collect());
    }
    let mut present = present.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { present.next() } else { None }).collect())
}
