//! Where the things lie that were built before the tests: beside the tests' own binaries.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// What `make control-plane` made, by its path there: `bin/etcd`, `stages`.
///
/// # Errors
/// Where it is missing.
pub fn control_plane(path: impl AsRef<Path>) -> Result<PathBuf> {
    let test = std::env::current_exe().context("failed to find the path of this test")?;
    // target/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).context("a test outside of a target folder")?;
    let found = target.join("control-plane").join(path);
    ensure!(found.exists(), "{} is missing: run make control-plane first", found.display());
    Ok(found)
}
