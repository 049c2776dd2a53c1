//! What a shard found, as a Parquet file: a row for each setting, replay and day.

use std::collections::BTreeSet;

use advice::{COLUMNS, Totals};
use anyhow::{Context as _, bail, ensure};
use base::days::DAY_SECONDS;
use bytes::Bytes;
use history::parquet_columns::{bytes as text_value, caught, read, write, writer};
use parquet::data_type::{ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::plan::{Part, Shard};

/// What one run did on one day of its window.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The position of the setting in the list of its cluster.
    pub setting: usize,
    /// The number of the replay, from 0.
    pub replay: u32,
    /// The first second of the day, in seconds of the log.
    pub day: i64,
    /// The sums of the day.
    pub totals: Totals,
}

/// What a shard found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardResult {
    /// One row for each setting, replay and day.
    pub rows: Vec<Row>,
    /// How long the shard ran, in seconds.
    pub seconds: f64,
    /// The number of the replayed jobs, and sums over them. They differ if the log changed between
    /// two shards of a window.
    pub jobs: String,
}

/// The key of the text of the [`Part`] that a file is the result of.
const PART_KEY: &str = "prophet.shard";

/// The key of the time that the shard ran, in seconds.
const SECONDS_KEY: &str = "prophet.seconds";

/// The key of the number of the replayed jobs, and of the sums over them.
const JOBS_KEY: &str = "prophet.jobs";

/// The first columns. Those of [`COLUMNS`] follow.
const SCHEMA: &str = "
    required binary cluster (STRING);
    required int64 from;
    required int64 until;
    required int64 setting;
    required binary setting_name (STRING);
    required int64 replay;
    required int64 day;";

impl ShardResult {
    /// The file of a result. `name` names a setting.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(
        &self,
        part: &Part<'_>,
        name: impl Fn(usize) -> String,
    ) -> anyhow::Result<Vec<u8>> {
        let text = serde_json::to_string(part)?;
        let pairs = vec![
            KeyValue::new(PART_KEY.into(), text),
            KeyValue::new(SECONDS_KEY.into(), self.seconds.to_string()),
            KeyValue::new(JOBS_KEY.into(), self.jobs.clone()),
        ];
        let sums: String = COLUMNS.map(|name| format!("required double {name};")).concat();
        let schema = format!("message run {{ {SCHEMA} {sums} }}");
        let shard = part.shard();
        let write_all = || -> ParquetResult<Vec<u8>> {
            let mut to = writer(Vec::new(), &schema, pairs)?;
            if !self.rows.is_empty() {
                let mut group = to.next_row_group()?;
                let rows = || self.rows.iter();
                let whole = |value: i64| rows().map(move |_| Some(value));
                let int = |value: usize| Some(i64::try_from(value).unwrap_or(i64::MAX));
                let cluster = rows().map(|_| Some(text_value(&shard.cluster)));
                write::<ByteArrayType, _>(&mut group, cluster, false)?;
                write::<Int64Type, _>(&mut group, whole(shard.from), false)?;
                write::<Int64Type, _>(&mut group, whole(shard.until), false)?;
                write::<Int64Type, _>(&mut group, rows().map(|row| int(row.setting)), false)?;
                let names = rows().map(|row| Some(text_value(&name(row.setting))));
                write::<ByteArrayType, _>(&mut group, names, false)?;
                let replays = rows().map(|row| Some(i64::from(row.replay)));
                write::<Int64Type, _>(&mut group, replays, false)?;
                write::<Int64Type, _>(&mut group, rows().map(|row| Some(row.day)), false)?;
                for at in 0..COLUMNS.len() {
                    let sums = rows().map(|row| Some(row.totals.values()[at]));
                    write::<DoubleType, _>(&mut group, sums, false)?;
                }
                group.close()?;
            }
            to.into_inner()
        };
        write_all().context("failed to write Parquet")
    }

    /// Reads the file of a result. `None` if the file is the result of another part.
    ///
    /// # Errors
    /// The file is damaged, or is no result.
    pub fn read(file: Vec<u8>, part: &Part<'_>) -> anyhow::Result<Option<Self>> {
        let opened = caught(|| SerializedFileReader::new(Bytes::from(file)));
        let opened = opened.context("it is no Parquet file, or is damaged")?;
        let metadata = opened.metadata().file_metadata();
        let value = |key: &str| {
            let mut pairs = metadata.key_value_metadata().into_iter().flatten();
            pairs.find(|pair| pair.key == key).and_then(|pair| pair.value.clone())
        };
        let Some(of) = value(PART_KEY) else { bail!("it has no {PART_KEY}: it is no result") };
        if of != serde_json::to_string(part)? {
            return Ok(None);
        }
        let seconds = value(SECONDS_KEY).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let jobs = value(JOBS_KEY).unwrap_or_default();
        let expected = part.shard().rows();
        // Before the rows are read, because a damaged file may have any number of them.
        let of_groups = metadata_rows(opened.metadata());
        ensure!(
            of_groups == i64::try_from(expected).ok(),
            "it is damaged: its shard has {expected} rows"
        );
        let rows = caught(|| {
            let mut rows = Vec::new();
            for group in 0..opened.num_row_groups() {
                let group = opened.get_row_group(group)?;
                let settings = read::<Int64Type>(&*group, "setting")?;
                let replays = read::<Int64Type>(&*group, "replay")?;
                let days = read::<Int64Type>(&*group, "day")?;
                let sums = COLUMNS.map(|name| read::<DoubleType>(&*group, name));
                let sums: Vec<Vec<Option<f64>>> = sums.into_iter().collect::<ParquetResult<_>>()?;
                for (at, setting) in settings.into_iter().enumerate() {
                    let int = |of: &[Option<i64>]| of.get(at).copied().flatten().unwrap_or(-1);
                    let sum = |column: usize| sums[column].get(at).copied().flatten();
                    rows.push(Row {
                        setting: setting
                            .and_then(|at| usize::try_from(at).ok())
                            .unwrap_or(usize::MAX),
                        replay: u32::try_from(int(&replays)).unwrap_or(u32::MAX),
                        day: int(&days),
                        totals: Totals::of_values(std::array::from_fn(|column| {
                            sum(column).unwrap_or(f64::NAN)
                        })),
                    });
                }
            }
            Ok(rows)
        });
        let rows = rows.context("it is damaged")?;
        let Shard { from, until, settings, replays, .. } = part.shard();
        let mut seen = BTreeSet::new();
        for row in &rows {
            ensure!(
                settings.contains(&row.setting)
                    && replays.range().contains(&row.replay)
                    && (*from..*until).contains(&row.day)
                    && (row.day - from) % DAY_SECONDS == 0
                    && seen.insert((row.setting, row.replay, row.day))
                    && row.totals.values().iter().all(|value| value.is_finite()),
                "it is damaged: a row of setting {}, replay {} and day {} is not of its shard",
                row.setting,
                row.replay,
                row.day
            );
        }
        Ok(Some(Self { rows, seconds, jobs }))
    }
}

