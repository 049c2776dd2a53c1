//! A place in memory for a model that another task fetches.

use std::sync::{Arc, Mutex, PoisonError};

use crate::forecast::model_fault::ModelFault;

/// Holds the last fetched model file. Clones share the same slot.
#[derive(Clone, Debug, Default)]
pub struct ModelSlot(Arc<Mutex<Fetched>>);

#[derive(Debug, Default)]
struct Fetched {
    /// Increases by one with each new file.
    version: u64,
    /// The last file that was fetched.
    file: Option<Arc<[u8]>>,
    /// The reason why the last fetch failed.
    fault: Option<String>,
}

impl ModelSlot {
    /// Stores the result of a fetch: a file, or the reason why the fetch failed.
    pub fn put(&self, file: Result<Arc<[u8]>, String>) {
        let mut fetched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match file {
            Ok(file) => {
                fetched.fault = None;
                if fetched.file.as_ref() != Some(&file) {
                    fetched.version += 1;
                    fetched.file = Some(file);
                }
            }
            Err(what) => fetched.fault = Some(what),
        }
    }

    /// Returns the last file that was fetched, even if later fetches failed.
    ///
    /// # Errors
    /// No file was fetched yet; the fault gives the reason.
    pub fn file(&self) -> Result<Arc<[u8]>, ModelFault> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).file.clone();
        let none = || ModelFault::new("file", "not fetched yet");
        file.ok_or_else(|| self.fault().unwrap_or_else(none))
    }

    /// Returns the fault of the last fetch, if it failed.
    pub fn fault(&self) -> Option<ModelFault> {
        let fetched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.fault.as_ref().map(|what| ModelFault::new("file", what))
    }

    /// Returns the version of the file, which changes whenever the file does.
    pub fn version(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).version
    }
}

/// Two slots are equal if they are the same place in memory.
impl PartialEq for ModelSlot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ModelSlot {}
