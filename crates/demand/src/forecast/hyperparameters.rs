//! All hyperparameters of the forecasting methods. The values are the same for all logs and
//! clusters.

use usage::ModelWeights;

/// Half-life of past windows, forecast errors and expert costs, in seconds: one week. A week is
/// long enough to contain a weekend and short enough to forget a project that has ended.
pub(super) const HALF_LIFE_SECONDS: f64 = 7.0 * 86_400.0;

/// Scale of the difference in time of day, in seconds: two hours. At this difference the weight of
/// a past window falls to 1/e, so windows from another part of the day hardly count.
pub(super) const DAY_SCALE_SECONDS: f64 = 7_200.0;

/// Number of draws of past windows for one distribution. With 400 draws, four lie above the
/// quantile 0.99.
pub(super) const WINDOWS: usize = 400;

/// Number of draws in the pool of past windows, which are drawn by recency, time of day and kind of
/// day. 2,000 draws are enough to include rare moments.
pub(super) const POOL: usize = 2_000;

/// How long one pool of drawn windows is reused, in seconds. Ten minutes is short compared with a
/// day, because the pool is drawn by time of day.
pub(super) const POOL_SECONDS: i64 = 600;

/// Ticks between the starts of two recorded windows. Successive windows share most of their ticks,
/// so every third start contains nearly as much information as every start.
pub(super) const STRIDE: usize = 3;

/// Fewest ticks of closed windows that a forecast needs; below it a method reports too little
/// history. 120 one-minute ticks are two hours, so one tick in 20 can still be observed six times.
pub(super) const WINDOWS_MIN: usize = 120;

/// Lengths of the periods over which recent arrivals are counted, in seconds. Arrivals of the last
/// minute show whether a burst is in progress, and arrivals of the last ten minutes show how busy
/// the cluster is.
pub(super) const ACTIVITY_SECONDS: [i64; 2] = [60, 600];

/// Weight of each period of [`ACTIVITY_SECONDS`]: e-folds of similarity for a difference of 1
/// between the square roots of the arrivals, in eighths of a node. The last minute weighs twice as
/// much, because it shows whether a burst is in progress.
pub(super) const ACTIVITY_WEIGHTS: [f64; 2] = [1.0, 0.5];

/// Scale of the difference in ln(1 + free room), without a unit. At this difference, a factor of
/// 1.6 in 1 + room, the weight of a past window falls to 1/e. An initial choice, not tuned.
pub(super) const ROOM_SCALE: f64 = 0.5;

/// Weight of a past window on the other kind of day (working day or weekend), as a factor. One half
/// prefers days of the same kind and still uses the others.
pub(super) const OTHER_KIND_OF_DAY: f64 = 0.5;

/// Number of the largest gangs of a window whose sizes are forecast. More gangs than this rarely
/// arrive within a launch latency, and further ones are small.
pub(super) const GANG_RANKS: usize = 16;

/// Quantiles at which the ensemble follows each method, in (0, 1). A quantile q is optimal where
/// waiting costs q / (1 - q) times as much as idling (the newsvendor problem), so these cover the
/// price ratios from 1.5 to 199. With [`LEVEL_QUANTILES`], the open windows of the evaluation cost
/// the same.
pub(super) const QUANTILES: [f64; 7] = [0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995];

/// The same for a service level, which needs finer steps: with seven quantiles, two weeks of Philly
/// cost 72 % more at a level of 0.9.
pub(super) const LEVEL_QUANTILES: [f64; 12] =
    [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999];

/// How much longer than the lead time the scenario windows are for a service level, in seconds. A
/// launched node stays for some minutes, so later arrivals also justify a node. At a level of 0.95,
/// Philly costs 40 % less than without. Where waiting has a price, longer windows cost three to
/// four points more on Philly.
pub(super) const LEVEL_PATIENCE_SECONDS: i64 = 300;

