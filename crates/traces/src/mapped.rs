//! Reads a delimited file by a [`Mapping`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use base::pattern::matches;
use chrono::{DateTime, NaiveDateTime};
use embedder::{AcceleratorKind, Resources};

use super::fields::split_at;
use super::job::{Admits, Job, Work};
use super::mapping::{Column, Delimiter, Mapping, Part, Unit};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, SECONDS_MAX, TraceFault, UNITS_MAX, name, rounded_up,
};

/// Values that stand for none, in any letter case.
const NONE: [&str; 13] =
    ["", "?", "-1", "unknown", "none", "null", "n/a", "na", "nan", "nat", "-", "\\n", "undefined"];

/// The most characters of a header that an error shows.
const SHOWN_MAX: usize = 300;

/// A reader of a file by a mapping.
pub(super) struct Mapped {
    mapping: Mapping,
    delimiter: Delimiter,
    /// The index of each column of the mapping by its name, in lower case.
    places: BTreeMap<String, usize>,
    /// The number of columns of the header.
    width: Option<usize>,
    /// The number of units of a second in which the file has its times, once it is known.
    per_second: Option<f64>,
    /// The runs so far, if a file may list one twice.
    runs: Option<HashSet<Run>>,
}

/// The job, the submission and the start of a run.
type Run = (Box<str>, i64, Option<i64>);

