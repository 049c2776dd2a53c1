//! Images of containers, made from files of this machine, as archives that a node imports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

/// The image of the sandbox of each pod, and of placeholders that name it.
pub const PAUSE: &str = "prophet.test/pause:1";

/// An image with a shell and a few of the programs of this machine, for jobs.
pub const SHELL: &str = "prophet.test/shell:1";

/// The programs of [`SHELL`], by their names in `/usr/bin`. `sh` is one of them, too.
const PROGRAMS: [&str; 8] = ["cat", "dd", "head", "mkdir", "sleep", "tail", "touch", "true"];

/// An image as an archive. The file is deleted when this value is dropped.
#[derive(Debug)]
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// The image with a root file system, which runs `entrypoint`.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn of_root(name: &str, root: &Path, entrypoint: &[&str]) -> Result<Self> {
        let folder = TempDir::new()?;
        let inside = |file: &str| folder.path().join(file);
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--file").arg(inside("layer.tar")).arg("--directory").arg(root);
        run(tar.args(["--owner=0", "--group=0", "."]))?;
        let digest = run(Command::new("sha256sum").arg(inside("layer.tar")))?;
        let digest = digest.split_whitespace().next().context("sha256sum prints no digest")?;
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        fs::write(inside("config.json"), config.to_string())?;
        // The form of `docker save`, because it needs no digest of the other files.
        let manifest =
            json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
        fs::write(inside("manifest.json"), manifest.to_string())?;
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--file").arg(inside("image.tar"));
        tar.arg("--directory").arg(folder.path());
        run(tar.args(["manifest.json", "config.json", "layer.tar"]))?;
        fs::remove_file(inside("layer.tar"))?;
        Ok(Self { folder })
    }

    /// The image [`PAUSE`].
    ///
    /// # Errors
    /// The machine has no C compiler, `cc`, or a file cannot be written.
    pub fn pause() -> Result<Self> {
        let root = TempDir::new()?;
        let source = root.path().join("pause.c");
        fs::write(&source, include_str!("pause.c"))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-static", "-Os", "-o"]).arg(root.path().join("pause")).arg(&source);
        run(&mut compiler)?;
        fs::remove_file(source)?;
        Self::of_root(PAUSE, root.path(), &["/pause"])
    }

    /// The image [`SHELL`].
    ///
    /// # Errors
    /// A program is missing on this machine.
    pub fn shell() -> Result<Self> {
        Self::with_shell(SHELL, 0)
    }

    /// An image as [`SHELL`] with another name, and with a file of random bytes.
    ///
    /// # Errors
    /// As [`Image::shell`].
    pub fn with_shell(name: &str, random_mib: u64) -> Result<Self> {
        let root = TempDir::new()?;
        let bin = root.path().join("usr/bin");
        fs::create_dir_all(&bin)?;
        let mut programs: Vec<PathBuf> =
            PROGRAMS.iter().map(|name| Path::new("/usr/bin").join(name)).collect();
        programs.push(fs::canonicalize("/bin/sh")?);
        for program in &programs {
            let name = program.file_name().context("a program has a name")?;
            fs::copy(program, bin.join(name))
                .with_context(|| format!("failed to copy {}", program.display()))?;
        }
        let shell = programs.last().and_then(|shell| shell.file_name()).context("there is sh")?;
        std::os::unix::fs::symlink(shell, bin.join("sh"))?;
        std::os::unix::fs::symlink("usr/bin", root.path().join("bin"))?;
        // Lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`.
        let libraries = run(Command::new("ldd").args(&programs))?;
        let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        for path in paths.filter(|word| !word.ends_with(':')) {
            let to = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(to.parent().context("a library is in a folder")?)?;
            fs::copy(path, to).with_context(|| format!("failed to copy {path}"))?;
        }
        if random_mib > 0 {
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/urandom", "bs=1M", &format!("count={random_mib}")]);
            run(dd.arg(format!("of={}", root.path().join("random").display())))?;
        }
        Self::of_root(name, root.path(), &[])
    }

    /// The archive.
    pub fn archive(&self) -> PathBuf {
        self.folder.path().join("image.tar")
    }
}

/// Runs a command; returns its standard output.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("failed to run {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
