//! An ONNX model in an object store, fetched again whenever it changes.

use std::sync::Arc;
use std::time::Duration;

use demand::forecast::onnx::{BYTES_MAX, ModelSlot};
use history::{Place, PlaceError};

/// An ONNX model in an object store.
pub struct RemoteModel {
    place: Place,
    name: String,
    slot: ModelSlot,
    /// The `ETag` of the version that was fetched last.
    etag: Option<String>,
}

/// How often the object store is checked for a new version.
const EVERY: Duration = Duration::from_mins(1);

impl RemoteModel {
    /// Creates the model of an address, such as `s3://BUCKET/PREFIX/model.onnx`, without fetching
    /// it.
    ///
    /// # Errors
    /// The address is invalid, or its object store cannot be used.
    pub fn new(address: &str) -> Result<Self, PlaceError> {
        let (place, name) = Place::of_file(address)?;
        Ok(Self { place, name, slot: ModelSlot::default(), etag: None })
    }

    /// The slot that holds the fetched model.
    pub fn slot(&self) -> ModelSlot {
        self.slot.clone()
    }

    /// Fetches the model if it changed. An error is put into the slot.
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

    /// Fetches the model whenever it changes. Never returns.
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

    /// The model in the slot after a write and a fetch, or the slot's fault.
    async fn after(model: &mut RemoteModel, write: impl FnOnce()) -> Result<Vec<u8>, String> {
        write();
        model.fetch().await;
        match model.slot.fault() {
            None => Ok(model.slot.file().unwrap().to_vec()),
            Some(fault) => Err(fault.to_string()),
        }
    }

    #[tokio::test]
    async fn a_model_is_fetched_when_it_changes_and_its_absence_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.onnx");
        let mut model = RemoteModel::new(&format!("file://{}", path.display())).unwrap();
        assert!(model.slot.file().unwrap_err().to_string().contains("not fetched yet"));
        let write = |bytes: &'static [u8]| std::fs::write(&path, bytes).unwrap();
        assert_eq!(after(&mut model, || write(b"one")).await.unwrap(), b"one");
        let version = model.slot.version();
        assert_eq!(after(&mut model, || ()).await.unwrap(), b"one");
        assert_eq!(model.slot.version(), version);
        assert_eq!(after(&mut model, || write(b"three")).await.unwrap(), b"three");
        let gone = after(&mut model, || std::fs::remove_file(&path).unwrap()).await.unwrap_err();
        assert!(gone.contains("network.onnx") && gone.contains("not found"), "{gone}");
        let grow = || std::fs::File::create(&path).unwrap().set_len(1 + BYTES_MAX).unwrap();
        let large = after(&mut model, grow).await.unwrap_err();
        assert!(large.contains("more than"), "{large}");
        assert_eq!(&*model.slot.file().unwrap(), b"three");
        assert_eq!(after(&mut model, || write(b"one")).await.unwrap(), b"one");
    }

    #[test]
    fn an_address_must_name_a_file_in_an_object_store() {
        for wrong in ["network.onnx", "s3://bucket", "s3://bucket/prefix/"] {
            assert!(matches!(RemoteModel::new(wrong), Err(PlaceError::Address(_))), "{wrong}");
        }
    }
}
