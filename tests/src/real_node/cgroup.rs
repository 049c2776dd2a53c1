//! The control group below which a node's pods are. It is removed with the node.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Where Linux has its control groups.
const MOUNT: &str = "/sys/fs/cgroup";

/// The controllers that the kubelet needs.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// A control group of a node, in each hierarchy of the machine.
#[derive(Debug)]
pub(super) struct Cgroup {
    name: String,
}

impl Cgroup {
    /// Creates a group at the top.
    ///
    /// # Errors
    /// The machine has no control groups that this user may create.
    pub(super) fn create(name: &str) -> Result<Self> {
        let hierarchies = hierarchies();
        ensure!(!hierarchies.is_empty(), "no control groups in {MOUNT}");
        let unified = Path::new(MOUNT).join("cgroup.controllers");
        for hierarchy in hierarchies {
            let group = hierarchy.join(name);
            fs::create_dir_all(&group)
                .with_context(|| format!("failed to create {}", group.display()))?;
        }
        if let Ok(controllers) = fs::read_to_string(unified) {
            // With one hierarchy, a group has the controllers that its parent passes on.
            for folder in [Path::new(MOUNT), &Path::new(MOUNT).join(name)] {
                for controller in controllers.split_whitespace() {
                    // Not all controllers can be passed on, and the kubelet needs four.
                    let _ =
                        fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
            let group = Path::new(MOUNT).join(name);
            let passed_on = fs::read_to_string(group.join("cgroup.subtree_control"))?;
            let missing =
                NEEDED.iter().find(|name| !passed_on.split_whitespace().any(|has| has == **name));
            if let Some(missing) = missing {
                drop(Self::left(name));
                bail!("the controller {missing} of control groups is not available");
            }
        }
        Ok(Self::left(name))
    }

    /// A group that exists, as of a test that was killed.
    pub(super) fn left(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// The name from the top, as in the kubelet's flag.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.name)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            let group = hierarchy.join(&self.name);
            // A group can be removed some milliseconds after its last process has ended.
            for _ in 0..20 {
                if remove(&group) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            if group.exists() {
                eprintln!("failed to remove {}", group.display());
            }
        }
    }
}

/// Removes a group and those below it; returns whether it is gone.
fn remove(group: &Path) -> bool {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

/// The folders of the hierarchies: one of version 2, or those of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let has_groups = |folder: &Path| folder.join("cgroup.procs").exists();
    if has_groups(Path::new(MOUNT)) {
        return vec![MOUNT.into()];
    }
    let folders = fs::read_dir(MOUNT).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|folder| has_groups(folder) && !folder.is_symlink()).collect()
}
