use std::error::Error as _;
use std::fs;

use serde_json::json;

use super::*;
use crate::samples::{
    POLICY, append_all, at, change, day, file, journal, line, objects, replayed, three_days,
};
use crate::{fault::HistoryFaultKind, replay::ReplayReport};

#[tokio::test]
async fn a_restart_replays_the_lines_day_by_day() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = journal(&folder).await;
    assert_eq!(first.last(), None);
    append_all(&mut first, &three_days()[..5]).await;
    let mut second = journal(&folder).await;
    assert_eq!(second.last(), Some(at(1, 1)));
    append_all(&mut second, &three_days()[5..]).await;
    let (lines, report) = replayed(&second).await;
    assert_eq!(lines, three_days());
    assert_eq!(report, ReplayReport { lines: 9, ..ReplayReport::default() });
    assert_eq!(fs::read_to_string(file(&folder, 1)).unwrap().lines().count(), 3);
    let mut since = second.replay(Some(at(1, 2))).await.unwrap();
    assert_eq!(since.next().await.unwrap().map(|line| line.time), Some(at(1, 2)));
}

#[tokio::test]
async fn a_torn_last_line_is_skipped_then_removed_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    append_all(&mut journal(&folder).await, &[line(at(0, 0), 1), line(at(0, 1), 2)]).await;
    change(&folder, 0, |text| text[..text.len() - 7].into());
    let mut journal = journal(&folder).await;
    let (lines, report) = replayed(&journal).await;
    assert_eq!(lines, [line(at(0, 0), 1)]);
    let fault = &report.faults[0];
    assert!(fault.to_string().contains("/ticks-00000.jsonl:2: a torn last line of"), "{fault}");
    assert!(
        fault.to_string().starts_with(&folder.path().canonicalize().unwrap().display().to_string())
    );
    let appended = journal.append(&line(at(0, 1), 3)).await.unwrap();
    assert_eq!(appended, Appended::Written { cut: Some(fault.clone()) });
    assert_eq!(replayed(&journal).await.0, [line(at(0, 0), 1), line(at(0, 1), 3)]);
    append_all(&mut journal, &[line(at(0, 2), 4)]).await;
}

#[tokio::test]
async fn malformed_lines_are_skipped_counted_and_reported_with_file_and_number() {
    let folder = tempfile::tempdir().unwrap();
    append_all(&mut journal(&folder).await, &three_days()).await;
    change(&folder, 1, |text| {
        let lines: Vec<&str> = text.lines().collect();
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        format!("{}\nnot JSON\n\n{{\"v\":1}}\n{long}\n{}\n{}\n", lines[0], lines[1], lines[2])
    });
    let journal = journal(&folder).await;
    let (lines, report) = replayed(&journal).await;
    assert_eq!(lines, three_days());
    assert_eq!(report.faults_total, 3);
    let name = file(&folder, 1).canonicalize().unwrap().display().to_string();
    let messages: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    assert!(
        messages[0].starts_with(&format!("{name}:2: not a line of the history: expected ident")),
        "{messages:?}"
    );
    assert!(
        messages[1]
            .starts_with(&format!("{name}:4: not a line of the history: missing field `time`")),
        "{messages:?}"
    );
    assert_eq!(messages[2], format!("{name}:5: longer than 4194304 bytes"));
}

#[tokio::test]
async fn lines_that_are_not_later_than_the_last_one_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &[line(at(1, 0), 1), line(at(1, 5), 2)]).await;
    let not_later = Appended::NotLater { last: at(1, 5) };
    assert_eq!(journal.append(&line(at(1, 5), 2)).await.unwrap(), not_later);
    assert_eq!(journal.append(&line(at(1, 4), 9)).await.unwrap(), not_later);
    assert_eq!(
        journal.append(&line(at(0, 9), 9)).await.unwrap(),
        not_later,
        "a line of an earlier day is dropped, too"
    );
    assert!(!file(&folder, 0).exists());
    append_all(&mut journal, &[line(at(1, 6), 3)]).await;
    // In a file that was concatenated by hand, a replay drops repeated lines.
    change(&folder, 1, |text| text.clone() + &text);
    let (lines, report) = replayed(&journal).await;
    assert_eq!(lines, [line(at(1, 0), 1), line(at(1, 5), 2), line(at(1, 6), 3)]);
    assert_eq!((report.lines, report.not_later), (3, 3));
}

