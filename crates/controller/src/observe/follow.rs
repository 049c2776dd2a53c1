//! One watch: it applies the events of a kind to the [`World`].
//!
//! A watch that fails records its error, and after a pause lists all objects again. Until that list
//! is complete, the watch counts as failing, and the state that it reported before is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use watcher::{DefaultBackoff, Event, InitialListStrategy};

use super::announced::Announcement;
use super::objects::Key;
use super::world::World;

/// The world that the watches update, and a notification of its changes.
#[derive(Debug, Default)]
pub struct Shared {
    world: Mutex<World>,
    changed: Notify,
}

impl Shared {
    /// Locks the world. The lock must be held only briefly, because events wait for it.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the world has changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Notifies [`Shared::changed`] of a change.
    pub fn ring(&self) {
        self.changed.notify_one();
    }
}

/// The label selector of the objects that Prophet manages.
pub(super) const OURS: &str = "app.kubernetes.io/managed-by=prophet";

/// The longest pause before a failed watch starts again. It is short, so that headroom is renewed
/// within a minute after the API server returns from a long outage.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// The length of a watch request in seconds. The API server ends it then, and the next one resumes
/// where it ended, without a list. If the end does not arrive within five more seconds, the
/// connection is half open, and the watch is resumed on another one.
pub const WATCH_SECONDS: u32 = 60;

/// Applies the events of one watch, until its task is aborted.
///
/// After an error, all objects are listed again. A watch that resumes instead has no event until an
/// object of its kind changes, so its recovery could not be recognised.
pub(super) async fn follow<K>(
    name: String,
    api: Api<K>,
    mut config: watcher::Config,
    shared: Arc<Shared>,
    mut apply: impl FnMut(&mut World, Event<K>) + Send + 'static,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    config.timeout = Some(WATCH_SECONDS);
    let mut pauses = DefaultBackoff::default();
    loop {
        let events = std::pin::pin!(watcher(api.clone(), config.clone()));
        if let Some(error) = until_error(&name, events, &shared, &mut apply).await {
            if config.initial_list_strategy == InitialListStrategy::StreamingList
                && is_refusal(&error)
            {
                tracing::info!(watch = name, %error, "no streaming lists, so pages are listed");
                config.initial_list_strategy = InitialListStrategy::ListWatch;
                continue;
            }
            tracing::warn!(watch = name, %error, "watch failed");
            shared.world().failing.insert(name.clone(), error.to_string());
            shared.ring();
        }
        tokio::time::sleep(pauses.next().unwrap_or(PAUSE_MAX).min(PAUSE_MAX)).await;
    }
}

/// Whether the API server does not support streaming lists: their feature gate `WatchList` is off
/// by default in some versions of Kubernetes.
fn is_refusal(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 422)
}

/// Applies events until the first error, which is returned, or until the events end.
async fn until_error<K>(
    name: &str,
    mut events: impl Stream<Item = watcher::Result<Event<K>>> + Unpin,
    shared: &Shared,
    apply: &mut impl FnMut(&mut World, Event<K>),
) -> Option<watcher::Error> {
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => return Some(error),
        };
        {
            let mut world = shared.world();
            // `Init` precedes the request, and a part of a list can hide changes of the rest. Only
            // a complete list shows that the watch works again.
            if matches!(event, Event::InitDone) {
                world.failing.remove(name);
                world.unlisted.remove(name);
            }
            apply(&mut world, event);
        }
        shared.ring();
    }
    None
}

/// Returns a function that applies events of a kind whose objects are stored as they are.
///
/// `here` is the namespace of the watch, or `None` for all namespaces. Objects that a new list
/// lacks are removed only when the list has ended, so that existing objects never seem to be gone.
pub(super) fn kept<K: Resource, V>(
    here: Option<String>,
    map: impl Fn(&mut World) -> &mut BTreeMap<Key, V>,
    of: impl Fn(K) -> Option<V>,
) -> impl FnMut(&mut World, Event<K>) {
    let mut listed = BTreeSet::new();
    move |world, event| apply_to(&mut listed, map(world), here.as_deref(), &of, event)
}

/// Applies an event of a kind to the map of its objects. `listed` has the keys of the list that is
/// in progress.
pub(super) fn apply_to<K: Resource, V>(
    listed: &mut BTreeSet<Key>,
    map: &mut BTreeMap<Key, V>,
    here: Option<&str>,
    of: impl Fn(K) -> Option<V>,
    event: Event<K>,
) {
    let mut apply = |object: K| {
        let key = Key::of(object.meta());
        match of(object) {
            Some(value) => drop(map.insert(key.clone(), value)),
            None => drop(map.remove(&key)),
        }
        key
    };
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => drop(listed.insert(apply(object))),
        Event::Apply(object) => drop(apply(object)),
        Event::InitDone => {
            let of_list = |key: &Key| here.is_none_or(|here| key.namespace == here);
            map.retain(|key, _| !of_list(key) || listed.contains(key));
        }
        Event::Delete(object) => drop(map.remove(&Key::of(object.meta()))),
    }
}

/// Returns a function that applies events of a kind that announces pods.
pub(super) fn announcer<K: Resource + Send + 'static>(
    name: &'static str,
    read: impl Fn(&K) -> Option<Announcement> + Send + 'static,
) -> impl FnMut(&mut World, Event<K>) + Send + 'static {
    let mut listed = BTreeSet::new();
    move |world, event| {
        let index = &mut world.index;
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let key = Key::of(object.meta());
                listed.insert(key.clone());
                index.announce(name, key, read(&object));
            }
            Event::Apply(object) => index.announce(name, Key::of(object.meta()), read(&object)),
            Event::InitDone => index.retain_announced(name, &listed),
            Event::Delete(object) => index.announce(name, Key::of(object.meta()), None),
        }
    }
}

#[cfg(test)]
mod tests;