/// The rules of bursts that the ensemble follows: how far each looks back, in seconds, and the most
/// nodes that it holds. On CTC and HPC2N, most of the waiting that can be removed for less than it
/// costs follows other arrivals by minutes. Without these rules, the ensemble costs two and three
/// points more there.
pub(super) const BURSTS: [(&str, i64, u64); 3] =
    [("burst:10m:4", 600, 4), ("burst:20m:2", 1_200, 2), ("burst:10m:16", 600, 16)];

/// The constant numbers of nodes that are compared with the ensemble for a service level. Each is
/// held alone, or not at all: among the experts, constants moved the median, and one open window of
/// HPC2N hid two points less for the same dollars.
pub(super) const LEVEL_CONSTANTS: [(&str, u64); 12] = [
    ("constant:1", 1),
    ("constant:2", 2),
    ("constant:3", 3),
    ("constant:4", 4),
    ("constant:6", 6),
    ("constant:8", 8),
    ("constant:12", 12),
    ("constant:16", 16),
    ("constant:24", 24),
    ("constant:32", 32),
    ("constant:48", 48),
    ("constant:64", 64),
];

/// Learning rate of the experts' weights. An expert whose loss exceeds another's by the mean loss
/// of one day loses this many e-folds of weight against it. The rate is low because bursts are
/// noise, so no single burst may decide between experts.
pub(super) const ETA: f64 = 6.0;

/// Time constant of the weight that is redistributed among the experts in the ratio of their first
/// weights, in seconds. An expert that fell behind can recover within about this time: one week,
/// the half-life of its costs.
pub(super) const FORGETTING_SECONDS: f64 = 7.0 * 86_400.0;

/// Half-life of the mean daily loss, the unit of [`ETA`], and of the regrets of a blend, in
/// seconds. One week, the half-life of the costs.
pub(super) const SCALE_SECONDS: f64 = 7.0 * 86_400.0;

/// Smallest total weight, as a fraction, at which the experts of a method take part in a forecast.
/// The method must reach it in at least one bucket. A thousandth hardly moves a weighted median, so
/// the method's run time is saved.
pub(super) const WEIGHT_MIN: f64 = 0.001;

/// The prices of a pending pod-hour, in instance-hours at the mean price of the buckets, at which
/// experts are weighted for a service level. One of them is chosen by the level. Each is 1.4 times
/// the one before, from a quarter, at which hardly any node is held, to 256. With steps of two, two
/// open windows of openb hid one to two points more at a level of 0.9. Higher prices reached a
/// level of 0.99 on Philly and CTC hardly better, with several times the idling.
pub(super) const LEVEL_RATIOS: [f64; 21] = [
    0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0,
    90.0, 128.0, 181.0, 256.0,
];

/// Step of the feedback on a service level, in e-folds of the odds for pods that fill one node.
/// Pods that waited for 200 nodes move the odds by less than a factor of e, because one gang can
/// wait for tens of nodes. With ten times the step, the open windows of the evaluation reached the
/// same levels with more idling: 3.8 for 2.3 % on Philly at 0.9.
pub(super) const FEEDBACK_GAIN: f64 = 0.005;

/// Largest shift of the feedback in either direction, in e-folds of the odds. The bound (a factor
/// of about 400) stops the shift from growing without end where no expert reaches the level.
pub(super) const FEEDBACK_MAX: f64 = 6.0;

/// Half-life of the samples of the moving window, in seconds: 12 hours, Autopilot's value for CPU.
pub(super) const LIMIT_HALF_LIFE_SECONDS: f64 = 12.0 * 3_600.0;

/// Percentile of the load that the moving window covers, as a fraction. Autopilot uses the 98th
/// where running out of a resource does harm.
pub(super) const LIMIT_PERCENTILE: f64 = 0.98;

/// How long the largest recommendation of the moving window is held, in seconds: one hour, as in
/// Autopilot.
pub(super) const LIMIT_HOLD_SECONDS: i64 = 3_600;

