//! The columns of a CSV file with a header, in any order.

use std::borrow::Cow;

use base::input::other_separator;

use super::fields::split;
use super::reader::{TraceFault, field};

/// Reads the names of the columns from the first line of a file, in lower case. `known` are the
/// names in the header of a valid file.
///
/// # Errors
/// The file has no line feeds, or its columns are not separated by commas. The message describes
/// what to change.
pub(super) fn header(first: &str, known: &[&str]) -> Result<Vec<String>, String> {
    if first.contains('\r') {
        return Err("the lines end with carriage returns alone: convert them to line feeds, for example with tr '\\r' '\\n'".into());
    }
    if let Some(name) = other_separator(first, known) {
        return Err(format!("the columns are separated by {name}: separate them with commas"));
    }
    let names = split(first).unwrap_or_else(|_| first.split(',').map(Into::into).collect());
    Ok(names.iter().map(|name| name.to_lowercase()).collect())
}

/// The places of the columns of a format in a file.
pub(super) struct Columns {
    known: &'static [&'static str],
    /// The index in the file of each column of the format.
    places: Vec<Option<usize>>,
    /// The number of columns in the file.
    width: usize,
}

impl Columns {
    /// The places of the columns `known` of a format in a file with this header.
    pub(super) fn new(known: &'static [&'static str], header: &[&str]) -> Self {
        let place = |name: &&str| header.iter().position(|column| column == name);
        Self { known, places: known.iter().map(place).collect(), width: header.len() }
    }

    /// Splits a line into its fields.
    ///
    /// # Errors
    /// As [`split`], or the line has more fields than the header has columns.
    pub(super) fn split<'a>(&self, line: &'a str) -> Result<Vec<Cow<'a, str>>, TraceFault> {
        let fields = split(line)?;
        if fields.len() > self.width {
            let problem = format!("expected {} columns, got {}", self.width, fields.len());
            return Err(TraceFault::new("", problem, ""));
        }
        Ok(fields)
    }

    /// The field of a column, or `None` if the file does not have the column or the field is blank.
    ///
    /// # Errors
    /// The line ends before the column.
    pub(super) fn get<'a>(
        &self,
        fields: &'a [Cow<'_, str>],
        column: &'static str,
    ) -> Result<Option<&'a str>, TraceFault> {
        let place = self.known.iter().position(|name| *name == column);
        let place = place.and_then(|at| self.places[at]);
        let text = place.map(|at| field(fields, at, column)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }
}
