//! The files that commands read: their paths, catalogs and settings.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base::input::read_text;
use clap::builder::{PathBufValueParser, TypedValueParser};
use simulator::SimulationSettings;
use traces::catalog::CatalogFile;

/// Reads a catalog.
pub(super) fn catalog(path: &Path) -> anyhow::Result<CatalogFile> {
    Ok(CatalogFile::parse(&text(path)?, &path.display().to_string())?)
}

/// Reads settings.
pub(super) fn settings(path: &Path) -> anyhow::Result<SimulationSettings> {
    Ok(SimulationSettings::parse(&text(path)?, &path.display().to_string())?)
}

/// Reads a text file.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    read_text(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Parses the path of a file to read; `-` is standard input.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(
        |path| {
            if path == Path::new("-") { "/dev/stdin".into() } else { path }
        },
    )
}
