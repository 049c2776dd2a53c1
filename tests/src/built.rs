//! The paths of programs and files that were built before the tests, in the same target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The path of a file or folder that `make control-plane` built, such as `bin/etcd` or `stages`.
///
/// # Errors
/// The file or folder does not exist.
pub fn control_plane(path: impl AsRef<Path>) -> Result<PathBuf> {
    let test = std::env::current_exe().context("failed to find the path of this test")?;
    // target/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).context("this test is not in a target folder")?;
    let found = target.join("control-plane").join(path);
    ensure!(found.exists(), "{} is missing: run make control-plane first", found.display());
    Ok(found)
}
