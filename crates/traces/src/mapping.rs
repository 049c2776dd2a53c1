//! Mappings of the columns of a delimited file to the parts of a job, as the option `--columns` and
//! the known formats give them.
//!
//! ```text
//! submit=Submit,runtime=ElapsedRaw,pods=NNodes,cpu=NCPUS:cores,memory=ReqMem:MiB,user=User
//! ```
//!
//! A part may name several columns, separated by `|`: the first of them that has a value in the row
//! counts. A number is the position of a column, from 1.

use std::fmt;
use std::str::FromStr;

/// A part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Job,
    User,
    Submit,
    Start,
    End,
    Runtime,
    Pods,
    Cpu,
    Memory,
    Gpus,
}

impl Part {
    const ALL: [(&str, Self); 10] = [
        ("job", Self::Job),
        ("user", Self::User),
        ("submit", Self::Submit),
        ("start", Self::Start),
        ("end", Self::End),
        ("runtime", Self::Runtime),
        ("pods", Self::Pods),
        ("cpu", Self::Cpu),
        ("memory", Self::Memory),
        ("gpus", Self::Gpus),
    ];
}

/// How the value of a column is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// A number, of which one is this many thousandths of a core, bytes, GPUs or seconds.
    Of(f64),
    /// Slurm's trackable resources, such as `cpu=8,mem=32G,gres/gpu=2`.
    Tres,
    /// A list of nodes as Torque writes it, such as `2:ppn=8:gpus=1+1:ppn=4`.
    Nodes,
    /// A time whose unit is to be found.
    Found,
}

/// The units of each part. The first is the default.
fn units(part: Part) -> &'static [(&'static str, Unit)] {
    const KIB: f64 = 1_024.0;
    match part {
        Part::Cpu => &[
            ("cores", Unit::Of(1e3)),
            ("millicores", Unit::Of(1.0)),
            ("percent", Unit::Of(10.0)),
            ("tres", Unit::Tres),
            ("nodes", Unit::Nodes),
        ],
        Part::Memory => &[
            ("B", Unit::Of(1.0)),
            ("KB", Unit::Of(1e3)),
            ("MB", Unit::Of(1e6)),
            ("GB", Unit::Of(1e9)),
            ("TB", Unit::Of(1e12)),
            ("KiB", Unit::Of(KIB)),
            ("MiB", Unit::Of(KIB * KIB)),
            ("GiB", Unit::Of(KIB * KIB * KIB)),
            ("TiB", Unit::Of(KIB * KIB * KIB * KIB)),
            ("tres", Unit::Tres),
        ],
        Part::Gpus => &[
            ("gpus", Unit::Of(1.0)),
            ("percent", Unit::Of(0.01)),
            ("thousandths", Unit::Of(1e-3)),
            ("tres", Unit::Tres),
            ("nodes", Unit::Nodes),
        ],
        Part::Pods => &[("pods", Unit::Of(1.0)), ("tres", Unit::Tres), ("nodes", Unit::Nodes)],
        Part::Runtime => &[
            ("s", Unit::Of(1.0)),
            ("ms", Unit::Of(1e-3)),
            ("us", Unit::Of(1e-6)),
            ("min", Unit::Of(60.0)),
            ("h", Unit::Of(3_600.0)),
        ],
        Part::Submit | Part::Start | Part::End => &[
            ("found", Unit::Found),
            ("s", Unit::Of(1.0)),
            ("ms", Unit::Of(1e-3)),
            ("us", Unit::Of(1e-6)),
            ("ns", Unit::Of(1e-9)),
        ],
        Part::Job | Part::User => &[],
    }
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// The name in the header, or the position from 1.
    pub(super) name: String,
    pub(super) unit: Unit,
    /// Whether the value is that of each pod. Otherwise it is that of the job.
    pub(super) per_pod: bool,
}

/// What separates the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delimiter {
    /// A character. Fields in double quotes may contain it.
    Char(char),
    /// Spaces and tabs, one or more.
    Spaces,
    /// Nothing: the columns are `KEY=VALUE` between spaces and semicolons, as in the accounting of
    /// PBS.
    Keys,
}

impl Delimiter {
    const NAMED: [(&str, Self); 7] = [
        ("comma", Self::Char(',')),
        ("tab", Self::Char('\t')),
        ("pipe", Self::Char('|')),
        ("colon", Self::Char(':')),
        ("semicolon", Self::Char(';')),
        ("space", Self::Spaces),
        ("keys", Self::Keys),
    ];
}

/// A mapping of the columns of a delimited file to the parts of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    /// The columns of each part, the first that has a value counts.
    pub(super) parts: Vec<(Part, Vec<Column>)>,
    /// `None` if it is to be found.
    pub(super) delimiter: Option<Delimiter>,
    /// Rows that are no job: a column, and a pattern in which `*` stands for any characters.
    pub(super) skip: Vec<(String, String)>,
    /// Rows of jobs that had not ended, likewise.
    pub(super) running: Vec<(String, String)>,
}

/// Why a text is no mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MappingFault(String);

impl Mapping {
    /// The columns of a part.
    pub(super) fn columns(&self, part: Part) -> &[Column] {
        let found = self.parts.iter().find(|(of, _)| *of == part);
        found.map_or(&[], |(_, columns)| columns)
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let of_parts = self.parts.iter().flat_map(|(_, columns)| columns).map(|one| &one.name);
        of_parts.chain(self.conditions().map(|(column, _)| column)).map(String::as_str)
    }

