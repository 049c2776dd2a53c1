//! The location of a history: a folder, or a prefix in an S3 bucket.
//!
//! All operations except appends to a file use `object_store`, so that the same code reads both.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, ListResult, ObjectStore, ObjectStoreExt as _};

use super::fault::HistoryError;

/// The location of a history.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The folder, if the place is one. Files in a folder are appended to; S3 gets segments.
    pub(crate) folder: Option<PathBuf>,
    prefix: Path,
    name: String,
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The address has an unknown form.
    #[error("{0}: expected a folder, file:///FOLDER or s3://BUCKET/PREFIX")]
    Address(String),
    /// This build does not have the feature `s3`.
    #[error("{0}: this build does not support S3: build it with the feature s3")]
    NoS3(String),
    /// The folder cannot be created or opened.
    #[error("failed to open {0}")]
    Folder(String, #[source] std::io::Error),
    /// The store rejects its settings.
    #[error("failed to open {0}")]
    Store(String, #[source] object_store::Error),
}

/// The files in which the history of one policy has one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayFiles {
    pub(crate) day: NaiveDate,
    /// The Parquet file of a closed day.
    pub(crate) parquet: Option<Path>,
    /// The Parquet file that was not read back, which an interrupted compaction leaves.
    pub(crate) part: Option<Path>,
    /// The segments of JSON lines, by ascending number.
    pub(crate) segments: Vec<Path>,
}

impl DayFiles {
    /// Whether the day has no file of a history.
    pub(crate) fn is_empty(&self) -> bool {
        self.parquet.is_none() && self.part.is_none() && self.segments.is_empty()
    }
}

/// The name of the Parquet file of a closed day.
const PARQUET: &str = "ticks.parquet";

/// The name of this file before it was read back.
const PARQUET_PART: &str = "ticks.parquet.part";

impl Place {
    /// Opens the place at an address for writing.
    ///
    /// A missing folder is created; a missing bucket is not. For S3, the endpoint, the region and
    /// the credentials come from the usual AWS environment variables.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the place cannot be opened.
    pub fn open(address: &str) -> Result<Self, PlaceError> {
        Self::open_in(address, &environment())
    }

    /// Like [`Place::open`], with the given environment variables.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the place cannot be opened.
    pub fn open_in(address: &str, environment: &[(String, String)]) -> Result<Self, PlaceError> {
        let Some(folder) = folder_of(address)? else { return Self::s3(address, environment) };
        std::fs::create_dir_all(&folder)
            .map_err(|error| PlaceError::Folder(address.into(), error))?;
        Self::folder(address, &folder)
    }

    /// Opens the place at an address for reading. A missing folder is an error.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the place cannot be opened.
    pub fn existing(address: &str) -> Result<Self, PlaceError> {
        match folder_of(address)? {
            Some(folder) => Self::folder(address, &folder),
            None => Self::s3(address, &environment()),
        }
    }

    fn folder(address: &str, folder: &std::path::Path) -> Result<Self, PlaceError> {
        let folder = std::fs::canonicalize(folder)
            .map_err(|error| PlaceError::Folder(address.into(), error))?;
        let store = LocalFileSystem::new_with_prefix(&folder)
            .map_err(|error| PlaceError::Store(address.into(), error))?
            .with_fsync(true)
            // A day's folder goes with its last file.
            .with_automatic_cleanup(true);
        let name = folder.display().to_string();
        Ok(Self { store: Arc::new(store), folder: Some(folder), prefix: Path::default(), name })
    }