#[tokio::test]
async fn a_newer_version_is_refused_by_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = journal(&folder).await;
    append_all(&mut first, &[line(at(0, 0), 1), line(at(0, 1), 2)]).await;
    change(&folder, 0, |text| text + "{\"v\":2,\"when\":\"later\"}\n");
    let mut replay = first.replay(None).await.unwrap();
    replay.next().await.unwrap();
    replay.next().await.unwrap();
    let error = replay.next().await.unwrap_err();
    assert!(error.to_string().ends_with("/ticks-00000.jsonl:3"), "{error}");
    assert!(error.source().unwrap().to_string().starts_with("field v: version 2 is newer than 1"));
    // A journal with such a line cannot be opened, so nothing is written after the line.
    let place = Place::open(&folder.path().display().to_string()).unwrap();
    assert!(matches!(Journal::open(place, POLICY).await, Err(HistoryError::Line { .. })));
}

#[tokio::test]
async fn unknown_fields_are_kept_in_json_and_in_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    let mut strange = line(at(0, 0), 1);
    strange.rest.insert("weather".into(), json!({ "rain": [1, "mm"] }));
    strange.buckets.get_mut("m5.large").unwrap().rest.insert("colour".into(), json!("green"));
    strange.launches[0].rest.insert("zone".into(), json!("a"));
    append_all(&mut journal, &[strange.clone()]).await;
    assert!(
        fs::read_to_string(file(&folder, 0)).unwrap().contains("\"weather\":{\"rain\":[1,\"mm\"]}")
    );
    assert_eq!(replayed(&journal).await.0, [strange.clone()]);
    assert_eq!(journal.compact(day(1)).await.unwrap().compacted, [(day(0), 1)]);
    assert!(!file(&folder, 0).exists());
    assert_eq!(replayed(&journal).await.0, [strange]);
}

/// A link to `/dev/full` simulates a disk without space.
#[tokio::test]
async fn a_full_disk_is_an_error_with_file_and_cause_and_later_appends_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal(&folder).await;
    append_all(&mut journal, &[line(at(0, 0), 1)]).await;
    fs::create_dir_all(file(&folder, 1).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", file(&folder, 1)).unwrap();
    let error = journal.append(&line(at(1, 0), 2)).await.unwrap_err();
    assert!(error.to_string().starts_with("failed to append to "), "{error}");
    assert!(error.to_string().ends_with("/ticks-00000.jsonl"), "{error}");
    assert!(error.source().unwrap().to_string().starts_with("No space left on device"));
    fs::remove_file(file(&folder, 1)).unwrap();
    append_all(&mut journal, &[line(at(1, 0), 2)]).await;
    assert_eq!(replayed(&journal).await.0, [line(at(0, 0), 1), line(at(1, 0), 2)]);
}

const LIMITED: &str = "PROPHET_TEST_LIMITED_FOLDER";

/// The next test runs this one as a separate process that may write at most 4 KiB to a file. The
/// line that crosses the limit is half written when the kernel refuses the rest.
#[tokio::test]
async fn in_a_process_whose_files_are_limited() {
    let Some(folder) = std::env::var_os(LIMITED) else { return };
    let place = Place::open(&folder.into_string().unwrap()).unwrap();
    let mut journal = Journal::open(place, POLICY).await.unwrap();
    for minute in 0..99 {
        if let Err(error) = journal.append(&line(at(0, minute), 1)).await {
            let found: Vec<Line> = replayed(&journal).await.0;
            assert_eq!(found.len(), minute as usize, "only acknowledged lines remain");
            assert!(journal.append(&line(at(0, minute), 1)).await.is_err(), "the disk stays full");
            println!("failed at {minute}: {error}: {}", error.source().unwrap());
            return;
        }
    }
}

#[tokio::test]
async fn no_part_of_a_line_remains_if_the_disk_has_no_space_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let child = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "bash", &test.display().to_string()])
        .args(["--exact", "journal::tests::in_a_process_whose_files_are_limited", "--nocapture"])
        .env(LIMITED, folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && out.contains(": File too large"), "{out}");
    let written = fs::read_to_string(file(&folder, 0)).unwrap();
    assert!(
        written.ends_with('\n') && written.len() > 3_000 && written.len() < 4_096,
        "{}",
        written.len()
    );
    // This process has no limit, so the next append succeeds.
    let mut journal = journal(&folder).await;
    let minute = u32::try_from(written.lines().count()).unwrap();
    append_all(&mut journal, &[line(at(0, minute), 1)]).await;
    let (lines, report) = replayed(&journal).await;
    assert_eq!((lines.len(), report.faults_total), (minute as usize + 1, 0));
}

#[tokio::test]
async fn a_second_writer_is_detected_and_none_of_its_lines_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (journal(&folder).await, journal(&folder).await);
    append_all(&mut one, &[line(at(0, 0), 1), line(at(0, 1), 1)]).await;
    append_all(&mut two, &[line(at(0, 2), 2)]).await;
    assert_eq!(
        one.append(&line(at(0, 2), 1)).await.unwrap(),
        Appended::NotLater { last: at(0, 2) }
    );
    append_all(&mut one, &[line(at(0, 3), 1)]).await;
    let demands: Vec<u64> =
        replayed(&one).await.0.iter().map(|line| line.buckets["m5.large"].demand).collect();
    assert_eq!(demands, [1, 1, 2, 1]);
}