impl Mapped {
    /// A reader of a file with this first line, and whether that is a header.
    ///
    /// Where `needs_all` is false, the file may lack parts of a job without which there are jobs.
    ///
    /// # Errors
    /// The first line lacks columns of the mapping. The message names them.
    pub(super) fn new(
        mut mapping: Mapping,
        first: &str,
        needs_all: bool,
    ) -> Result<(Self, bool), String> {
        let no_header = mapping.has_no_header();
        let delimiter = mapping.delimiter.unwrap_or_else(|| found(&mapping, first));
        let (mut places, mut width) = (BTreeMap::new(), None);
        if delimiter != Delimiter::Keys {
            let fields = fields(first, delimiter).unwrap_or_default();
            let header: Vec<String> = fields.iter().map(|field| field.to_lowercase()).collect();
            width = (!no_header).then_some(header.len());
            for column in mapping.names() {
                let name = column.to_lowercase();
                let named = header.iter().position(|field| *field == name);
                let position = column.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
                places.extend(named.filter(|_| !no_header).or(position).map(|at| (name, at)));
            }
            // Of several columns of a part, one is enough.
            let is_known = |column: &Column| places.contains_key(&column.name.to_lowercase());
            let all = std::mem::take(&mut mapping.parts);
            let (usable, lacking): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(_, columns)| columns.iter().any(is_known));
            mapping.parts = usable;
            let problem = mapping.lacks();
            let conditions = mapping.conditions().map(|(column, _)| column.as_str());
            let unknown = conditions.filter(|column| !places.contains_key(&column.to_lowercase()));
            let unknown: Vec<&str> = unknown.filter(|_| needs_all).collect();
            if problem.is_some() || !unknown.is_empty() || (needs_all && !lacking.is_empty()) {
                let names = lacking.iter().flat_map(|(_, columns)| columns);
                let names = names.map(|column| column.name.as_str()).chain(unknown);
                let names: Vec<&str> = names.collect::<BTreeSet<&str>>().into_iter().collect();
                let problem = problem.map_or(String::new(), |problem| format!("{problem}; "));
                let shown: String = header.join(", ").chars().take(SHOWN_MAX).collect();
                return Err(format!(
                    "{problem}the header has no column {}; its columns are {shown}",
                    names.join(", "),
                ));
            }
        }
        let is_header = !no_header && delimiter != Delimiter::Keys;
        let reader = Self { mapping, delimiter, places, width, per_second: None, runs: None };
        Ok((reader, is_header))
    }

    /// Counts each run of a job once, however often the file lists it.
    pub(super) fn once(self) -> Self {
        Self { runs: Some(HashSet::new()), ..self }
    }

    /// The first value of a part in a row, with its column.
    fn value<'a>(&'a self, part: Part, row: &'a Fields<'_>) -> Option<(&'a Column, &'a str)> {
        self.values(part, row).next()
    }

    /// The values of a part in a row, each with its column.
    fn values<'a>(
        &'a self,
        part: Part,
        row: &'a Fields<'_>,
    ) -> impl Iterator<Item = (&'a Column, &'a str)> {
        self.mapping.columns(part).iter().filter_map(move |column| {
            let text = self.field(&column.name, row)?;
            // A list has the resources that the row has.
            let has = match column.unit {
                Unit::Tres => tres(part, text).is_some(),
                Unit::Nodes => nodes(part, text).is_some(),
                Unit::Of(_) | Unit::Found => true,
            };
            has.then_some((column, text))
        })
    }

    /// The text of a column in a row.
    fn text<'a>(&self, column: &str, row: &'a Fields<'_>) -> Option<&'a str> {
        let column = column.to_lowercase();
        match row {
            Fields::Listed(fields) => Some(fields.get(*self.places.get(&column)?)?.trim()),
            Fields::Keyed(fields) => fields.get(&column).copied(),
        }
    }

    /// The value of a column in a row.
    fn field<'a>(&self, column: &str, row: &'a Fields<'_>) -> Option<&'a str> {
        let is_value = |text: &&str| !NONE.contains(&text.to_lowercase().as_str());
        self.text(column, row).filter(is_value)
    }

    /// Whether one of the conditions holds for a row.
    fn holds(&self, conditions: &[(String, String)], row: &Fields<'_>) -> bool {
        conditions.iter().any(|(column, pattern)| {
            self.text(column, row).is_some_and(|text| meets(pattern, text))
        })
    }

    /// Checks the number of fields of a row.
    fn check_width(&self, row: &Fields<'_>) -> Result<(), TraceFault> {
        let Fields::Listed(fields) = row else { return Ok(()) };
        let least = self.places.values().max().map_or(0, |last| last + 1);
        let wrong = match self.width {
            Some(width) => fields.len() != width,
            None => fields.len() < least,
        };
        if wrong {
            let expected = self.width.unwrap_or(least);
            let problem = format!("expected {expected} columns, got {}", fields.len());
            return Err(TraceFault::new("", problem, ""));
        }
        Ok(())
    }

    /// The time of a part: the first that is not 0, unless the log begins at 0.
    fn time(
        &mut self,
        part: Part,
        row: &Fields<'_>,
        zero_is_none: bool,
    ) -> Result<Option<i64>, TraceFault> {
        for column in self.mapping.columns(part) {
            let Some(text) = self.field(&column.name, row) else { continue };
            let read = time(text, column.unit, &mut self.per_second);
            let time = read.map_err(|what| fault(column, what, text))?;
            if time > 0 || !zero_is_none {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }

    /// The amount of a part in its base unit, and whether it is that of each pod.
    fn amount(&self, part: Part, row: &Fields<'_>) -> Result<Option<(f64, Per)>, TraceFault> {
        if part == Part::Cpu && self.delimiter == Delimiter::Keys {
            return self.most(part, row);
        }
        let Some((column, text)) = self.value(part, row) else { return Ok(None) };
        Self::read(part, column, text)
    }

    /// The largest amount of the columns of a part. Torque writes the default of one number of
    /// processors beside another one that the job asks for.
    fn most(&self, part: Part, row: &Fields<'_>) -> Result<Option<(f64, Per)>, TraceFault> {
        let mut most: Option<(f64, Per)> = None;
        for (column, text) in self.values(part, row) {
            let next = Self::read(part, column, text)?;
            let is_more = next.is_some_and(|(amount, _)| most.is_none_or(|(of, _)| amount > of));
            most = if is_more { next } else { most };
        }
        Ok(most)
    }

    /// The amount of a part in a column.
    fn read(part: Part, column: &Column, text: &str) -> Result<Option<(f64, Per)>, TraceFault> {
        let per = if column.per_pod { Per::Pod } else { Per::Job };
        let read = match column.unit {
            Unit::Tres => tres(part, text).map(|amount| (amount, per)),
            Unit::Nodes => nodes(part, text).map(|amount| (amount, per)),
            Unit::Of(factor) if part == Part::Memory => sized(text).map(|(amount, suffix)| {
                let amount = if suffix.has_unit { amount } else { amount * factor };
                (amount, suffix.per.unwrap_or(per))
            }),
            Unit::Of(factor) => match text.strip_suffix('m').filter(|_| part == Part::Cpu) {
                Some(millis) => number(millis).map(|amount| (amount, per)),
                None => number(text).map(|amount| (amount * factor, per)),
            },
            Unit::Found => None,
        };
        let most = if part == Part::Pods { UNITS_MAX } else { AMOUNT_MAX };
        match read {
            Some((amount, _)) if amount > most => {
                Err(fault(column, format!("expected at most {most}"), text))
            }
            Some(read) => Ok(Some(read)),
            None => Err(fault(column, "expected a number".into(), text)),
        }
    }
}

/// Of what an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Job,
    Pod,
    Core,
}

