use demand::forecast::sample;
use demand::record::BucketTick;

use super::*;

fn at(minute: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(60 * minute, 0).unwrap()
}

/// Steps of 25, 50 and 100 %, of two hours each.
fn rollout() -> Rollout {
    let steps = vec![25, 50, 100];
    Rollout { steps, step_seconds: 7_200, spend_cap: None, control_days: false }
}

fn step(percent: u8, phase: Phase) -> Step {
    Step { percent, phase, since: at(120), generation: 1, why: String::new() }
}

/// Records one minute after the other. `starts` returns the pods that started in time and later,
/// and the placeholders on nodes.
fn recorded(minutes: std::ops::Range<i64>, starts: impl Fn(i64) -> (u64, u64, u64)) -> History {
    let mut history = History::new(&sample::catalog());
    for minute in minutes {
        let (pods_hidden, pods_waited, ready) = starts(minute);
        let bucket = BucketTick { ready, pods_hidden, pods_waited, ..BucketTick::default() };
        history.record(sample::tick(minute, vec![bucket]));
    }
    history
}

/// Judges the step of 25 % from minute 120 on, at minute `now`. A node costs 2 dollars per hour.
fn judged(rollout: &Rollout, history: &History, now: i64) -> Option<Step> {
    let step = step(25, Phase::Progressing);
    let measured = rollout.measure(&step, history, &[MicroDollars(2_000_000)]);
    rollout.next(&step, &measured, at(now))
}

#[track_caller]
fn check(next: Option<Step>, percent: u8, phase: Phase, why: &str) {
    let next = next.unwrap();
    assert_eq!((next.percent, next.phase, next.why.as_str()), (percent, phase, why));
}

#[test]
fn a_step_follows_once_the_present_one_lasted_long_enough() {
    // Before the step, every second pod waits, and then every fourth.
    let starts = |minute| if minute <= 120 { (1, 1, 0) } else { (3, 1, 2) };
    let history = recorded(0..241, starts);
    assert_eq!(judged(&rollout(), &history, 239), None);
    let why = "went on to 50 %: the service level of 480 pods is 75.0 %, that of 240 compared pods is 50.0 % (difference +25.0 to +25.0 points), and placeholders cost $4.00 per hour";
    check(judged(&rollout(), &history, 240), 50, Phase::Progressing, why);
}

#[test]
fn a_step_without_enough_pods_goes_on() {
    let few = recorded(0..241, |minute| (u64::from(minute > 221), 0, 1));
    assert_eq!(judged(&rollout(), &few, 240), None);
    assert_eq!(judged(&rollout(), &recorded(0..241, |_| (0, 0, 1)), 9_000), None);
    let enough = recorded(0..241, |minute| (u64::from(minute > 220), 0, 1));
    assert_eq!(judged(&rollout(), &enough, 240).unwrap().percent, 50);
}

#[test]
fn a_rollout_goes_back_if_it_costs_too_much() {
    let history = recorded(0..241, |minute| (1, 0, u64::from(minute > 120)));
    let within = Rollout { spend_cap: Some(2.0), ..rollout() };
    assert_eq!(judged(&within, &history, 240).unwrap().percent, 50);
    let capped = Rollout { spend_cap: Some(1.9), ..rollout() };
    let why = "went back from 25 % to 0 %, because placeholders cost more than $1.90 per hour: the service level of 120 pods is 100.0 %, that of 120 compared pods is 100.0 % (difference +0.0 to +0.0 points), and placeholders cost $2.00 per hour";
    check(judged(&capped, &history, 240), 0, Phase::WentBack, why);
}

#[test]
fn a_rollout_goes_back_if_the_service_level_falls_beyond_chance() {
    // Bursts of ten pods in every tenth minute, of which a quarter waits, and later more.
    let burst = |waited| {
        move |minute: i64| match (minute % 10, minute <= 120) {
            (0, true) => (8, 2, 1),
            (0, false) => (10 - waited, waited, 1),
            _ => (0, 0, 1),
        }
    };
    let falls = judged(&rollout(), &recorded(0..241, burst(6)), 240).unwrap();
    assert_eq!((falls.percent, falls.phase), (0, Phase::WentBack));
    // In one of twelve parts, all pods wait: this may be chance.
    let unlucky =
        recorded(0..241, |minute| if minute == 200 { (0, 10, 1) } else { burst(2)(minute) });
    assert_eq!(judged(&rollout(), &unlucky, 240).unwrap().phase, Phase::Progressing);
}

