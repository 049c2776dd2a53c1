//! The paths of programs and files that were built before the tests, in the same target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The path of a file or folder that `make control-plane` built, such as `bin/etcd` or `stages`.
///
/// # Errors
/// The file or folder does not exist.
pub fn control_plane(path: impl AsRef<Path>) -> Result<PathBuf> {
    in_target(Path::new("control-plane").join(path)).context("run make control-plane first")
}

/// The path of a file or folder in the target folder of this program.
///
/// # Errors
/// The file or folder does not exist.
pub(crate) fn in_target(path: impl AsRef<Path>) -> Result<PathBuf> {
    let program = std::env::current_exe().context("failed to find the path of this program")?;
    // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM
    let mut folders = program.ancestors().skip(1);
    let profile = folders.find(|folder| !folder.ends_with("deps"));
    let target = profile.and_then(Path::parent).context("this program is in no target folder")?;
    let found = target.join(path);
    ensure!(found.exists(), "{} is missing", found.display());
    Ok(found)
}
