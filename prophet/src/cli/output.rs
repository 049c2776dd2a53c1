//! Output of the commands: standard output, and files that appear when they are complete.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use base::input::is_a_folder;

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputFormat {
    /// Text for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints a text to standard output.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a value to standard output as indented JSON, with a final newline.
pub(super) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints the result of a command for programs, as YAML or as JSON: an object with its version.
pub(super) fn print_document(
    format: OutputFormat,
    document: &impl serde::Serialize,
) -> anyhow::Result<()> {
    let document = report::versioned(serde_json::to_value(document)?);
    if format == OutputFormat::Yaml {
        print(&base::input::to_yaml(&document)?)
    } else {
        print_json(&document)
    }
}

/// Writes a file that appears when it is complete. After a failure or an interrupt, the old file,
/// if any, is unchanged.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    // The target of a symbolic link is replaced, not the link. A pipe or a device is written in
    // place.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let found = fs::metadata(&target);
    if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
        return Err(is_a_folder()).with_context(failed);
    }
    if found.is_ok_and(|found| !found.is_file()) {
        let mut to = io::BufWriter::new(
            fs::OpenOptions::new().write(true).open(&target).with_context(failed)?,
        );
        return write(&mut to).and_then(|()| to.flush()).with_context(failed);
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    anyhow::ensure!(
        folder.is_none_or(Path::exists),
        "{}: the directory of the file does not exist",
        failed()
    );
    let name = target.file_name().and_then(|name| name.to_str()).with_context(failed)?;
    let staged = StagedFolder::new(folder.unwrap_or(Path::new("."))).with_context(failed)?;
    staged.write(name, write)?;
    staged.finish().map(|_| ())
}

/// Writes to a file, or to standard output if there is none or it is `-`.
pub(super) fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if let Some(path) = path.filter(|path| *path != Path::new("-")) {
        return write_whole(path, write);
    }
    let mut to = io::BufWriter::new(io::stdout().lock());
    Ok(write(&mut to).and_then(|()| to.flush())?)
}

/// A folder whose new files appear together, when all are complete.
///
/// Until [`StagedFolder::finish`], the files are in a hidden folder inside of it. When the value is
/// dropped or the command is interrupted, that folder is removed, and also the folders that were
/// created for it.
pub(super) struct StagedFolder {
    folder: PathBuf,
    /// The names of the written files, relative to the folder.
    names: RefCell<Vec<PathBuf>>,
    unfinished: Unfinished,
}

/// What an unfinished command leaves behind.
#[derive(Clone, PartialEq)]
struct Unfinished {
    /// The hidden folder, with everything in it.
    hidden: PathBuf,
    /// The folders that were created to contain it, outermost first.
    created: Vec<PathBuf>,
}

/// Everything to remove when the command is interrupted. Files are created and renamed under the
/// lock, so that none appears while the handler of Ctrl-C removes them.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

fn all_unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes everything that is unfinished. While the returned guard lives, no file is created or
/// renamed.
pub(super) fn remove_unfinished() -> impl Sized {
    let mut all = all_unfinished();
    all.drain(..).for_each(|unfinished| unfinished.remove());
    all
}

impl Unfinished {
    /// Removes the folders. Errors are ignored, because the command already ends with one, and a
    /// folder into which another program has written must stay.
    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.hidden);
        for folder in self.created.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl StagedFolder {
    /// Creates the folder if it does not exist, and checks that it is writable.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let mut all = all_unfinished();
        let absent =
            folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut created: Vec<PathBuf> = absent.map(Path::to_path_buf).collect();
        created.reverse();
        let hidden = fs::create_dir_all(folder)
            .and_then(|()| tempfile::Builder::new().prefix(".prophet-").tempdir_in(folder));
        let unfinished = Unfinished {
            hidden: hidden.as_ref().map_or_else(|_| PathBuf::new(), |found| found.path().into()),
            created,
        };
        if let Err(error) = hidden.map(tempfile::TempDir::keep) {
            unfinished.remove();
            return Err(error);
        }
        all.push(unfinished.clone());
        Ok(Self { folder: folder.into(), names: RefCell::default(), unfinished })
    }

    /// Writes a file. `name` may have a folder.
    pub(super) fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let path = self.unfinished.hidden.join(name);
        let create = || {
            let _all = all_unfinished();
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(&path)
        };
        let write_all = || {
            let mut buffer = io::BufWriter::new(create()?);
            write(&mut buffer)?;
            // Without this, a file that was renamed may be empty after the machine fails.
            buffer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        self.names.borrow_mut().push(name.into());
        write_all().with_context(|| format!("failed to write {}", self.folder.join(name).display()))
    }

    /// Moves the written files into the folder, and returns it.
    pub(super) fn finish(self) -> anyhow::Result<PathBuf> {
        let mut all = all_unfinished();
        for name in self.names.borrow().iter() {
            let path = self.folder.join(name);
            path.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::rename(self.unfinished.hidden.join(name), &path))
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        all.retain(|unfinished| *unfinished != self.unfinished);
        // The files are complete, so a hidden folder that stays is no failure.
        let _ = fs::remove_dir_all(&self.unfinished.hidden);
        Ok(self.folder.clone())
    }
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        let mut all = all_unfinished();
        if let Some(at) = all.iter().position(|unfinished| *unfinished == self.unfinished) {
            all.swap_remove(at).remove();
        }
    }
}

/// Whether a report replaces an earlier one.
#[derive(clap::Args)]
pub(super) struct Overwrite {
    /// Replace an earlier report in the directory of --out; files that the new one lacks stay
    #[arg(long, requires = "out")]
    force: bool,
}

/// Creates the folder of `--out` and checks that it is writable, so that errors come before the
/// long runs. `page` is a file that each report in it has.
pub(super) fn stage(
    out: Option<&Path>,
    page: &str,
    overwrite: &Overwrite,
) -> anyhow::Result<Option<StagedFolder>> {
    let Some(folder) = out else { return Ok(None) };
    let failed = || format!("failed to write into {}", folder.display());
    anyhow::ensure!(!folder.is_file(), "{}: it is a file; name a directory", failed());
    anyhow::ensure!(
        overwrite.force || !folder.join(page).exists(),
        "{}: it has an earlier report ({page}); name another directory, or replace the report with --force",
        failed()
    );
    StagedFolder::new(folder).map(Some).with_context(failed)
}

/// Whether the cause of an error is a broken pipe: the reader of the output has closed it.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}
