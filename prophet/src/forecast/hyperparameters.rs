//! Every number that a method rests on and that could be tuned: the same for all logs and clusters.

/// After a week a past window counts half: long enough to know weekends, short enough to forget a project that has ended.
pub(super) const HALF_LIFE_SECONDS: f64 = 7.0 * 86_400.0;

/// Two hours away in time of day, a window counts a third (1/e).
pub(super) const DAY_SCALE_SECONDS: f64 = 7_200.0;

/// Windows that are drawn: the quantile 0.99 still rests on four.
pub(super) const WINDOWS: usize = 400;

/// Windows that are kept at hand, drawn by recency and time of day: enough that rare moments are among them.
pub(super) const POOL: usize = 2_000;

/// So long they stand for all: a short time on the scale of a day.
pub(super) const POOL_SECONDS: i64 = 600;

/// Windows overlap by most of their length: every third start says as much as all.
pub(super) const STRIDE: usize = 3;

/// Closed windows that make a forecast, in ticks: two hours of one-minute ticks.
pub(super) const WINDOWS_MIN: usize = 120;

/// Arrivals of the last minute say whether a burst is on, those of the last ten how busy it is.
pub(super) const ACTIVITY_SECONDS: [i64; 2] = [60, 600];

/// How much a difference in each of them counts.
pub(super) const ACTIVITY_WEIGHTS: [f64; 2] = [1.0, 0.5];

/// Where ln(1 + room) differs by this much, a window counts a third (1/e).
pub(super) const ROOM_SCALE: f64 = 0.5;

/// On a day of the other kind (a weekend's for a working day, or the reverse), a window counts half.
pub(super) const OTHER_KIND_OF_DAY: f64 = 0.5;

/// A node that was launched stays for ten minutes at least: arrivals in half of them are worth a node, too.
pub(super) const PATIENCE_SECONDS: i64 = 300;

/// The quantiles at which the ensemble follows each method.
pub(super) const QUANTILES: [f64; 12] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999];

/// An expert that costs a day's mean loss more than another loses this many e-folds of weight against it: bursts are
/// noise, and more than one must speak.
pub(super) const ETA: f64 = 6.0;

/// Within about this time an expert that was left behind can come back.
pub(super) const FORGETTING_SECONDS: f64 = 7.0 * 86_400.0;

/// What a day's mean loss is, is forgotten by half in this time.
pub(super) const SCALE_SECONDS: f64 = 7.0 * 86_400.0;

/// Experts with less weight than this have no say.
pub(super) const WEIGHT_MIN: f64 = 0.001;

/// Who was heard for less than this share of the time of others has nothing to show that holds a service level.
pub(super) const HEARD_SHARE: f64 = 0.5;

/// By how much a launch moves what is asked of shadows for a service level, in e-folds of the odds.
pub(super) const FEEDBACK_GAIN: f64 = 0.05;

/// No farther than this.
pub(super) const FEEDBACK_MAX: f64 = 6.0;

/// Autopilot's half-life for CPU.
pub(super) const LIMIT_HALF_LIFE_SECONDS: f64 = 12.0 * 3_600.0;

/// Autopilot's percentile where running out hurts.
pub(super) const LIMIT_PERCENTILE: f64 = 0.98;

/// Autopilot holds the largest recommendation of an hour.
pub(super) const LIMIT_HOLD_SECONDS: i64 = 3_600;

/// Decay rates of Autopilot's models, a tick: about ten minutes, two hours, a day of one-minute ticks.
pub(super) const MODEL_DECAYS: [f64; 3] = [0.1, 0.008, 0.0007];

/// Margins of its models, in nodes.
pub(super) const MODEL_MARGINS: [u64; 4] = [0, 1, 2, 4];

/// What an overrun costs against an underrun: what waiting costs against idling.
pub(super) const MODEL_OVERRUN: f64 = 9.0;

/// See [`MODEL_OVERRUN`].
pub(super) const MODEL_UNDERRUN: f64 = 1.0;

/// What a change of the limit costs: a tenth of an underrun.
pub(super) const MODEL_LIMIT_CHANGE: f64 = 0.1;

/// What a change of the model costs.
pub(super) const MODEL_CHANGE: f64 = 0.1;

/// How fast a model's cost is forgotten, a tick: two hours.
pub(super) const MODEL_COST_DECAY: f64 = 0.008;

/// Errors of demand ahead are followed for so many ticks: half an hour of one-minute ticks.
pub(super) const AHEAD_TICKS: usize = 30;

/// Holt and Winters: the level follows by half in this time (α). Faster, and there is nothing left for the season to be.
pub(super) const SMOOTHING_HALF_LIFE_SECONDS: f64 = 86_400.0;

/// How fast the trend follows the level (β); it is damped (φ) by half in the same time.
pub(super) const SMOOTHING_TREND: f64 = 0.1;

/// What a point of the season makes good of its error in a day (γ): nothing, within weeks, within days.
pub(super) const SMOOTHING_SEASONS: [f64; 3] = [0.0, 0.1, 0.3];

/// How much of a deviation lasts over a minute (λ): all; half of it for 12 hours, an hour, a quarter of an hour.
pub(super) const SMOOTHING_LASTS: [f64; 4] = [1.0, 0.999, 0.99, 0.95];

/// What ARIMA is fitted to: a week of one-minute ticks.
pub(super) const ARIMA_TICKS: usize = 7 * 24 * 60;

/// Ticks before the first fit, which has fifteen unknowns.
pub(super) const ARIMA_TICKS_MIN: usize = 8 * 60;

/// Lags of the autoregression that tells the shocks: about three times those of the model.
pub(super) const ARIMA_LONG_LAGS: usize = 20;

/// Coefficients are shrunk as if a change of one node had said that they are 0.
pub(super) const ARIMA_RIDGE: f64 = 1.0;

/// η of the calibration, in log-odds of the level. At the quantile 0.95 and six ticks to a lead, a lead full of misses raises
/// the odds by a twentieth, and a day without a miss nearly halves them. Slower, and a week may miss by two points; faster, and the
/// same idling hides less.
pub(super) const CALIBRATION: f64 = 0.05;

/// Levels at which a distribution is read, at the least and at the most: of a few hundred past windows nothing beyond is known.
pub(super) const CALIBRATION_LEVELS: (f64, f64) = (0.5, 0.9995);