    /// The columns by whose values rows are left out, with the patterns.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &(String, String)> {
        self.skip.iter().chain(&self.running)
    }

    /// The part without which there are no jobs, if it is missing.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        let lacks = |part: Part| self.columns(part).is_empty();
        if lacks(Part::Submit) {
            Some("submit is missing, the time at which a job arrived")
        } else if lacks(Part::Runtime) && (lacks(Part::Start) || lacks(Part::End)) {
            Some("runtime is missing, or start and end")
        } else if [Part::Cpu, Part::Memory, Part::Gpus].into_iter().all(lacks) {
            Some("the size of a job is missing: cpu, memory or gpus")
        } else {
            None
        }
    }

    /// Whether all columns are positions, so that the file has no header.
    pub(super) fn has_no_header(&self) -> bool {
        self.names().all(|name| name.parse::<usize>().is_ok())
    }
}

impl FromStr for Mapping {
    type Err = MappingFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = |problem: String| Err(MappingFault(problem));
        let mut mapping = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((key, value)) = entry.split_once('=').filter(|(_, value)| !value.is_empty())
            else {
                return fault(format!("{entry:?} is not PART=COLUMN, such as submit=Submit"));
            };
            match key {
                "delimiter" => {
                    let found = Delimiter::NAMED.iter().find(|(name, _)| *name == value);
                    let Some((_, delimiter)) = found else {
                        let names = Delimiter::NAMED.map(|(name, _)| name).join(", ");
                        return fault(format!("delimiter {value:?} is none of {names}"));
                    };
                    mapping.delimiter = Some(*delimiter);
                }
                "skip" | "running" => {
                    let Some((column, pattern)) = value.split_once(':') else {
                        return fault(format!("{entry:?} is not {key}=COLUMN:PATTERN"));
                    };
                    let rows = if key == "skip" { &mut mapping.skip } else { &mut mapping.running };
                    rows.push((column.to_owned(), pattern.to_owned()));
                }
                _ => {
                    let Some((_, part)) = Part::ALL.iter().find(|(name, _)| *name == key) else {
                        let names = Part::ALL.map(|(name, _)| name).join(", ");
                        return fault(format!(
                            "{key:?} is no part of a job; the parts are {names}, and the settings delimiter, skip and running"
                        ));
                    };
                    if !mapping.columns(*part).is_empty() {
                        return fault(format!("{key} is given twice"));
                    }
                    let columns = value.split('|').map(|text| column(*part, text));
                    mapping.parts.push((*part, columns.collect::<Result<_, _>>()?));
                }
            }
        }
        match mapping.lacks() {
            Some(problem) => fault(problem.to_owned()),
            None => Ok(mapping),
        }
    }
}

/// Parses `NAME`, `NAME:UNIT` or `NAME:UNIT/pod`.
fn column(part: Part, text: &str) -> Result<Column, MappingFault> {
    let known = units(part);
    let default = known.first().map_or(Unit::Of(1.0), |(_, unit)| *unit);
    let (name, unit) = match text.rsplit_once(':') {
        Some((name, unit)) if !known.is_empty() => (name, unit),
        _ => return Ok(Column { name: text.to_owned(), unit: default, per_pod: false }),
    };
    let (unit, per_pod) = match unit.strip_suffix("/pod") {
        Some(unit) => (unit, true),
        None => (unit, false),
    };
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, unit) = found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        MappingFault(format!("the unit {unit:?} of {name} is none of {}", names.join(", ")))
    })?;
    Ok(Column { name: name.to_owned(), unit: *unit, per_pod })
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, part)| part == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_has_parts_units_and_settings() {
        let text = "submit=Submit, runtime=Elapsed:min,pods=3,cpu=TRES:tres|NCPUS:cores/pod,delimiter=pipe,skip=JobID:*.*";
        let mapping: Mapping = text.parse().unwrap();
        assert_eq!(mapping.delimiter, Some(Delimiter::Char('|')));
        assert_eq!(mapping.skip, [("JobID".to_owned(), "*.*".to_owned())]);
        assert_eq!(mapping.columns(Part::Runtime)[0].unit, Unit::Of(60.0));
        let [tres, cpus] = mapping.columns(Part::Cpu) else { panic!("two columns") };
        assert_eq!((tres.unit, tres.per_pod), (Unit::Tres, false));
        assert_eq!((cpus.name.as_str(), cpus.unit, cpus.per_pod), ("NCPUS", Unit::Of(1e3), true));
        assert!(!mapping.has_no_header());
        assert!("submit=1,runtime=2,cpu=3".parse::<Mapping>().unwrap().has_no_header());
    }

    #[test]
    fn a_fault_of_a_mapping_names_what_is_missing() {
        let table = [
            ("submit", r#""submit" is not PART=COLUMN, such as submit=Submit"#),
            ("runtime=a,cpu=b", "submit is missing, the time at which a job arrived"),
            ("submit=a,start=b,cpu=c", "runtime is missing, or start and end"),
            ("submit=a,runtime=b", "the size of a job is missing: cpu, memory or gpus"),
            ("submit=a,submit=b", "submit is given twice"),
            (
                "cpu=a:GiB",
                r#"the unit "GiB" of a is none of cores, millicores, percent, tres, nodes"#,
            ),
            (
                "delimiter=x",
                r#"delimiter "x" is none of comma, tab, pipe, colon, semicolon, space, keys"#,
            ),
            ("skip=x", r#""skip=x" is not skip=COLUMN:PATTERN"#),
            (
                "cpus=a",
                r#""cpus" is no part of a job; the parts are job, user, submit, start, end, runtime, pods, cpu, memory, gpus, and the settings delimiter, skip and running"#,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Mapping>().unwrap_err().to_string(), expected, "{text}");
        }
    }
}
