//! The objects that commands print for programs.

use serde_json::Value;

/// The version of these objects. It changes when a field is removed or renamed, or has another
/// meaning; new fields do not change it.
const VERSION: u32 = 1;

/// Adds the field `version` to an object.
#[must_use]
pub fn versioned(mut document: Value) -> Value {
    if let Some(object) = document.as_object_mut() {
        object.insert("version".into(), VERSION.into());
    }
    document
}
