//! Tables and notes for a terminal.

use std::fmt::Write as _;

/// The width that tables and notes keep, in characters. It is the same on a terminal and in a pipe,
/// so that the output of a command does not depend on where it goes.
const WIDTH: usize = 100;

/// The layout of tables whose rows have a name and a cell in each column.
pub struct TextTable<const N: usize> {
    /// The two header lines.
    heads: [[&'static str; N]; 2],
    /// The columns that are shown, ascending.
    shown: Vec<usize>,
    /// The width of each column.
    widths: [usize; N],
    /// The width of the names.
    name_width: usize,
}

impl<const N: usize> TextTable<N> {
    /// Returns a layout that all these rows fit, with all columns.
    pub fn new(heads: [[&'static str; N]; 2], rows: &[(String, Vec<String>)]) -> Self {
        let width = |column: usize| {
            let cells = rows.iter().map(|(_, cells)| cells[column].chars().count());
            cells.chain(heads.map(|head| head[column].len())).max().unwrap_or(0)
        };
        let names = rows.iter().map(|(name, _)| name.chars().count());
        Self {
            heads,
            shown: (0..N).collect(),
            widths: std::array::from_fn(width),
            name_width: names.max().unwrap_or(0),
        }
    }

    /// Leaves out the columns that exceed [`WIDTH`]. `order` has all columns, the most important
    /// first.
    #[must_use]
    pub fn narrow(mut self, order: [usize; N]) -> Self {
        let mut total = self.name_width;
        let fits = order.into_iter().take_while(|&column| {
            total += 2 + self.widths[column];
            total <= WIDTH
        });
        self.shown = fits.collect();
        self.shown.sort_unstable();
        self
    }

    /// Appends the header lines and these rows.
    pub fn write(&self, text: &mut String, rows: &[(String, Vec<String>)]) {
        for head in &self.heads {
            self.line(text, "", |column| head[column]);
        }
        for (name, cells) in rows {
            self.line(text, name, |column| &cells[column]);
        }
    }

    fn line<'a>(&self, text: &mut String, name: &str, cell: impl Fn(usize) -> &'a str) {
        let _ = write!(text, "{name:width$}", width = self.name_width);
        for &column in &self.shown {
            let _ = write!(text, "  {:>width$}", cell(column), width = self.widths[column]);
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }

    /// Returns a note on the columns that are not shown. `None` if all are.
    pub fn left_out(&self) -> Option<String> {
        let hidden = (0..N).filter(|column| !self.shown.contains(column));
        let [upper, lower] = &self.heads;
        let names: Vec<String> = hidden
            .map(|column| format!("{} {}", upper[column], lower[column]).trim().to_owned())
            .collect();
        (!names.is_empty()).then(|| format!("Columns that --wide adds: {}.", names.join(", ")))
    }
}

/// Appends a note as lines of at most [`WIDTH`] characters. A longer word has a line of its own.
pub fn write_note(text: &mut String, note: &str) {
    let mut length = 0;
    for word in note.split_whitespace() {
        let added = word.chars().count();
        if length > 0 && length + 1 + added > WIDTH {
            text.push('\n');
            length = 0;
        }
        if length > 0 {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += added;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(name: &str) -> Vec<(String, Vec<String>)> {
        vec![(name.into(), vec!["1.5±0.1".into(), "2".into(), "3".into()])]
    }

    #[track_caller]
    fn check(name: &str, narrow: bool, expected: &str, left_out: Option<&str>) {
        let rows = rows(name);
        let table = TextTable::new([["mean", "", "nodes'"], ["min", "mse", "dollars"]], &rows);
        let table = if narrow { table.narrow([2, 0, 1]) } else { table };
        let mut text = String::new();
        table.write(&mut text, &rows);
        assert_eq!((text.as_str(), table.left_out().as_deref()), (expected, left_out));
    }

    #[test]
    fn a_narrow_table_leaves_out_the_least_important_columns() {
        let all = "           mean        nodes'
            min  mse  dollars
ladder  1.5±0.1    2        3
";
        check("ladder", false, all, None);
        check("ladder", true, all, None);
        let name = "x".repeat(85);
        let (blank, note) = (" ".repeat(85), "Columns that --wide adds: mean min, mse.");
        let last = format!("{blank}   nodes'\n{blank}  dollars\n{name}        3\n");
        check(&name, true, &last, Some(note));
    }

    #[test]
    fn notes_wrap_between_words() {
        let (long, word) = ("x".repeat(99), "y".repeat(120));
        let mut text = String::new();
        write_note(&mut text, &format!("a {long} b {word} c"));
        assert_eq!(text, format!("a\n{long}\nb\n{word}\nc\n"));
    }
}