/// The fields of a row.
enum Fields<'a> {
    Listed(Vec<Cow<'a, str>>),
    Keyed(BTreeMap<String, &'a str>),
}

impl Reader for Mapped {
    fn row(&mut self, line: &str, line_number: u64, notes: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(Row::Blank);
        }
        let row = match self.delimiter {
            Delimiter::Keys => Fields::Keyed(keys(line)),
            delimiter => Fields::Listed(fields(line, delimiter)?),
        };
        if self.holds(&self.mapping.skip, &row) {
            return Ok(Row::NotAJob);
        }
        self.check_width(&row)?;
        let Some(submit) = self.time(Part::Submit, &row, false)? else {
            // A log without submissions has the start in their place, which a job that waits lacks.
            if self.mapping.columns(Part::Submit) == self.mapping.columns(Part::Start) {
                return Ok(Row::NeverRan);
            }
            let column = self.mapping.columns(Part::Submit).first();
            let name = column.map_or(String::new(), |column| column.name.clone());
            return Err(TraceFault { column: name.into(), ..TraceFault::new("", "is empty", "") });
        };
        let start = self.time(Part::Start, &row, submit > 0)?;
        let end = self.time(Part::End, &row, submit > 0)?;
        if let Some((_, job)) = self.value(Part::Job, &row) {
            let run = (job.into(), submit, start);
            // A run that had not ended in one export may have ended in the next one.
            let is_known =
                end.is_some() && self.runs.as_mut().is_some_and(|runs| !runs.insert(run));
            if is_known {
                return Ok(Row::NotAJob);
            }
        }
        if self.holds(&self.mapping.running, &row) {
            return Ok(Row::Unfinished);
        }
        if end.is_none() && !self.mapping.columns(Part::End).is_empty() {
            return Ok(if start.is_some() { Row::Unfinished } else { Row::NeverRan });
        }
        let runtime = match self.value(Part::Runtime, &row) {
            Some((column, text)) => {
                let factor = if let Unit::Of(factor) = column.unit { factor } else { 1.0 };
                duration(text, factor).map_err(|what| fault(column, what, text))?
            }
            None => end.zip(start).map_or(0, |(end, start)| end.saturating_sub(start)),
        };
        let count = self.amount(Part::Pods, &row)?.map_or(1.0, |(pods, _)| pods).max(1.0).ceil();
        let cpu = self.amount(Part::Cpu, &row)?;
        let cores = cpu.map_or(1.0, |(millis, per)| match per {
            Per::Pod => millis / 1e3,
            Per::Job | Per::Core => millis / 1e3 / count,
        });
        let each = |amount: Option<(f64, Per)>| match amount {
            None => 0,
            Some((amount, Per::Pod)) => whole(amount),
            Some((amount, Per::Job)) => whole(amount / count),
            Some((amount, Per::Core)) => whole(amount * cores),
        };
        let gpus = self.amount(Part::Gpus, &row)?;
        let unit = Resources {
            accelerators: each(gpus),
            cpu_millis: each(cpu),
            memory_bytes: each(self.amount(Part::Memory, &row)?),
            ..Resources::default()
        };
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if unit == Resources::default() {
            return Ok(Row::NoSize);
        }
        let all = gpus.map_or(0.0, |(gpus, per)| if per == Per::Pod { gpus } else { gpus / count });
        notes.rounded_up += u64::from(unit.accelerators as f64 - all > 1e-6);
        let text = |part| match self.value(part, &row) {
            Some((column, text)) => name("", text)
                .map_err(|fault| TraceFault { column: column.name.clone().into(), ..fault }),
            None => Ok(""),
        };
        let (job, user) = (text(Part::Job)?, text(Part::User)?);
        let job = if job.is_empty() { line_number.to_string() } else { job.to_owned() };
        Ok(Row::Job(Job {
            name: job.into(),
            user: user.into(),
            submit,
            runtime,
            priority: 0,
            after: Box::default(),
            work: Work {
                units: whole(count),
                unit,
                accelerator_kind: AcceleratorKind::default(),
                split: None,
                admits: Admits::Assumed,
            },
        }))
    }
}

