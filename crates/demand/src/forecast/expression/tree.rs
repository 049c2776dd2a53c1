//! The typed expression and its evaluation.

use chrono::{DateTime, Datelike, Timelike, Utc};

/// What an expression reads: one bucket at one moment.
pub(crate) struct Inputs<'a> {
    /// The name of the bucket.
    pub bucket: &'a str,
    /// Present demand in nodes.
    pub demand: f64,
    /// The CPU cores of a node.
    pub cores: f64,
    /// The price of a node in dollars per hour.
    pub price: f64,
    /// The number of placeholders that the ensemble would hold.
    pub forecast: f64,
    /// The time of the forecast, in UTC.
    pub now: DateTime<Utc>,
    /// The values of the expression's statistics, in their order.
    pub past: &'a [f64],
}

/// A statistic of the demand of the last seconds, in nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistic {
    /// What is computed.
    pub kind: StatisticKind,
    /// The length of the period.
    pub seconds: i64,
}

/// What a statistic computes of the demand at the ticks of a period and now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StatisticKind {
    /// The smallest demand that this percentage of the values does not exceed, from 1 to 100.
    Percentile(f64),
    /// The largest demand.
    Max,
    /// The smallest demand.
    Min,
    /// The mean demand. Each tick has the same weight.
    Mean,
    /// The sum of all rises from tick to tick.
    NewNodes,
}

/// An expression whose value is a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Constant(f64),
    Demand,
    Cores,
    Price,
    Forecast,
    Now(Field),
    /// The statistic of the expression with this index.
    Past(usize),
    Negative(Box<Number>),
    Binary(Operator, Box<Number>, Box<Number>),
    Rounded(Rounding, Box<Number>),
    /// The smallest of at least one number.
    Least(Vec<Number>),
    /// The largest of at least one number.
    Most(Vec<Number>),
    If(Box<Condition>, Box<Number>, Box<Number>),
}

/// A field of the time in UTC, with the values of CEL: days of the week from 0 for Sunday, months
/// and days of the month from 0, dates from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Minutes,
    Hours,
    DayOfWeek,
    DayOfMonth,
    Date,
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    /// A division by 0 is 0, because an infinite number of nodes is never what a rule means.
    Divide,
    /// At least 0, so that hours can be shifted to another time zone either way.
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
    /// Half a node away from 0.
    Nearest,
    /// Towards 0, as `int` in CEL.
    Truncated,
}

/// An expression whose value is true or false.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Constant(bool),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Equal(Box<Condition>, Box<Condition>),
    Compared(Comparison, Box<Number>, Box<Number>),
    /// Whether a number is one of these.
    In(Box<Number>, Vec<Number>),
    /// Whether two texts are in this relation.
    Texts(Relation, Text, Text),
    /// Whether a text is one of these.
    TextIn(Text, Vec<Text>),
    If(Box<Condition>, Box<Condition>, Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    StartsWith,
    EndsWith,
    Contains,
}

/// An expression whose value is a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Text {
    Constant(String),
    Bucket,
}

impl Number {
    /// Returns the value. It is infinite or NaN where a number is too large for a double.
    pub(super) fn value(&self, inputs: &Inputs<'_>) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Demand => inputs.demand,
            Self::Cores => inputs.cores,
            Self::Price => inputs.price,
            Self::Forecast => inputs.forecast,
            Self::Now(field) => field.of(inputs.now),
            Self::Past(index) => inputs.past.get(*index).copied().unwrap_or(0.0),
            Self::Negative(number) => -number.value(inputs),
            Self::Binary(operator, left, right) => {
                operator.apply(left.value(inputs), right.value(inputs))
            }
            Self::Rounded(rounding, number) => rounding.apply(number.value(inputs)),
            Self::Least(numbers) => {
                numbers.iter().map(|number| number.value(inputs)).fold(f64::INFINITY, f64::min)
            }
            Self::Most(numbers) => {
                numbers.iter().map(|number| number.value(inputs)).fold(f64::NEG_INFINITY, f64::max)
            }
            Self::If(condition, yes, no) => {
                if condition.holds(inputs) { yes } else { no }.value(inputs)
            }
        }
    }
}

impl Field {
    fn of(self, now: DateTime<Utc>) -> f64 {
        f64::from(match self {
            Self::Minutes => now.minute(),
            Self::Hours => now.hour(),
            Self::DayOfWeek => now.weekday().num_days_from_sunday(),
            Self::DayOfMonth => now.day0(),
            Self::Date => now.day(),
            Self::Month => now.month0(),
        })
    }
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide | Self::Remainder if right == 0.0 => 0.0,
            Self::Divide => left / right,
            Self::Remainder => left.rem_euclid(right),
        }
    }
}

impl Rounding {
    fn apply(self, number: f64) -> f64 {
        match self {
            Self::Up => number.ceil(),
            Self::Down => number.floor(),
            Self::Nearest => number.round(),
            Self::Truncated => number.trunc(),
        }
    }
}

impl Condition {
    fn holds(&self, inputs: &Inputs<'_>) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Not(condition) => !condition.holds(inputs),
            Self::And(left, right) => left.holds(inputs) && right.holds(inputs),
            Self::Or(left, right) => left.holds(inputs) || right.holds(inputs),
            Self::Equal(left, right) => left.holds(inputs) == right.holds(inputs),
            Self::Compared(comparison, left, right) => {
                comparison.holds(left.value(inputs), right.value(inputs))
            }
            Self::In(number, of) => {
                let value = number.value(inputs);
                of.iter().any(|other| Comparison::Equal.holds(value, other.value(inputs)))
            }
            Self::Texts(relation, left, right) => {
                relation.holds(left.value(inputs), right.value(inputs))
            }
            Self::TextIn(text, of) => {
                of.iter().any(|other| other.value(inputs) == text.value(inputs))
            }
            Self::If(condition, yes, no) => {
                if condition.holds(inputs) { yes } else { no }.holds(inputs)
            }
        }
    }
}

impl Comparison {
    #[expect(clippy::float_cmp, reason = "the user compares")]
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }
}

impl Relation {
    fn holds(self, left: &str, right: &str) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::StartsWith => left.starts_with(right),
            Self::EndsWith => left.ends_with(right),
            Self::Contains => left.contains(right),
        }
    }
}

impl Text {
    fn value<'a>(&'a self, inputs: &Inputs<'a>) -> &'a str {
        match self {
            Self::Constant(text) => text,
            Self::Bucket => inputs.bucket,
        }
    }
}
