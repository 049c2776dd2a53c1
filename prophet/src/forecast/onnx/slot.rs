//! A place in memory for a network that somebody else fetches.

use std::sync::{Arc, Mutex, PoisonError};

use super::contract::ModelFault;

/// See the module. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<Mutex<Fetched>>);

#[derive(Debug, Default)]
struct Fetched {
    /// Rises with each file that is new.
    version: u64,
    /// The last one that there was.
    file: Option<Arc<[u8]>>,
    /// Why the last fetch brought none.
    fault: Option<String>,
}

impl Slot {
    /// Puts what a fetch came to: a file, or why there is none.
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

    /// The last file that was fetched, whatever came of later fetches.
    ///
    /// # Errors
    /// Why there is none.
    pub fn file(&self) -> Result<Arc<[u8]>, ModelFault> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).file.clone();
        let none = || ModelFault::new("file", "not fetched yet");
        file.ok_or_else(|| self.fault().unwrap_or_else(none))
    }

    /// What was wrong with the last fetch.
    pub fn fault(&self) -> Option<ModelFault> {
        let fetched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.fault.as_ref().map(|what| ModelFault::new("file", what))
    }

    /// Another one where the file is.
    pub fn version(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).version
    }
}

/// Whether both are the same place.
impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Slot {}