fn fault(column: &Column, problem: String, value: &str) -> TraceFault {
    TraceFault { column: column.name.clone().into(), ..TraceFault::new("", problem, value) }
}

/// An amount rounded up.
fn whole(amount: f64) -> u64 {
    // A third of three cores is a core.
    rounded_up(amount - 1e-6)
}

/// The delimiter of a file with this first line: the one by which most columns of the mapping are
/// found, or, of equal ones, most fields. Colons are also in times, so they come last.
fn found(mapping: &Mapping, first: &str) -> Delimiter {
    let score = |delimiter: Delimiter| {
        let fields = fields(first, delimiter).unwrap_or_default();
        let has = |column: &&str| fields.iter().any(|field| field.eq_ignore_ascii_case(column));
        let named = mapping.names().filter(|name| name.parse::<usize>().is_err()).filter(has);
        (named.count(), if delimiter == Delimiter::Char(':') { 0 } else { fields.len() })
    };
    let all = ['|', '\t', ';', ',', ':'].map(Delimiter::Char).into_iter();
    let all: Vec<Delimiter> = all.chain([Delimiter::Spaces]).collect();
    let best = all.iter().map(|delimiter| score(*delimiter)).max().unwrap_or_default();
    let one = Delimiter::Char(':');
    // One field by each of them.
    if best == (0, 1) && first.contains(':') {
        return one;
    }
    all.into_iter().find(|delimiter| score(*delimiter) == best).unwrap_or(one)
}

fn fields(line: &str, delimiter: Delimiter) -> Result<Vec<Cow<'_, str>>, TraceFault> {
    match delimiter {
        // Programs that separate columns by a bar, such as sacct, quote nothing.
        Delimiter::Char('|') => split_at(line, '|')
            .or_else(|_| Ok(line.split('|').map(|field| field.trim().into()).collect())),
        Delimiter::Char(delimiter) => split_at(line, delimiter),
        Delimiter::Spaces | Delimiter::Keys => Ok(words(line)),
    }
}

/// The words of a line. Spaces in double quotes separate none.
fn words(line: &str) -> Vec<Cow<'_, str>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"').and_then(|text| text.split_once('"')) {
            Some(quoted) => quoted,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.into());
        rest = after.trim_start();
    }
    words
}

/// The `KEY=VALUE` of a line. What stands before the first of them has the keys `1`, `2`, …
fn keys(line: &str) -> BTreeMap<String, &str> {
    let heads = line.splitn(4, ';').zip(1_u8..);
    let heads = heads.map(|(part, at)| (at.to_string(), part));
    let pairs = line.split([' ', ';']).filter_map(|pair| pair.split_once('='));
    heads.chain(pairs.map(|(key, value)| (key.to_lowercase(), value))).collect()
}

/// Whether a text matches a pattern. `!` before the pattern means that it must not.
fn meets(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('!') {
        Some(pattern) => !matches(pattern, text),
        None => matches(pattern, text),
    }
}