    #[cfg(feature = "s3")]
    fn s3(address: &str, environment: &[(String, String)]) -> Result<Self, PlaceError> {
        use std::time::Duration;

        use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
        use object_store::{BackoffConfig, ClientOptions, RetryConfig};

        let rest = address.trim_start_matches("s3://").trim_end_matches('/');
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let failed = |error| PlaceError::Store(address.into(), error);
        let prefix = Path::parse(prefix).map_err(|error| failed(error.into()))?;
        if bucket.is_empty() {
            return Err(PlaceError::Address(address.into()));
        }
        let mut builder = AmazonS3Builder::new();
        for (name, value) in environment.iter().filter(|(name, _)| name.starts_with("AWS_")) {
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        // Plain HTTP is allowed if the user configured it explicitly, because an endpoint on the
        // same host or inside the cluster may have no TLS.
        let plain = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint]
            .iter()
            .filter_map(|key| builder.get_config_value(key))
            .any(|endpoint| endpoint.starts_with("http://"));
        // The controller's loop waits until a tick's line is written, so retries are limited: a
        // reported error is better than a blocked loop.
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 3,
            retry_timeout: Duration::from_secs(20),
        };
        let options = ClientOptions::new()
            .with_timeout(Duration::from_secs(15))
            .with_connect_timeout(Duration::from_secs(5))
            .with_allow_http(plain);
        let store = builder
            .with_bucket_name(bucket)
            .with_client_options(options)
            .with_retry(retry)
            .build()
            .map_err(failed)?;
        Ok(Self { store: Arc::new(store), folder: None, prefix, name: format!("s3://{rest}") })
    }

    #[cfg(not(feature = "s3"))]
    fn s3(address: &str, _: &[(String, String)]) -> Result<Self, PlaceError> {
        Err(PlaceError::NoS3(address.into()))
    }

    /// The place and the name of a file in the root of an object store, such as
    /// `s3://BUCKET/PREFIX/FILE`. The store is not connected to yet.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or the place cannot be opened.
    pub fn of_file(address: &str) -> Result<(Self, String), PlaceError> {
        let parts = address.rsplit_once('/');
        let (place, name) = parts
            .filter(|(place, name)| !name.is_empty() && !place.ends_with(":/"))
            .ok_or_else(|| PlaceError::Address(address.to_owned()))?;
        Ok((Self::existing(place)?, name.to_owned()))
    }

    /// An in-memory store that behaves like S3. It is dropped with its last clone.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        Self { store, folder: None, prefix: Path::from("a/b"), name: "memory".into() }
    }

    /// The policies that have a history in this place, in ascending order.
    ///
    /// # Errors
    /// Returns an error if the store cannot be listed.
    pub async fn policies(&self) -> Result<Vec<String>, HistoryError> {
        self.folders("policy=").await
    }

    /// The clusters whose histories are in this place, in ascending order: its folders
    /// `cluster=NAME`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be listed.
    pub async fn clusters(&self) -> Result<Vec<String>, HistoryError> {
        self.folders("cluster=").await
    }

    /// The names of the folders in the root of the place that begin with a prefix, without it.
    async fn folders(&self, prefix: &str) -> Result<Vec<String>, HistoryError> {
        let folders = self.list(&self.prefix).await?.common_prefixes;
        let name = |folder: &Path| Some(folder.filename()?.strip_prefix(prefix)?.to_owned());
        let mut names: Vec<String> = folders.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// A path in the form that error messages show: the place, then the path within it.
    pub(crate) fn display(&self, path: &Path) -> String {
        let within = path.prefix_match(&self.prefix).map(|parts| {
            parts.map(|part| part.as_ref().to_owned()).collect::<Vec<String>>().join("/")
        });
        format!("{}/{}", self.name, within.unwrap_or_else(|| path.to_string()))
    }

    /// The folder of a day of a policy.
    pub(crate) fn day(&self, policy: &str, day: NaiveDate) -> Path {
        self.policy(policy).join(format!("day={day}"))
    }

    fn policy(&self, policy: &str) -> Path {
        self.prefix.clone().join(format!("policy={policy}"))
    }

    /// The Parquet file of a closed day.
    pub(crate) fn parquet(&self, policy: &str, day: NaiveDate) -> Path {
        self.day(policy, day).join(PARQUET)
    }

    /// The Parquet file before it was read back. Readers ignore this name.
    pub(crate) fn parquet_part(&self, policy: &str, day: NaiveDate) -> Path {
        self.day(policy, day).join(PARQUET_PART)
    }

    /// A segment of a day.
    pub(crate) fn segment(&self, policy: &str, day: NaiveDate, number: u32) -> Path {
        self.day(policy, day).join(format!("ticks-{number:05}.jsonl"))
    }

    /// The days of a policy, in ascending order.
    pub(crate) async fn days(&self, policy: &str) -> Result<Vec<NaiveDate>, HistoryError> {
        let folders = self.list(&self.policy(policy)).await?.common_prefixes;
        let day =
            |folder: &Path| folder.filename()?.strip_prefix("day=")?.parse::<NaiveDate>().ok();
        let mut days: Vec<NaiveDate> = folders.iter().filter_map(day).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// The files of a day.
    pub(crate) async fn files(
        &self,
        policy: &str,
        day: NaiveDate,
    ) -> Result<DayFiles, HistoryError> {
        let found = self.list(&self.day(policy, day)).await?.objects;
        let mut files = DayFiles { day, parquet: None, part: None, segments: Vec::new() };
        for path in found.into_iter().map(|object| object.location) {
            if path.filename() == Some(PARQUET) {
                files.parquet = Some(path);
            } else if path.filename() == Some(PARQUET_PART) {
                files.part = Some(path);
            } else if segment_number(&path).is_some() {
                files.segments.push(path);
            }
        }
        files.segments.sort_by_key(segment_number);
        Ok(files)
    }

    /// Deletes objects one after the other.
    pub(crate) async fn remove(&self, paths: &[Path]) -> Result<(), HistoryError> {
        for path in paths {
            self.store
                .delete(path)
                .await
                .map_err(HistoryError::store("remove", self.display(path)))?;
        }
        Ok(())
    }

    /// The content and the version (`ETag`) of a file in the root of the place, or `None` if its
    /// version is still `known`.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, cannot be read, or has more than `most` bytes.
    pub async fn changed_file(
        &self,
        name: &str,
        known: Option<&str>,
        most: u64,
    ) -> anyhow::Result<Option<(Vec<u8>, Option<String>)>> {
        let path = self.prefix.clone().join(name);
        let options =
            GetOptions { if_none_match: known.map(str::to_owned), ..GetOptions::default() };
        let found = match self.store.get_opts(&path, options).await {
            Err(object_store::Error::NotModified { .. }) => return Ok(None),
            found => found.map_err(HistoryError::store("read", self.display(&path)))?,
        };
        anyhow::ensure!(found.meta.size <= most, "{}: more than {most} bytes", self.display(&path));
        let version = found.meta.e_tag.clone();
        let bytes =
            found.bytes().await.map_err(HistoryError::store("read", self.display(&path)))?;
        Ok(Some((bytes.into(), version)))
    }

    /// The content of a file in the root of the place; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or has more than `most` bytes.
    pub async fn file(&self, name: &str, most: u64) -> anyhow::Result<Option<Vec<u8>>> {
        match self.store.head(&self.prefix.clone().join(name)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            _ => Ok(self.changed_file(name, None, most).await?.map(|(bytes, _)| bytes)),
        }
    }

    /// Writes a file in the root of the place, in one step: a reader finds the old content or the
    /// new one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub async fn put_file(&self, name: &str, content: Vec<u8>) -> Result<(), HistoryError> {
        let path = self.prefix.clone().join(name);
        let put = self.store.put(&path, content.into()).await;
        put.map(|_| ()).map_err(HistoryError::store("write", self.display(&path)))
    }

    async fn list(&self, path: &Path) -> Result<ListResult, HistoryError> {
        let found = self.store.list_with_delimiter(Some(path)).await;
        found.map_err(HistoryError::store("list", self.display(path)))
    }
}

fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// The number of a segment; `None` for any other file.
pub(crate) fn segment_number(path: &Path) -> Option<u32> {
    path.filename()?.strip_prefix("ticks-")?.strip_suffix(".jsonl")?.parse().ok()
}

/// The folder that an address names; `None` for S3.
fn folder_of(address: &str) -> Result<Option<PathBuf>, PlaceError> {
    match address.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => Ok(Some(path.into())),
        Some(("s3", _)) => Ok(None),
        Some(_) => Err(PlaceError::Address(address.into())),
        None if address.is_empty() => Err(PlaceError::Address(address.into())),
        None => Ok(Some(address.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_folder_a_file_url_or_s3() {
        assert_eq!(folder_of("history").unwrap(), Some("history".into()));
        assert_eq!(folder_of("file:///var/history").unwrap(), Some("/var/history".into()));
        assert_eq!(folder_of("s3://bucket/prefix").unwrap(), None);
        for wrong in ["", "ftp://x", "file://relative"] {
            let error = folder_of(wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("{wrong}: expected a folder, file:///FOLDER or s3://BUCKET/PREFIX")
            );
        }
    }

    #[test]
    fn existing_does_not_create_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none").display().to_string();
        assert_eq!(
            Place::existing(&missing).unwrap_err().to_string(),
            format!("failed to open {missing}")
        );
        assert!(!folder.path().join("none").exists());
        Place::open(&missing).unwrap();
        assert!(folder.path().join("none").exists());
    }

    #[cfg(feature = "s3")]
    #[test]
    fn s3_needs_a_bucket() {
        assert!(matches!(Place::open("s3://"), Err(PlaceError::Address(_))));
    }
}
