//! The delimited files that are known by name, from `formats.yaml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::fields::split_at;
use super::mapping::{Delimiter, Mapping};

const TEXT: &str = include_str!("formats.yaml");

/// A delimited file that is known by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownFormat {
    pub(super) name: String,
    /// The command or the source that gives the file. It is for readers of the data file.
    #[serde(rename = "source")]
    _source: String,
    /// Names that the header has, or, where `|` separates names, one of them.
    #[serde(default)]
    header: Vec<String>,
    /// The start of the first line, in which `?` stands for any character.
    #[serde(default)]
    begins: String,
    /// The fewest and the most columns of a file without a header.
    width: Option<(usize, usize)>,
    /// What separates these columns.
    delimiter: Option<char>,
    /// The positions of columns with numbers, from 1.
    #[serde(default)]
    numbers: Vec<usize>,
    /// The words that columns may have, by position.
    #[serde(default)]
    words: BTreeMap<usize, Vec<String>>,
    columns: String,
    /// Whether rows with the same job, submission and start are one run, which overlapping exports
    /// list again.
    #[serde(default)]
    pub(super) once: bool,
}

impl KnownFormat {
    /// The format of a file with this first line, if it is a known one.
    pub(super) fn of(first: &str) -> Option<&'static Self> {
        all().iter().find(|known| known.is_of(first))
    }

    /// The mapping of its columns.
    pub(super) fn mapping(&self) -> Mapping {
        // A test parses all of them.
        let mapping: Mapping = self.columns.parse().unwrap_or_default();
        let delimiter = mapping.delimiter.or(self.delimiter.map(Delimiter::Char));
        Mapping { delimiter, ..mapping }
    }

    fn is_of(&self, first: &str) -> bool {
        let Self { header, begins, width, delimiter, numbers, words, .. } = self;
        let matches = |(expected, found): (char, char)| expected == '?' || expected == found;
        if !begins.is_empty() {
            let enough = first.chars().count() >= begins.chars().count();
            return enough && begins.chars().zip(first.chars()).all(matches);
        }
        if !header.is_empty() {
            let names: Vec<&str> = first
                .split(['|', '\t', ';', ',', ' '])
                .map(|name| name.trim().trim_matches('"'))
                .collect();
            let has = |name: &str| names.iter().any(|found| found.eq_ignore_ascii_case(name));
            return header.iter().all(|any| any.split('|').any(has));
        }
        let fields = split_at(first, delimiter.unwrap_or(',')).unwrap_or_default();
        let field = |at: &usize| fields.get(at - 1).map(|field| field.trim());
        width.is_some_and(|(fewest, most)| (fewest..=most).contains(&fields.len()))
            && numbers.iter().all(|at| field(at).is_some_and(|text| text.parse::<f64>().is_ok()))
            && words.iter().all(|(at, words)| {
                field(at).is_some_and(|text| words.iter().any(|word| word == text))
            })
    }
}

fn all() -> &'static [KnownFormat] {
    static ALL: OnceLock<Vec<KnownFormat>> = OnceLock::new();
    ALL.get_or_init(|| base::input::parse(TEXT, "formats.yaml").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_is_valid() {
        let all: Vec<KnownFormat> = base::input::parse(TEXT, "formats.yaml").unwrap();
        for known in all {
            if let Err(fault) = known.columns.parse::<Mapping>() {
                panic!("{}: {fault}", known.name);
            }
        }
    }
}
