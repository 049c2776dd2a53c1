//! The features of the input `state` of a model, by name.

/// The length of a day in seconds, the period of the daily features.
pub(super) const DAY_SECONDS: i64 = 86_400;

/// A feature of the state of a bucket, in nodes unless its comment names another unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// Present demand.
    Demand,
    /// The lead time in seconds: the length of the window of a need.
    LeadSeconds,
    /// Length of the history in days, at most 8.
    HistoryDays,
    /// The mean free room over the shapes that arrive most.
    RoomMean,
    /// The largest free room of these shapes.
    RoomMost,
    /// Pods that arrived within this many seconds before now.
    Arrivals(i64),
    /// The mean need around the moment this many seconds ago.
    NeedAgo(i64),
    /// The fraction of past needs of at least `THRESHOLDS[_]` nodes, 0 to 1.
    Need(usize),
}

impl Feature {
    /// The names of all features.
    pub(super) const NAMES: [&str; 17] = [
        "demand",
        "lead_seconds",
        "history_days",
        "room_mean",
        "room_most",
        "arrivals_10m",
        "arrivals_1h",
        "arrivals_1d",
        "need_day_ago",
        "need_week_ago",
        "need_1",
        "need_2",
        "need_4",
        "need_8",
        "need_16",
        "need_32",
        "need_64",
    ];

    /// The features in the order of [`Self::NAMES`].
    const ALL: [Self; 17] = [
        Self::Demand,
        Self::LeadSeconds,
        Self::HistoryDays,
        Self::RoomMean,
        Self::RoomMost,
        Self::Arrivals(600),
        Self::Arrivals(3_600),
        Self::Arrivals(DAY_SECONDS),
        Self::NeedAgo(DAY_SECONDS),
        Self::NeedAgo(7 * DAY_SECONDS),
        Self::Need(0),
        Self::Need(1),
        Self::Need(2),
        Self::Need(3),
        Self::Need(4),
        Self::Need(5),
        Self::Need(6),
    ];

    /// Returns the feature with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| Self::ALL[at])
    }
}
