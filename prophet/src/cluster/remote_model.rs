//! A network in an object store, fetched whenever it changes.

use std::sync::Arc;
use std::time::Duration;

use crate::forecast::onnx::{BYTES_MAX, ModelSlot};
use crate::record::store::{Place, PlaceError};

/// A network in an object store.
pub struct RemoteModel {
    place: Place,
    name: String,
    slot: ModelSlot,
    /// Of the version that was fetched last.
    etag: Option<String>,
}

/// How often it is looked at.
const EVERY: Duration = Duration::from_mins(1);

impl RemoteModel {
    /// That of an address, such as `s3://BUCKET/PREFIX/network.onnx`.
    ///
    /// # Errors
    /// The address is none, or cannot be used.
    pub fn new(address: &str) -> Result<Self, PlaceError> {
        let parts = address.rsplit_once('/');
        let (place, name) = parts
            .filter(|(place, name)| !name.is_empty() && !place.ends_with(":/"))
            .ok_or_else(|| PlaceError::Address(address.to_owned()))?;
        Ok(Self {
            place: Place::existing(place)?,
            name: name.into(),
            slot: ModelSlot::default(),
            etag: None,
        })
    }

    /// Where it is put.
    pub fn slot(&self) -> ModelSlot {
        self.slot.clone()
    }

    /// Fetches it, where it is not what it was. What goes wrong is said in its place.
    pub async fn fetch(&mut self) {
        match self.place.changed_file(&self.name, self.etag.as_deref(), BYTES_MAX).await {
            Ok(None) => {}
            Ok(Some((file, etag))) => {
                self.etag = etag;
                self.slot.put(Ok(Arc::from(file)));
            }
            Err(error) => {
                self.etag = None;
                self.slot.put(Err(format!("{error:#}")));
            }
        }
    }

    /// Fetches it for ever.
    pub async fn watch(mut self) {
        loop {
            tokio::time::sleep(EVERY).await;
            self.fetch().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there after a write, if anything.
    async fn after(network: &mut RemoteModel, write: impl FnOnce()) -> Result<Vec<u8>, String> {
        write();
        network.fetch().await;
        match network.slot.fault() {
            None => Ok(network.slot.file().unwrap().to_vec()),
            Some(fault) => Err(fault.to_string()),
        }
    }

    #[tokio::test]
    async fn it_is_fetched_when_it_changes_and_says_when_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.onnx");
        let mut network = RemoteModel::new(&format!("file://{}", path.display())).unwrap();
        assert!(network.slot.file().unwrap_err().to_string().contains("not fetched yet"));
        let write = |bytes: &'static [u8]| std::fs::write(&path, bytes).unwrap();
        assert_eq!(after(&mut network, || write(b"one")).await.unwrap(), b"one");
        let version = network.slot.version();
        assert_eq!(after(&mut network, || ()).await.unwrap(), b"one");
        assert_eq!(network.slot.version(), version);
        assert_eq!(after(&mut network, || write(b"three")).await.unwrap(), b"three");
        let gone = after(&mut network, || std::fs::remove_file(&path).unwrap()).await.unwrap_err();
        assert!(gone.contains("network.onnx") && gone.contains("not found"), "{gone}");
        let grow = || std::fs::File::create(&path).unwrap().set_len(1 + BYTES_MAX).unwrap();
        let large = after(&mut network, grow).await.unwrap_err();
        assert!(large.contains("more than"), "{large}");
        assert_eq!(&*network.slot.file().unwrap(), b"three");
        assert_eq!(after(&mut network, || write(b"one")).await.unwrap(), b"one");
    }

    #[test]
    fn an_address_names_a_file_in_a_bucket() {
        for wrong in ["network.onnx", "s3://bucket", "s3://bucket/prefix/"] {
            assert!(matches!(RemoteModel::new(wrong), Err(PlaceError::Address(_))), "{wrong}");
        }
    }
}
