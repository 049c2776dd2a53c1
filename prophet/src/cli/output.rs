//! Output of the commands: standard output, and files that are written atomically.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputFormat {
    /// Text for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
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

/// Writes a file atomically: after a failure or an interrupt, the old file, if any, is unchanged.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    // The target of a symbolic link is replaced, not the link. A pipe or a device is written in
    // place.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let path = target.as_path();
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut to = io::BufWriter::new(
            std::fs::OpenOptions::new().write(true).open(path).with_context(failed)?,
        );
        return write(&mut to).and_then(|()| to.flush()).with_context(failed);
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".prophet-");
    // `tempfile` creates files with mode 0600. 0666 lets the user's umask decide, as usual.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).with_context(failed)?;
    let mut buffer = io::BufWriter::new(file.as_file_mut());
    write(&mut buffer).and_then(|()| buffer.flush()).with_context(failed)?;
    drop(buffer);
    file.persist(path).with_context(failed)?;
    Ok(())
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
