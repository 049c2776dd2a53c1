//! A place in memory for a network that somebody else fetches.

use std::sync::{Arc, Mutex, PoisonError};

use super::contract::ModelFault;

/// See the module. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<Mutex<Fetched>>);

#[derive(Debug, Default)]
struct Fetched {
    /// Rises with each fetch that brought something new.
    version: u64,
    file: Option<Result<Arc<[u8]>, String>>,
}

impl Slot {
    /// Puts what a fetch came to: a file, or why there is none.
    pub fn put(&self, file: Result<Arc<[u8]>, String>) {
        let mut fetched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if fetched.file.as_ref() != Some(&file) {
            fetched.version += 1;
            fetched.file = Some(file);
        }
    }

    /// What was fetched last.
    ///
    /// # Errors
    /// Why there is none.
    pub fn file(&self) -> Result<Arc<[u8]>, ModelFault> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).file.clone();
        file.unwrap_or_else(|| Err("not fetched yet".into())).map_err(|what| ModelFault::new("file", what))
    }

    /// Another one where what was fetched is not what it was.
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
