//! Where the model in use is: a file, or an object in S3, that controllers load again when it
//! changes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base::input::is_a_folder;
use demand::forecast::onnx::BYTES_MAX;

#[cfg(feature = "kubernetes")]
use history::Place;

use super::output::StagedFolder;
#[cfg(feature = "kubernetes")]
use super::runtime;
#[cfg(not(feature = "kubernetes"))]
use super::wrong_usage;

/// The file or the object of a model.
pub(super) enum ModelPlace {
    File(PathBuf),
    #[cfg(feature = "kubernetes")]
    Remote {
        place: Place,
        name: String,
    },
}

impl ModelPlace {
    /// Parses an address: a path, or a URL such as `s3://BUCKET/PREFIX/FILE`.
    ///
    /// # Errors
    /// The address is malformed, or this build does not support its store.
    pub(super) fn parse(address: &str) -> anyhow::Result<Self> {
        if !address.contains("://") {
            return Ok(Self::File(address.into()));
        }
        #[cfg(feature = "kubernetes")]
        {
            let (place, name) = Place::of_file(address)?;
            Ok(Self::Remote { place, name })
        }
        #[cfg(not(feature = "kubernetes"))]
        Err(wrong_usage::conflict(format!(
            "{address}: this build has no object stores: build it with cargo build --release --features full"
        )))
    }

    /// Returns a file with the model, fetched into `folder` if it is in an object store; `None` if
    /// there is no model in this place.
    pub(super) fn fetch(&self, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
        let _ = folder;
        match self {
            Self::File(path) => Ok(path.try_exists()?.then(|| path.clone())),
            #[cfg(feature = "kubernetes")]
            Self::Remote { place, name } => {
                let Some(bytes) = block_on(place.file(name, BYTES_MAX))? else { return Ok(None) };
                let path = folder.join("current.onnx");
                let failed = || format!("failed to write {}", path.display());
                std::fs::write(&path, bytes).with_context(failed)?;
                Ok(Some(path))
            }
        }
    }

    /// Checks that a model can be published here, so that errors come before the long runs.
    ///
    /// # Errors
    /// The folder of the file cannot be written.
    pub(super) fn stage(self) -> anyhow::Result<StagedModel> {
        let path = match self {
            #[cfg(feature = "kubernetes")]
            Self::Remote { place, name } => return Ok(StagedModel::Remote { place, name }),
            Self::File(path) => path,
        };
        let failed = || format!("failed to write {}", path.display());
        if path.is_dir() {
            return Err(is_a_folder()).with_context(failed);
        }
        // The target of a symbolic link is replaced, not the link.
        let target = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let staged = StagedFolder::new(folder.unwrap_or(Path::new("."))).with_context(failed)?;
        let name = target.file_name().and_then(|name| name.to_str()).with_context(failed)?;
        Ok(StagedModel::File { name: name.to_owned(), staged })
    }
}

/// A place in which a model can be published.
pub(super) enum StagedModel {
    File {
        name: String,
        staged: StagedFolder,
    },
    #[cfg(feature = "kubernetes")]
    Remote {
        place: Place,
        name: String,
    },
}

impl StagedModel {
    /// Replaces the model and its card, each in one step.
    pub(super) fn publish(self, model: &[u8], card: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::File { name, staged } => {
                staged.write(&card_of(&name), |to| to.write_all(card))?;
                staged.write(&name, |to| to.write_all(model))?;
                staged.finish().map(|_| ())
            }
            #[cfg(feature = "kubernetes")]
            Self::Remote { place, name } => block_on(async {
                place.put_file(&card_of(&name), card.to_vec()).await?;
                Ok(place.put_file(&name, model.to_vec()).await?)
            }),
        }
    }
}

/// The name of the card of a model: `own.onnx` has `own.card.json`.
fn card_of(name: &str) -> String {
    format!("{}.card.json", name.strip_suffix(".onnx").unwrap_or(name))
}

/// Reads the file of a model.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("failed to read {}", path.display());
    let found = std::fs::metadata(path).with_context(failed)?;
    anyhow::ensure!(found.is_file(), "{}: it is not a file", failed());
    anyhow::ensure!(found.len() <= BYTES_MAX, "{}: more than {BYTES_MAX} bytes", failed());
    std::fs::read(path).with_context(failed)
}

#[cfg(feature = "kubernetes")]
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    runtime::of_this_thread()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.onnx");
        let place = || {
            ModelPlace::parse(&address.replace("FOLDER", folder.path().to_str().unwrap())).unwrap()
        };
        assert_eq!(place().fetch(folder.path()).unwrap(), None);
        for model in ["one", "two"] {
            place().stage().unwrap().publish(model.as_bytes(), b"{}").unwrap();
            let found = place().fetch(folder.path()).unwrap().unwrap();
            assert_eq!(read(&found).unwrap(), model.as_bytes());
            assert_eq!(std::fs::read(&path).unwrap(), model.as_bytes());
            assert_eq!(std::fs::read(folder.path().join("own.card.json")).unwrap(), b"{}");
        }
    }

    #[test]
    fn a_published_model_and_its_card_replace_the_old_ones() {
        check("FOLDER/own.onnx");
        #[cfg(feature = "kubernetes")]
        check("file://FOLDER/own.onnx");
    }

    #[test]
    fn a_place_that_was_only_staged_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models/own.onnx");
        drop(ModelPlace::parse(path.to_str().unwrap()).unwrap().stage().unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
