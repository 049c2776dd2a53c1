//! The root file system of the image, started without a container engine: in a root of its own that
//! is read-only, as the user of the image, with the variables and volumes of a container and no
//! others.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::prophet;

/// The user and the group of the image and of the chart's pods.
pub const USER: u32 = 65532;

/// Mounts the volumes below the root, makes the root read-only, and runs a command without any
/// variable of this process. The arguments are the root, the number of volumes, the folder of each
/// and its path below the root, and the arguments of `env`.
const SCRIPT: &str = r#"set -eu
root=$1 volumes=$2; shift 2
mount --bind "$root" "$root"
while [ "$volumes" -gt 0 ]; do mount --bind "$1" "$root$2"; shift 2; volumes=$((volumes - 1)); done
mount -o remount,bind,ro "$root"
exec env -i "$@""#;

/// The command that changes the root. It keeps one capability for this, in a namespace of its own,
/// which grants no access to files.
const ENTER: [&str; 6] = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--inh-caps=-all,+sys_chroot",
    "--ambient-caps=-all,+sys_chroot",
    "chroot",
];

/// The root file system of the image, with the binary of this test's target folder. It is deleted
/// when it is dropped.
#[derive(Debug)]
pub struct OwnRoot {
    folder: TempDir,
    /// What `release/rootfs` printed.
    pub printed: String,
}

impl OwnRoot {
    /// Builds the root file system by the script that builds the image, with an ONNX Runtime if one
    /// is given.
    ///
    /// # Errors
    /// The script fails.
    pub fn build(onnx_runtime: Option<&Path>) -> Result<Self> {
        let folder = TempDir::new()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../release/rootfs");
        let mut command = Command::new(script);
        command.arg(prophet(&[]).get_program()).arg(folder.path()).args(onnx_runtime);
        let output = command.output().context("failed to run release/rootfs")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "release/rootfs: {error}");
        Ok(Self { folder, printed: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    /// The folder that is the root.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command that runs `prophet` in this root. Each volume is a folder, and the absolute path
    /// at which the program finds it. The variables, as `NAME=VALUE`, are all that the program
    /// gets, except `PATH`.
    ///
    /// # Errors
    /// The mount point of a volume cannot be created.
    pub fn prophet(
        &self,
        volumes: &[(&Path, &str)],
        variables: &[String],
        arguments: &[&str],
    ) -> Result<Command> {
        for (_, inside) in volumes {
            // Container engines create mount points too.
            let point = self.path().join(inside.trim_start_matches('/'));
            fs::create_dir_all(&point)
                .with_context(|| format!("failed to create {}", point.display()))?;
        }
        let mut command = self.entering(self.path(), volumes, variables);
        command.arg("/usr/bin/prophet").args(arguments);
        Ok(command)
    }

    /// A command that mounts the volumes, makes this root read-only and changes to `root`; the
    /// program and its arguments are to be added.
    fn entering(&self, root: &Path, volumes: &[(&Path, &str)], variables: &[String]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--keep-caps", "--mount"]);
        command.args([format!("--map-user={USER}"), format!("--map-group={USER}")]);
        command.args(["--", "sh", "-c", SCRIPT, "own-root"]).arg(self.path());
        command.arg(volumes.len().to_string());
        for (folder, inside) in volumes {
            command.arg(folder).arg(inside);
        }
        command.arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin").args(variables).args(ENTER).arg(root);
        command
    }

    /// Whether this machine permits an unprivileged user to change the root. If it does not, a note
    /// on standard error gives the reason.
    ///
    /// # Errors
    /// A program is missing, such as `unshare`.
    pub fn may_start(&self) -> Result<bool> {
        // A program of this machine, so that a root that lacks a file is no reason to skip a test.
        let mut command = self.entering(Path::new("/"), &[], &[]);
        let output = command.arg("true").output().context("failed to run unshare")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            // Written directly, because the output of a test that passes is not shown.
            let note = format!(
                "note: the image's root file system is not started, because this machine does not permit it: {error}"
            );
            std::io::stderr().write_all(note.as_bytes())?;
        }
        Ok(output.status.success())
    }
}