#[tokio::test]
async fn invalid_policy_names_and_lines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::open(&folder.path().display().to_string()).unwrap();
    for name in ["", "..", "a/b", "Ä", "a=b"] {
        assert!(
            matches!(Journal::open(place.clone(), name).await, Err(HistoryError::PolicyName(_))),
            "{name}"
        );
    }
    let mut journal = journal(&folder).await;
    let other = Line { policy: "batch.day".into(), ..line(at(0, 0), 1) };
    let error = journal.append(&other).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a line of policy batch.day does not belong to the history of batch.night"
    );
    let mut long = line(at(0, 0), 1);
    long.rest.insert("long".into(), json!("x".repeat(LINE_BYTES_MAX)));
    assert!(matches!(journal.append(&long).await, Err(HistoryError::TooLong(_))));
    assert!(!file(&folder, 0).exists());
    append_all(&mut journal, &[line(at(0, 0), 1)]).await;
}

#[tokio::test]
async fn in_an_object_store_a_day_is_a_sequence_of_segments() {
    let place = Place::in_memory();
    let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
    let tick = |minute: u32| line(at(0, minute), minute.into());
    let ticks: Vec<Line> = (0..130).map(tick).collect();
    append_all(&mut journal, &ticks[..70]).await;
    // After a restart, the journal continues the last segment.
    let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
    append_all(&mut journal, &ticks[70..]).await;
    let names = ["ticks-00000.jsonl", "ticks-00001.jsonl", "ticks-00002.jsonl"];
    assert_eq!(objects(&place, 0).await, names);
    assert_eq!(replayed(&journal).await.0, ticks);
    assert_eq!(place.policies().await.unwrap(), [POLICY]);
    append_all(&mut journal, &[line(at(1, 0), 1)]).await;
    assert_eq!(journal.compact(day(1)).await.unwrap().compacted, [(day(0), 130)]);
    assert_eq!(objects(&place, 0).await, ["ticks.parquet"]);
    append_all(&mut journal, &[line(at(1, 1), 1)]).await;
    assert_eq!(objects(&place, 1).await, ["ticks-00000.jsonl"]);
    assert_eq!(replayed(&journal).await.0.len(), 132);
}

#[tokio::test]
async fn a_segment_above_the_limit_gets_no_further_line() {
    let place = Place::in_memory();
    let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
    for minute in 0..4 {
        let mut long = line(at(0, minute), 1);
        long.rest.insert("long".into(), json!("x".repeat(SEGMENT_BYTES * 2 / 5)));
        append_all(&mut journal, &[long]).await;
    }
    assert_eq!(objects(&place, 0).await, ["ticks-00000.jsonl", "ticks-00001.jsonl"]);
    assert_eq!(replayed(&journal).await.0.len(), 4);
}

#[tokio::test]
async fn a_segment_of_another_program_is_left_unchanged() {
    let place = Place::in_memory();
    let path = place.segment(POLICY, day(0), 0);
    place.store.put(&path, PutPayload::from_static(b"no line end")).await.unwrap();
    let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
    append_all(&mut journal, &[line(at(0, 0), 1)]).await;
    let (lines, report) = replayed(&journal).await;
    assert_eq!((lines, report.faults_total), (vec![line(at(0, 0), 1)], 1));
    assert_eq!(objects(&place, 0).await, ["ticks-00000.jsonl", "ticks-00001.jsonl"]);
}

#[tokio::test]
async fn a_put_whose_response_was_lost_is_not_repeated() {
    let place = Place::in_memory();
    let mut journal = Journal::open(place.clone(), POLICY).await.unwrap();
    append_all(&mut journal, &[line(at(0, 0), 1)]).await;
    // This put simulates a first attempt that succeeded.
    let mut same = Journal::open(place.clone(), POLICY).await.unwrap();
    append_all(&mut same, &[line(at(0, 1), 2)]).await;
    append_all(&mut journal, &[line(at(0, 1), 2), line(at(0, 2), 3)]).await;
    assert_eq!(
        replayed(&journal).await.0,
        [line(at(0, 0), 1), line(at(0, 1), 2), line(at(0, 2), 3)]
    );
    // A different line with the same time comes from another writer.
    append_all(&mut same, &[line(at(0, 3), 4)]).await;
    assert_eq!(
        journal.append(&line(at(0, 3), 9)).await.unwrap(),
        Appended::NotLater { last: at(0, 3) }
    );
}

#[test]
fn the_message_of_a_fault_names_file_and_line() {
    let fault =
        HistoryFault { file: "f".into(), line: 3, kind: HistoryFaultKind::Torn { bytes: 5 } };
    assert_eq!(fault.to_string(), "f:3: a torn last line of 5 bytes");
}
