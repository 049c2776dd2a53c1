//! How long the steps of workflows take.

use std::collections::BTreeMap;

use demand::record::StepRun;

/// How long steps take, by template: the survival functions of their run times.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunTimes {
    all: Survival,
    by_template: BTreeMap<String, (Survival, u64)>,
    /// The number of runs so far.
    learnt: u64,
}

/// The most templates whose run times are remembered. A further one replaces the one of which no
/// step ended for the longest time.
const TEMPLATES_MAX: usize = 1_000;

/// The number of ended steps from which the run times of a template are known. Before, those of all
/// steps stand for them.
const RUNS_MIN: u32 = 10;

impl RunTimes {
    /// Learns from a step that ended.
    pub(crate) fn learn(&mut self, StepRun { template, seconds }: &StepRun) {
        self.learnt += 1;
        self.all.learn(*seconds);
        if !self.by_template.contains_key(template) && self.by_template.len() >= TEMPLATES_MAX {
            let oldest = self.by_template.iter().min_by_key(|(_, (_, at))| *at);
            let oldest = oldest.map(|(template, _)| template.clone());
            oldest.map(|template| self.by_template.remove(&template));
        }
        let (times, at) = self.by_template.entry(template.clone()).or_default();
        times.learn(*seconds);
        *at = self.learnt;
    }

    /// The survival function of the steps of a template.
    pub(crate) fn of(&self, template: &str) -> &Survival {
        let own = self.by_template.get(template).map(|(own, _)| own);
        own.filter(|own| own.runs >= RUNS_MIN).unwrap_or(&self.all)
    }
}

/// The survival function of run times: a histogram in which the newest runs weigh most, with one
/// run whose time is unknown.
#[derive(Clone, Debug)]
pub(crate) struct Survival {
    /// The weights of the run times in [`Self::bound`] of this index and of the next one.
    weights: Vec<f64>,
    total: f64,
    /// The number of runs, at most [`RUNS_MIN`].
    runs: u32,
}

impl Default for Survival {
    fn default() -> Self {
        Self { weights: vec![0.0; Self::BINS], total: 0.0, runs: 0 }
    }
}

impl Survival {
    /// The number of bins: from a second to 12 days. The last one has all longer run times, too.
    const BINS: usize = 20 * Self::BINS_OF_OCTAVE;

    /// The number of bins from a run time to twice that time. A bin is 9 % wide.
    const BINS_OF_OCTAVE: usize = 8;

    /// The weight of a run relative to that of the next one.
    const DECAY: f64 = 0.98;

    /// The weight of the run whose time is unknown.
    const UNKNOWN: f64 = 1.0;

    /// The median of the unknown run time, in seconds: an hour.
    const UNKNOWN_SECONDS: f64 = 3_600.0;

    /// The lower bound of a bin, in seconds.
    fn bound(bin: usize) -> f64 {
        if bin == 0 { 0.0 } else { (bin as f64 / Self::BINS_OF_OCTAVE as f64).exp2() }
    }

