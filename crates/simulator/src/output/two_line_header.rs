//! A table beside that of all policies, for a terminal and for a page.

use std::fmt::Write as _;

use report::{TextTable, elements, escape};

/// A table with two header lines.
pub(super) struct TwoLineHeader<const N: usize> {
    /// The title of its section in a page.
    pub(super) title: &'static str,
    /// The definitions of the columns.
    pub(super) note: &'static str,
    /// The header of the names.
    pub(super) names: &'static str,
    /// The two header lines of the columns.
    pub(super) heads: [[&'static str; N]; 2],
    /// The name of each row, and its cells.
    pub(super) rows: Vec<(String, Vec<String>)>,
}

impl<const N: usize> TwoLineHeader<N> {
    /// Appends the table for a terminal.
    pub(super) fn write(&self, text: &mut String) {
        TextTable::new(self.heads, &self.rows).write(text, &self.rows);
        text.push('\n');
    }

    /// Returns the table for a page.
    pub(super) fn html(&self) -> String {
        let heads = self.heads[0].iter().zip(self.heads[1]);
        let heads = heads.map(|(first, second)| format!("{first}<br>{second}"));
        let names = self.names;
        let mut table = format!(
            "<div class=\"wide\"><table><thead><tr><th>{names}</th>{}</tr></thead><tbody>",
            elements("th", heads)
        );
        for (name, cells) in &self.rows {
            let _ = write!(table, "<tr><th>{}</th>{}</tr>", escape(name), elements("td", cells));
        }
        table + "</tbody></table></div>"
    }
}

/// Formats a value; `-` when it is not finite.
pub(super) fn cell(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "-".into() }
}