/// The number of rows by the row groups; `None` if the file's own number differs.
fn metadata_rows(metadata: &ParquetMetaData) -> Option<i64> {
    let of_groups = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    let sum = of_groups.fold(0_i64, i64::saturating_add);
    (sum == metadata.file_metadata().num_rows()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use advice::{Setting, Varied};
    use proptest::prelude::*;
    use simulator::SimulationSettings;

    use super::*;
    use crate::plan::{Cluster, Plan, Shares};

    fn plan(name: &str) -> Plan {
        let cluster = Cluster {
            name: name.into(),
            run: SimulationSettings { replays: 3, ..SimulationSettings::default() },
            warm_up_seconds: 0,
            settings: Setting::all(&["ensemble".parse().unwrap()], &Varied::default()),
        };
        let shares = Shares { window: None, settings: 8, replays: 2 };
        Plan::new(vec![cluster], &[(0, 3 * 86_400)], shares).unwrap()
    }

    /// All rows of a shard, with values that differ.
    fn rows(plan: &Plan, shard: usize) -> Vec<Row> {
        let shard = &plan.shards[shard];
        let mut rows = Vec::new();
        for setting in shard.settings.clone() {
            for replay in shard.replays.range() {
                for day in 0..3 {
                    let value = rows.len() as f64 + 0.1;
                    let totals = Totals::of_values([value; 10]);
                    rows.push(Row { setting, replay, day: 86_400 * day, totals });
                }
            }
        }
        rows
    }

    fn written(plan: &Plan, shard: usize, rows: Vec<Row>) -> Vec<u8> {
        let result = ShardResult { rows, seconds: 1.5, jobs: "7 jobs".into() };
        let part = plan.part(&plan.shards[shard]).unwrap();
        result.write(&part, |setting| format!("setting {setting}")).unwrap()
    }

    proptest! {
        #[test]
        fn rows_survive_the_file(values in prop::collection::vec(0.0..1e12, 10)) {
            let plan = plan("a");
            let mut rows = rows(&plan, 0);
            rows[3].totals = Totals::of_values(std::array::from_fn(|at| values[at]));
            let file = written(&plan, 0, rows.clone());
            let back = ShardResult::read(file, &plan.part(&plan.shards[0]).unwrap()).unwrap();
            prop_assert_eq!(back, Some(ShardResult { rows, seconds: 1.5, jobs: "7 jobs".into() }));
        }

        #[test]
        fn a_damaged_file_is_an_error_and_no_panic(at in 0..8_000_usize, byte in any::<u8>()) {
            let plan = plan("a");
            let mut file = written(&plan, 0, rows(&plan, 0));
            let at = at % file.len();
            file[at] = byte;
            let _ = ShardResult::read(file, &plan.part(&plan.shards[0]).unwrap());
        }
    }

    #[test]
    fn a_result_is_that_of_its_part_alone_and_whole() {
        let (plan, other) = (plan("a"), plan("b"));
        let read = |file: &[u8], plan: &Plan, shard: usize| {
            ShardResult::read(file.to_vec(), &plan.part(&plan.shards[shard]).unwrap())
        };
        let file = written(&plan, 1, rows(&plan, 1));
        assert!(read(&file, &plan, 1).unwrap().is_some());
        assert_eq!(read(&file, &plan, 0).unwrap(), None);
        assert_eq!(read(&file, &other, 1).unwrap(), None);
        let refused = |change: fn(&mut Vec<Row>), expected: &str| {
            let mut rows = rows(&plan, 0);
            change(&mut rows);
            let error = read(&written(&plan, 0, rows), &plan, 0).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        refused(|rows| rows.truncate(11), "it is damaged: its shard has 12 rows");
        // Replay 2 is not of the first shard, which has the replays 0 and 1.
        refused(|rows| rows[0].replay = 2, "it is damaged: a row of setting 0, replay 2 and day 0");
        refused(|rows| rows[1] = rows[0].clone(), "it is damaged: a row of setting 0, replay 0");
        refused(|rows| rows[0].day = 5, "it is damaged: a row of setting 0, replay 0 and day 5");
        let error = read(b"text", &plan, 0).unwrap_err().to_string();
        assert_eq!(error, "it is no Parquet file, or is damaged");
    }
}