/// A time in Unix seconds, or in seconds of the log. A time without a zone is UTC.
///
/// Where its unit is to be found, `per_second` is that of the file: the first number is one of
/// seconds, unless it is too large for that.
fn time(text: &str, unit: Unit, per_second: &mut Option<f64>) -> Result<i64, String> {
    if let Ok(number) = text.parse::<f64>() {
        if !(number >= 0.0 && number.is_finite()) {
            return Err("expected a time of 0 or more".into());
        }
        let seconds = match unit {
            Unit::Of(seconds) => number * seconds,
            Unit::Found | Unit::Tres | Unit::Nodes => {
                let all = [1.0, 1e3, 1e6, 1e9];
                let likely = all.into_iter().find(|per| number / per <= SECONDS_MAX);
                number / *per_second.get_or_insert(likely.unwrap_or(1.0))
            }
        };
        if seconds > SECONDS_MAX {
            return Err(
                "expected a number of seconds; give the unit of another, such as submit=COLUMN:ms"
                    .into(),
            );
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        return Ok(seconds as i64);
    }
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    let zoned = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z", "%d/%b/%Y:%H:%M:%S %#z"];
    let zoned = zoned.iter().find_map(|form| DateTime::parse_from_str(text, form).ok());
    let zoned = zoned.or_else(|| DateTime::parse_from_rfc3339(text).ok());
    let plain = [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%m/%d/%Y %H:%M:%S",
        "%m/%d/%Y %I:%M:%S %p",
        "%m/%d/%Y %H:%M",
        "%Y/%m/%d %H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
    ];
    let plain = || plain.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let seconds = zoned.map(|time| time.timestamp());
    let seconds = seconds.or_else(|| plain().map(|time| time.and_utc().timestamp()));
    let seconds = seconds.ok_or("expected seconds, or a time such as 2024-01-31T09:30:00Z")?;
    if (0..=100_000_000_000).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected a time from the year 1970 to 5138".into())
    }
}

/// A duration in seconds: a number in units of `factor` seconds, or
/// `[DAYS-][HOURS:]MINUTES:SECONDS`.
fn duration(text: &str, factor: f64) -> Result<i64, String> {
    let seconds = match number(text) {
        Some(number) => number * factor,
        None => clock(text).ok_or("expected a number, or a time such as 1-02:30:00")?,
    };
    if seconds > SECONDS_MAX {
        return Err("expected a shorter time".into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(seconds.round() as i64)
}

fn clock(text: &str) -> Option<f64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = 0.0;
    let parts: Vec<&str> = rest.split(':').collect();
    if parts.len() < 2 || parts.len() > 3 {
        return None;
    }
    for part in parts {
        seconds = seconds * 60.0 + number(part)?;
    }
    Some(seconds + number(days)? * 86_400.0)
}

/// A number of 0 or more. Buckets such as `>24` are their bound. A negative number is 0, because
/// logs write -1 for an unknown one.
fn number(text: &str) -> Option<f64> {
    let text = text.strip_prefix('>').unwrap_or(text);
    let number: f64 = text.parse().ok()?;
    number.is_finite().then(|| number.max(0.0))
}

/// What follows a number.
struct Suffix {
    has_unit: bool,
    per: Option<Per>,
}

/// An amount with or without a unit, such as `32G`, `4000Mc` (for each core) or `64gb`. The units
/// are powers of 1,024, as in Slurm, PBS and LSF.
fn sized(text: &str) -> Option<(f64, Suffix)> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[digits.len()..];
    let amount = number(digits.trim())?;
    let suffix = suffix.to_ascii_lowercase();
    let (suffix, per) = match suffix.strip_suffix('c').map(|rest| (rest, Per::Core)) {
        Some((rest, per)) => (rest, Some(per)),
        None => suffix.strip_suffix('n').map_or((&*suffix, None), |rest| (rest, Some(Per::Pod))),
    };
    let unit = suffix.strip_suffix('b').unwrap_or(suffix);
    let unit = unit.strip_suffix('i').unwrap_or(unit);
    let power = match unit {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some((amount * 1_024_f64.powi(power), Suffix { has_unit: !suffix.is_empty(), per }))
}

/// The amount of a part in a list of nodes of Torque: thousandths of a core, GPUs or nodes. An
/// entry is a number of nodes or the name of one, with the processors (`ppn`) and GPUs of each.
fn nodes(part: Part, text: &str) -> Option<f64> {
    let entries = text.split('+').map(|entry| {
        let (first, properties) = entry.split_once(':').unwrap_or((entry, ""));
        let count = number(first.trim()).unwrap_or(1.0);
        let each = |key: &str| {
            let mut pairs = properties.split(':').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).and_then(|(_, value)| number(value))
        };
        match part {
            Part::Cpu => Some(count * each("ppn").unwrap_or(1.0) * 1e3),
            Part::Gpus => each("gpus").map(|gpus| count * gpus),
            _ => Some(count),
        }
    });
    entries.flatten().reduce(|sum, next| sum + next)
}

