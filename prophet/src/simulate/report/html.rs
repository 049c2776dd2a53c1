//! x
use embedder::Catalog;
use crate::simulate::compare::Comparison;
use crate::simulate::settings::Settings;
use crate::trace::Trace;
pub(super) fn page(_: &Comparison, _: &Settings, _: &Trace, _: &Catalog) -> String { String::new() }
