//! An expression in CEL for the number of placeholders of a bucket: a rule of the user.
//!
//! The syntax is that of the Common Expression Language, which Kubernetes uses for rules. All
//! numbers are doubles, so `demand * 0.5` needs no conversion. An expression is checked completely
//! when it is parsed: names, types and arguments. Therefore its evaluation cannot fail, and it
//! takes a bounded time, because macros are refused and statistics of the past are few.
//!
//! ```text
//! tree.rs   the typed expression and its evaluation
//! parse.rs  from the text to the tree, by the parser of the crate `cel`
//! ```

#[cfg(feature = "kubernetes")]
mod parse;
#[cfg_attr(
    not(feature = "kubernetes"),
    allow(dead_code, reason = "without the parser, there is no expression")
)]
mod tree;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tree::Number;

use super::question::HEADROOM_MAX;

pub(crate) use tree::{Inputs, Statistic, StatisticKind};

/// A valid expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    tree: Number,
    statistics: Vec<Statistic>,
    reads_forecast: bool,
}

/// The longest text of an expression, in characters.
pub const EXPRESSION_MAX: usize = 1_024;

impl Expression {
    /// Returns the number of placeholders, rounded up: from 0 to [`HEADROOM_MAX`]. A number that is
    /// too large for a double counts as 0.
    pub(crate) fn placeholders(&self, inputs: &Inputs<'_>) -> u64 {
        let nodes = (self.tree.value(inputs) - NOISE).ceil();
        if !nodes.is_finite() {
            return 0;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let nodes = nodes as u64;
        nodes.min(HEADROOM_MAX)
    }

    /// The statistics of the past that the expression reads, each once.
    pub(crate) fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// Whether the expression reads the forecast of the ensemble.
    pub fn reads_forecast(&self) -> bool {
        self.reads_forecast
    }
}

/// The part of a node that is not rounded up, because it is noise of the arithmetic.
const NOISE: f64 = 1e-9;

impl FromStr for Expression {
    type Err = String;

    #[cfg(feature = "kubernetes")]
    fn from_str(text: &str) -> Result<Self, String> {
        let length = text.chars().count();
        if length > EXPRESSION_MAX {
            return Err(format!("expected at most {EXPRESSION_MAX} characters, got {length}"));
        }
        let parse::Parsed { tree, statistics, reads_forecast } = parse::parse(text)?;
        Ok(Self { text: text.to_owned(), tree, statistics, reads_forecast })
    }

    #[cfg(not(feature = "kubernetes"))]
    fn from_str(_: &str) -> Result<Self, String> {
        Err("this build has no parser for CEL: build with --features full".into())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text
    }
}

#[cfg(test)]
#[cfg(feature = "kubernetes")]
mod tests;
