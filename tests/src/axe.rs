//! The accessibility rules of axe-core, which are evaluated in a browser.

use std::fs;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::browser::Browser;
use crate::built;

/// The rules, as a script.
pub struct Rules(String);

impl Rules {
    /// The rules that `make tools` downloaded. `None` if there are none; a note on standard error
    /// then names what to install.
    pub fn downloaded() -> Option<Self> {
        let script = built::in_target("axe-core/axe.min.js").and_then(|path| Ok(fs::read(path)?));
        if script.is_err() {
            // Written directly, because the output of a test that passes is not shown.
            let note = b"note: the accessibility of pages is not tested, because axe-core is missing: install npm and run make tools\n";
            let _ = std::io::stderr().write_all(note);
        }
        script.ok().map(|script| Self(String::from_utf8_lossy(&script).into_owned()))
    }

    /// The violations of the page that a browser shows: the rule, and the elements that violate it.
    ///
    /// # Errors
    /// The browser does not respond, or the rules cannot be evaluated.
    pub fn violations(&self, browser: &mut Browser) -> Result<Vec<String>> {
        browser.evaluate(&format!("{};0", self.0)).context("failed to load the rules")?;
        let found = browser.evaluate("axe.run().then(found => found.violations)")?;
        let violation = |violation: &Value| {
            let nodes = violation["nodes"].as_array().into_iter().flatten();
            let nodes: Vec<String> =
                nodes.map(|node| format!("{} {}", node["target"], node["any"])).collect();
            format!("{}: {}", violation["id"], nodes.join("; "))
        };
        let found = found.as_array().context("the rules have no result")?;
        Ok(found.iter().map(violation).collect())
    }
}
