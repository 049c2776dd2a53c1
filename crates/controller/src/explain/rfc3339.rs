//! Times in a status.

use chrono::{DateTime, SecondsFormat, Utc};

/// A time in RFC 3339, in whole seconds.
pub(super) fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
