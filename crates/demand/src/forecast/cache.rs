//! What a forecast keeps for the next one, behind a shared reference, and copies of it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that a forecast keeps for the next one. A panic while it was changed is no reason to
/// stop forecasting, so a poisoned lock is taken over.
#[derive(Default)]
pub(super) struct Cache<T>(Mutex<T>);

impl<T> Cache<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self::new(self.lock().clone())
    }
}

/// The copies of the values that several methods of one forecaster share.
#[derive(Default)]
pub struct Copied(HashMap<usize, Arc<dyn Any + Send + Sync>>);

impl Copied {
    /// Returns the copy of a value: the same one for all methods that share the value.
    pub(super) fn of<T: Clone + Send + Sync + 'static>(&mut self, value: &Arc<T>) -> Arc<T> {
        let copy = self.0.entry(Arc::as_ptr(value).addr());
        let copy = copy.or_insert_with(|| Arc::new(T::clone(value)));
        Arc::downcast(Arc::clone(copy)).unwrap_or_else(|_| Arc::new(T::clone(value)))
    }
}
