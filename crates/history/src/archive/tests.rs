use std::fs;

use chrono::TimeDelta;
use proptest::prelude::*;

use crate::samples::{
    append_all, at, change, day, file, journal, line, lines, replayed, three_days,
};

#[tokio::test]
async fn closed_days_are_converted_to_parquet_and_replay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &three_days()).await;
    let done = journal.compact(day(2)).await.unwrap();
    assert_eq!(done.compacted, [(day(0), 3), (day(1), 3)]);
    assert!(done.kept.is_empty(), "{done:?}");
    assert!(!file(&folder, 1).exists() && file(&folder, 2).exists());
    assert!(file(&folder, 1).with_file_name("ticks.parquet").exists());
    assert_eq!(replayed(&journal).await.0, three_days());
    assert!(
        journal.compact(day(2)).await.unwrap().compacted.is_empty(),
        "a second compaction changes nothing"
    );
    let restarted = crate::samples::journal(&folder).await;
    assert_eq!(restarted.last(), Some(at(2, 2)));
}

#[tokio::test]
async fn an_interrupted_compaction_loses_no_line_and_the_next_one_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &three_days()[..3]).await;
    let json = fs::read(file(&folder, 0)).unwrap();
    journal.compact(day(1)).await.unwrap();
    // The compaction is interrupted before it removes the segments.
    fs::write(file(&folder, 0), &json).unwrap();
    let (lines, report) = replayed(&journal).await;
    assert_eq!((lines, report.not_later), (three_days()[..3].to_vec(), 0));
    // If a clock that ran ahead closed the day too early, the next compaction adds its later lines.
    append_all(&mut journal, &[line(at(0, 700), 7)]).await;
    assert_eq!(journal.compact(day(1)).await.unwrap().compacted, [(day(0), 4)]);
    let mut expected = three_days()[..3].to_vec();
    expected.push(line(at(0, 700), 7));
    assert_eq!(replayed(&journal).await.0, expected);
}

#[tokio::test]
async fn a_day_with_a_malformed_line_stays_json_and_the_other_days_are_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &three_days()).await;
    change(&folder, 0, |text| format!("not JSON\n{text}"));
    // A torn line was never acknowledged, so it does not prevent the compaction.
    change(&folder, 1, |text| text + "{\"v\":1,");
    let done = journal.compact(day(3)).await.unwrap();
    assert_eq!(done.compacted, [(day(1), 3), (day(2), 3)]);
    let message = done.kept[0].1.to_string();
    assert!(message.starts_with("day 2026-07-01 stays as JSON: "), "{message}");
    assert!(message.contains("/ticks-00000.jsonl:1: not a line of the history"), "{message}");
    assert!(file(&folder, 0).exists());
    assert_eq!(replayed(&journal).await.0, three_days());
}

/// Checks the replay of three days whose first one has this Parquet file.
async fn check_damaged(damage: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &three_days()).await;
    journal.compact(day(2)).await.unwrap();
    let parquet = file(&folder, 0).with_file_name("ticks.parquet");
    let damaged = damage(fs::read(&parquet).unwrap());
    fs::write(&parquet, damaged).unwrap();
    let (lines, report) = replayed(&journal).await;
    assert_eq!(lines, three_days()[3..]);
    assert_eq!((report.lines, report.faults_total), (6, 1));
    let message = report.faults[0].to_string();
    let name = parquet.canonicalize().unwrap().display().to_string();
    assert!(message.starts_with(&format!("{name}: damaged: ")), "{message}");
}

#[tokio::test]
async fn a_damaged_parquet_file_is_one_fault_and_the_other_days_are_read() {
    check_damaged(|_| Vec::new()).await;
    check_damaged(|_| b"not Parquet".to_vec()).await;
    check_damaged(|bytes| bytes[..bytes.len() / 2].to_vec()).await;
    check_damaged(|mut bytes| {
        let middle = bytes.len() / 4;
        bytes[4..middle].fill(0xff);
        bytes
    })
    .await;
}

#[tokio::test]
async fn a_replay_continues_if_its_day_is_compacted_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &three_days()[..3]).await;
    // Two segments, as in S3.
    let second = file(&folder, 0).with_file_name("ticks-00001.jsonl");
    fs::write(second, line(at(0, 9), 9).text().unwrap() + "\n").unwrap();
    let mut replay = journal.replay(None).await.unwrap();
    let mut times = vec![replay.next().await.unwrap().unwrap().time];
    journal.compact(day(1)).await.unwrap();
    while let Some(line) = replay.next().await.unwrap() {
        times.push(line.time);
    }
    assert_eq!(times, [at(0, 0), at(0, 1), at(0, 2), at(0, 9)]);
    assert_eq!(replay.report().not_later, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn all_lines_replay_unchanged_from_json_and_from_parquet(lines in lines(0..12), closed in 0..8_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let mut journal = journal(&folder).await;
            let (before, after) = lines.split_at(closed.min(lines.len()));
            append_all(&mut journal, before).await;
            assert_eq!(replayed(&journal).await.0, before);
            let today = before.last().map_or_else(|| day(0), |line| line.time.date_naive());
            let done = journal.compact(today + TimeDelta::days(1)).await.unwrap();
            assert!(done.kept.is_empty(), "{done:?}");
            append_all(&mut journal, after).await;
            assert_eq!(replayed(&journal).await.0, lines);
        });
    }
}