/// As after a larger part that cost too much, or once a policy that acts gets a rollout.
#[test]
fn a_time_with_more_placeholders_is_no_evidence_against_a_step() {
    let history = recorded(0..241, |minute| if minute <= 120 { (1, 0, 3) } else { (0, 1, 1) });
    assert_eq!(judged(&rollout(), &history, 240).unwrap().percent, 50);
}

#[test]
fn the_last_step_completes_the_rollout() {
    let history = recorded(0..241, |_| (1, 0, 1));
    let last = step(100, Phase::Progressing);
    let measured = rollout().measure(&last, &history, &[]);
    let complete = rollout().next(&last, &measured, at(240)).unwrap();
    assert_eq!((complete.percent, complete.phase), (100, Phase::Complete));
    assert_eq!(rollout().next(&complete, &measured, at(9_000)), None);
    assert_eq!(rollout().percent(&complete, at(9_000)), None);
    // A later step is new.
    let half = Step { percent: 50, ..complete };
    assert_eq!(rollout().next(&half, &measured, at(9_000)).unwrap().percent, 100);
}

#[test]
fn a_rollout_that_went_back_goes_on_once_the_policy_changes() {
    let history = recorded(0..241, |_| (1, 0, 1));
    let back = step(25, Phase::WentBack);
    let measured = rollout().measure(&back, &history, &[]);
    assert_eq!(rollout().next(&back, &measured, at(9_000)), None);
    assert_eq!(rollout().resume(&back, 1, at(240)), None);
    let resumed = rollout().resume(&back, 2, at(240)).unwrap();
    assert_eq!((resumed.percent, resumed.since), (25, at(240)));
    assert_eq!(resumed.phase, Phase::Progressing);
    assert_eq!(rollout().resume(&resumed, 3, at(300)), None);
}

#[test]
fn the_percentage_is_at_most_that_of_the_last_step() {
    let of = |steps: &[u8], percent| {
        let rollout = Rollout { steps: steps.into(), ..rollout() };
        rollout.percent(&step(percent, Phase::Progressing), at(0))
    };
    assert_eq!(of(&[25, 50], 25), Some(25));
    assert_eq!(of(&[25, 50], 100), Some(50));
    assert_eq!(of(&[25, 100], 100), None);
    assert_eq!(of(&[25, 100], 0), Some(0));
}

#[test]
fn one_of_every_two_days_is_a_control_day() {
    let is_control = |day: i64| is_control_day(at(1_440 * day + 700));
    let firsts = (0..1_000).filter(|pair| {
        assert_ne!(is_control(2 * pair), is_control(2 * pair + 1), "days of pair {pair}");
        is_control(2 * pair)
    });
    assert!((450..=550).contains(&firsts.count()));
    assert_eq!(is_control_day(at(1_440)), is_control_day(at(2 * 1_440 - 1)));
}

#[test]
fn pods_are_compared_with_those_of_control_days() {
    let rollout = Rollout { control_days: true, step_seconds: 10 * DAY, ..rollout() };
    let step = Step { since: at(-1), ..step(100, Phase::Progressing) };
    let on_control = (0..10).map(|day| rollout.percent(&step, at(1_440 * day)) == Some(0));
    assert_eq!(on_control.filter(|is_control| *is_control).count(), 5);
    let history = recorded(0..14_400, |minute| {
        let (rare, frequent) = (u64::from(minute % 4 == 0), u64::from(minute % 4 != 0));
        if is_control_day(at(minute)) { (rare, frequent, 0) } else { (frequent, rare, 3) }
    });
    let measured = rollout.measure(&step, &history, &[MicroDollars(1_000_000)]);
    assert_eq!((measured.level, measured.reference_level), (Some(0.75), Some(0.25)));
    assert!((measured.dollars_per_hour - 3.0).abs() < 1e-9);
    let complete = rollout.next(&step, &measured, at(14_399)).unwrap();
    assert_eq!(complete.phase, Phase::Complete);
    assert_eq!(rollout.percent(&complete, at(1_440)), None);
}

#[test]
fn a_status_restores_the_step() {
    let step = Step { why: "the rollout began with 25 %".into(), ..step(25, Phase::WentBack) };
    let status = step.status(Some(&Measured::default()));
    assert_eq!(status.measured, "no pod started, and placeholders cost $0.00 per hour");
    assert_eq!(Step::recalled(&status, 1), Some(step));
    let invalid = RolloutStatus { since: "yesterday".into(), ..status };
    assert_eq!(Step::recalled(&invalid, 1), None);
}