/// The amount of a part among Slurm's trackable resources: thousandths of a core, bytes, GPUs or
/// nodes. Memory without a unit is in MiB.
fn tres(part: Part, text: &str) -> Option<f64> {
    let pairs = || text.split(',').filter_map(|pair| pair.split_once('='));
    let value = |key: &str| {
        let found = pairs().find(|(name, _)| *name == key);
        found.and_then(|(_, value)| sized(value))
    };
    match part {
        Part::Cpu => value("cpu").map(|(cores, _)| cores * 1e3),
        Part::Memory => value("mem")
            .map(|(amount, suffix)| if suffix.has_unit { amount } else { amount * 1_048_576.0 }),
        Part::Pods => value("node").map(|(nodes, _)| nodes),
        // Slurm lists the sum beside each kind, or the kinds alone.
        Part::Gpus => value("gres/gpu").map(|(gpus, _)| gpus).or_else(|| {
            let kinds = pairs().filter(|(name, _)| name.starts_with("gres/gpu:"));
            let kinds = kinds.filter_map(|(_, value)| number(value));
            // Older versions write gpu:4 or gpu:v100:4(S:0-1).
            let old = text.split(',').filter_map(|entry| {
                let entry = entry.split('(').next()?.strip_prefix("gpu:")?;
                number(entry.rsplit(':').next()?)
            });
            kinds.chain(old).reduce(|sum, next| sum + next)
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_of_any_unit_or_dates() {
        let table = [
            ("1706693400", Ok(1_706_693_400)),
            ("1706693400123", Ok(1_706_693_400)),
            ("2024-01-31T09:30:00", Ok(1_706_693_400)),
            ("2024-01-31 10:30:00+01:00", Ok(1_706_693_400)),
            ("2024-01-31T10:30:00+0100", Ok(1_706_693_400)),
            ("2024-01-31T09:30:00Z", Ok(1_706_693_400)),
            ("01/31/2024 09:30:00", Ok(1_706_693_400)),
            ("2024/01/31 09:30:00", Ok(1_706_693_400)),
            ("1/31/2024 9:30", Ok(1_706_693_400)),
            ("1/31/2024 9:30:00 AM", Ok(1_706_693_400)),
            ("soon", Err("expected seconds, or a time such as 2024-01-31T09:30:00Z".to_owned())),
            ("1950-01-31T09:30:00", Err("expected a time from the year 1970 to 5138".to_owned())),
        ];
        for (text, expected) in table {
            assert_eq!(time(text, Unit::Found, &mut None), expected, "{text}");
        }
        // All numbers of a file have one unit.
        let mut per_second = None;
        let mut read = |text: &str| time(text, Unit::Found, &mut per_second);
        assert_eq!(read("600000000"), Ok(600_000_000));
        assert!(read("110000000000").is_err_and(|problem| problem.contains("submit=COLUMN:ms")));
        assert_eq!(time("110000000000", Unit::Of(1e-6), &mut None), Ok(110_000));
    }

    #[test]
    fn durations_are_numbers_or_clocks() {
        let table = [
            ("90", 1.0, Some(90)),
            ("1.5", 60.0, Some(90)),
            ("01:30", 1.0, Some(90)),
            ("1-00:01:30", 1.0, Some(86_490)),
            ("1:2:3:4", 1.0, None),
            ("x", 1.0, None),
        ];
        for (text, factor, expected) in table {
            assert_eq!(duration(text, factor).ok(), expected, "{text}");
        }
    }

    #[test]
    fn memory_may_have_a_unit_of_its_own() {
        let amount = |text: &str| sized(text).map(|(amount, suffix)| (amount, suffix.per));
        assert_eq!(amount("32G"), Some((32.0 * 1_073_741_824.0, None)));
        assert_eq!(amount("4000Mc"), Some((4_000.0 * 1_048_576.0, Some(Per::Core))));
        assert_eq!(amount("8Gn"), Some((8.0 * 1_073_741_824.0, Some(Per::Pod))));
        assert_eq!(amount("64gb"), Some((64.0 * 1_073_741_824.0, None)));
        assert_eq!(amount("16Gi"), Some((16.0 * 1_073_741_824.0, None)));
        assert_eq!(amount("2 GiB"), Some((2.0 * 1_073_741_824.0, None)));
        assert_eq!(amount("1.6e1"), Some((16.0, None)));
        assert_eq!(amount("16"), Some((16.0, None)));
        assert_eq!(amount("16X"), None);
    }
}