/// Decay rates of the models of `autopilot-ml`, as fractions a minute. They are the inverses of
/// about ten minutes, two hours and one day, so the models differ widely in memory.
pub(super) const MODEL_DECAYS: [f64; 3] = [0.1, 0.008, 0.0007];

/// Safety margins of the models of `autopilot-ml`, in nodes. They double from one node, because a
/// node is the smallest margin.
pub(super) const MODEL_MARGINS: [u64; 4] = [0, 1, 2, 4];

/// The weights of the costs of `autopilot-ml`, for a node and a tick. The decay rate is a fraction
/// a minute.
///
/// Nine to one is the default price of waiting relative to idling. A sweep of the other weights
/// over Philly, LCG and openb (`the_sweep_of_the_weights_is_printed`) shows that they matter
/// little. These cost 2.25, 7.42 and 0.09 a tick, and the cheapest settings 2.19, 6.73 and 0.08,
/// with more changes of the limit.
pub(super) const MODEL_WEIGHTS: ModelWeights = ModelWeights {
    overrun: 9.0,
    underrun: 1.0,
    limit_change: 0.1,
    model_change: 0.1,
    cost_decay: 0.008,
};

/// Largest distance at which errors of demand ahead are recorded, in ticks: half an hour of
/// one-minute ticks. The bound limits memory, because each distance has its own histogram.
pub(super) const AHEAD_TICKS: usize = 30;

/// Half-life of the level (α) and of the damped trend (φ) of `holt-winters`, in seconds: one day. A
/// faster level would absorb the daily season.
pub(super) const SMOOTHING_HALF_LIFE_SECONDS: f64 = 86_400.0;

/// Fraction of a change of the level that the trend takes up (β), in [0, 1]. A tenth keeps the
/// trend slower than the level.
pub(super) const SMOOTHING_TREND: f64 = 0.1;

/// Fractions of its error by which a point of the season is corrected in one day (γ): none, a
/// correction within weeks, and one within days. The candidate with the least error is used,
/// because logs differ in their season.
pub(super) const SMOOTHING_SEASONS: [f64; 3] = [0.0, 0.1, 0.3];

/// Fractions of a deviation that remain after one minute (λ): all of it, or half-lives of 12 hours,
/// one hour and a quarter of an hour. The candidate with the least error is used, because logs
/// differ in the length of their jobs.
pub(super) const SMOOTHING_LASTS: [f64; 4] = [1.0, 0.999, 0.99, 0.95];

/// Number of ticks to which ARIMA is fitted: one week of one-minute ticks, so that a fit contains a
/// weekend.
pub(super) const ARIMA_TICKS: usize = 7 * 24 * 60;

/// Fewest ticks for a first fit of ARIMA: eight hours of one-minute ticks. A fit has 15 unknowns,
/// so it has 32 ticks for each of them.
pub(super) const ARIMA_TICKS_MIN: usize = 8 * 60;

/// Number of lags of the long autoregression that estimates the shocks: about three times the seven
/// lags of the model, because a moving average needs more lags than its own to be approximated.
pub(super) const ARIMA_LONG_LAGS: usize = 20;

/// Ridge of the fits of ARIMA, in squared nodes. It shrinks each coefficient as much as one
/// observation with a change of one node that supports the value 0, so it matters only where there
/// is little data.
pub(super) const ARIMA_RIDGE: f64 = 1.0;

/// Step η of the calibration, in log-odds of the level. At the quantile 0.95 and a lead time of six
/// ticks, a lead time full of misses raises the odds by a twentieth, and a day without a miss
/// nearly halves them. With a slower step a week may miss its quantile by two points; with a faster
/// one the same idling hides fewer launches.
pub(super) const CALIBRATION: f64 = 0.05;

/// Lowest and highest level at which a calibrated distribution is evaluated, in (0, 1). A few
/// hundred past windows contain no information beyond the highest.
pub(super) const CALIBRATION_LEVELS: (f64, f64) = (0.5, 0.9995);