    fn bin(seconds: f64) -> usize {
        let bin = seconds.max(1.0).log2() * Self::BINS_OF_OCTAVE as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of bins, which is at least 0"
        )]
        let bin = (bin + 1e-9) as usize;
        bin.min(Self::BINS - 1)
    }

    fn learn(&mut self, seconds: u32) {
        self.weights.iter_mut().for_each(|weight| *weight *= Self::DECAY);
        self.total = self.total * Self::DECAY + 1.0;
        self.weights[Self::bin(f64::from(seconds))] += 1.0;
        self.runs = self.runs.saturating_add(1).min(RUNS_MIN);
    }

    /// The chance that a step takes longer than this, in (0, 1].
    fn longer(&self, seconds: f64) -> f64 {
        let at = Self::bin(seconds);
        let later: f64 = self.weights[at + 1..].iter().sum();
        let (from, until) = (Self::bound(at), Self::bound(at + 1));
        let rest = ((until - seconds) / (until - from)).clamp(0.0, 1.0);
        let unknown = Self::UNKNOWN / (1.0 + seconds / Self::UNKNOWN_SECONDS);
        (later + rest * self.weights[at] + unknown) / (self.total + Self::UNKNOWN)
    }

    /// The chance that a step that has run for `age` ends within `seconds` from now, in [0, 1).
    pub(crate) fn ends_within(&self, age: f64, seconds: f64) -> f64 {
        1.0 - self.longer(age + seconds) / self.longer(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(template: &str, seconds: u32) -> StepRun {
        StepRun { template: template.into(), seconds }
    }

    /// Checks the chance that a step of this age ends within five minutes.
    #[track_caller]
    fn check(runs: &[u32], age: f64, expected: std::ops::RangeInclusive<f64>) {
        let mut times = RunTimes::default();
        for seconds in runs {
            times.learn(&run("a", *seconds));
        }
        let chance = times.of("a").ends_within(age, 300.0);
        assert!(expected.contains(&chance), "{chance}");
    }

    #[test]
    fn the_end_of_a_step_is_expected_when_those_before_it_ended() {
        let alike = [900; 20];
        check(&alike, 0.0, 0.0..=0.01);
        check(&alike, 500.0, 0.0..=0.01);
        check(&alike, 700.0, 0.9..=1.0);
        // Half of the steps fail early.
        let failing = [[30, 900]; 20].concat();
        check(&failing, 0.0, 0.4..=0.55);
        check(&failing, 60.0, 0.0..=0.01);
    }

    #[test]
    fn a_step_that_is_older_than_all_others_may_run_on() {
        check(&[900; 20], 4_000.0, 0.01..=0.08);
        check(&[], 0.0, 0.01..=0.09);
        check(&[u32::MAX; 20], 0.0, 0.0..=0.01);
        check(&[u32::MAX; 20], 1e12, 0.0..=0.01);
    }

    #[test]
    fn the_newest_runs_weigh_most() {
        check(&[[60; 50].as_slice(), &[900; 150]].concat(), 0.0, 0.0..=0.06);
        check(&[[900; 50].as_slice(), &[60; 150]].concat(), 0.0, 0.92..=1.0);
    }

    #[test]
    fn all_steps_stand_for_a_template_of_few_runs() {
        let mut times = RunTimes::default();
        (0..90).for_each(|_| times.learn(&run("short", 60)));
        let within = |times: &RunTimes| times.of("long").ends_within(0.0, 300.0);
        (0..9).for_each(|_| times.learn(&run("long", 5_000)));
        assert!(within(&times) > 0.7);
        times.learn(&run("long", 5_000));
        assert!(within(&times) < 0.1);
    }

    #[test]
    fn the_templates_that_are_used_are_remembered() {
        let mut times = RunTimes::default();
        for template in 0..2 * TEMPLATES_MAX {
            times.learn(&run(&template.to_string(), 60));
            times.learn(&run("used", 60));
        }
        assert_eq!(times.by_template.len(), TEMPLATES_MAX);
        assert!(times.by_template.contains_key("used"));
        assert!(!times.by_template.contains_key("0"));
    }

    /// The survival function is that of the runs, within the width of a bin.
    #[test]
    fn the_survival_function_is_that_of_the_runs() {
        let runs: Vec<u32> = (0..200).map(|n| 37 * (n * 71 % 200) + 20).collect();
        let mut survival = Survival::default();
        for seconds in &runs {
            survival.learn(*seconds);
        }
        let age = |index: usize| (runs.len() - 1 - index) as f64;
        let weight = |index: usize| Survival::DECAY.powf(age(index));
        let total: f64 = (0..runs.len()).map(weight).sum();
        for seconds in (0..8_000).step_by(100).map(f64::from) {
            let longer = |width: f64| -> f64 {
                let is_longer = |index: &usize| f64::from(runs[*index]) * width > seconds;
                let sum: f64 = (0..runs.len()).filter(is_longer).map(weight).sum();
                (sum + 1.0 / (1.0 + seconds / 3_600.0)) / (total + 1.0)
            };
            let found = survival.longer(seconds);
            assert!(longer(1.0 / 1.1) <= found && found <= longer(1.1), "{seconds}: {found}");
        }
    }
}
