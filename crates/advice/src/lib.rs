//! The setting that pays off in a cluster: chosen on the first two thirds of the evaluated days,
//! and checked on the last third, which the choice does not see.
//!
//! ```text
//! setting.rs  a policy with the options that are varied, and the policy of a cluster that it is
//! totals.rs   waiting, launches and the bill of some days
//! choice.rs   the goal, the chosen setting, and its check
//! text.rs     the advice for a terminal
//! page.rs     the advice as a page
//! ```

mod choice;
mod page;
mod setting;
mod text;
mod totals;

pub use choice::{Advice, Check, Goal, Judged, Switch, Verdict};
pub use page::{page, picture};
pub use setting::{Setting, Varied};
pub use totals::{COLUMNS, Totals};
