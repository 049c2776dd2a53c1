//! A thread that loads networks and runs them, so that a slow one costs no more than its vote.
//!
//! The file is looked at before every forecast, and loaded anew when it has changed. What is wrong then is a fault, and the network that
//! ran before goes on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use super::contract::ModelFault;
use super::file::BYTES_MAX;
use super::network::{Answer, Inputs, Network};
use super::slot::Slot;
use super::spec::Spec;

/// Where a network comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The one that is shipped.
    Pretrained,
    /// A file, which may change.
    File(PathBuf),
    /// What is fetched from elsewhere, and may change, too.
    Slot(Slot),
}

/// Changes when the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    File(SystemTime, u64),
    Slot(u64),
}

impl Source {
    /// Loads it once.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(&self) -> Result<Network, Vec<ModelFault>> {
        match self {
            Self::Pretrained => Network::load(super::PRETRAINED),
            Self::Slot(slot) => Network::load(&slot.file().map_err(|fault| vec![fault])?),
            Self::File(path) => {
                let fault =
                    |what: String| vec![ModelFault::new("file", format!("{}: {what}", path.display()))];
                let length = fs::metadata(path).map_err(|error| fault(error.to_string()))?.len();
                if length > BYTES_MAX {
                    return Err(fault(format!("more than {BYTES_MAX} bytes")));
                }
                Network::load(&fs::read(path).map_err(|error| fault(error.to_string()))?)
            }
        }
    }

    /// What went wrong when it was fetched last.
    fn fault(&self) -> Option<ModelFault> {
        match self {
            Self::Slot(slot) => slot.fault(),
            Self::Pretrained | Self::File(_) => None,
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Pretrained => None,
            Self::Slot(slot) => Some(Stamp::Slot(slot.version())),
            Self::File(path) => {
                let found = fs::metadata(path).ok()?;
                Some(Stamp::File(found.modified().ok()?, found.len()))
            }
        }
    }
}

/// To load an unoptimised build's largest network takes seconds.
const LOAD_SECONDS_MAX: u64 = 60;

/// A run takes a millisecond, or some in an unoptimised build; this is for a network that is stuck.
const RUN_SECONDS_MAX: u64 = 2;

/// A network that was slow n times on end is not asked for the next 2^n times, n at most this: while a history of weeks is recalled,
/// nobody may wait for each of its ticks.
const SLOW_MAX: u32 = 8;

enum Asked {
    /// What is to be fed.
    Spec,
    /// What comes of it.
    Run(Inputs),
}

enum Told {
    /// What is to be fed, and what is wrong beside.
    Spec(Result<Arc<Spec>, Vec<ModelFault>>, Vec<ModelFault>),
    Answer(Result<Answer, ModelFault>),
}

/// The thread, as it is seen from outside.
pub(super) struct Worker {
    ask: SyncSender<Asked>,
    told: Receiver<Told>,
    /// Whether an answer is due that nobody waits for any more.
    late: bool,
    /// How long is waited for an answer.
    patience: Duration,
    /// How often on end it was too slow.
    slow: u32,
    /// How often it is not asked.
    skipped: u32,
}

impl Worker {
    /// Begins to load.
    pub(super) fn start(source: Source) -> Self {
        let (ask, asked) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        thread::spawn(move || work(&source, &asked, &tell));
        let patience = Duration::from_secs(LOAD_SECONDS_MAX);
        Self { ask, told, late: false, patience, slow: 0, skipped: 0 }
    }

    /// The spec of the network that is to be run, and what is wrong beside.
    pub(super) fn spec(&mut self) -> Result<(Arc<Spec>, Vec<ModelFault>), Vec<ModelFault>> {
        match self.answer(Asked::Spec).map_err(|fault| vec![fault])? {
            Told::Spec(spec, beside) => spec.map(|spec| (spec, beside)),
            Told::Answer(_) => Err(vec![out_of_step()]),
        }
    }

    pub(super) fn run(&mut self, inputs: Inputs) -> Result<Answer, ModelFault> {
        let told = self.answer(Asked::Run(inputs))?;
        self.slow = 0;
        match told {
            Told::Answer(answer) => answer,
            Told::Spec(..) => Err(out_of_step()),
        }
    }

    fn answer(&mut self, asked: Asked) -> Result<Told, ModelFault> {
        if let Some(fewer) = self.skipped.checked_sub(1) {
            self.skipped = fewer;
            return Err(slow());
        }
        if self.late {
            match self.told.try_recv() {
                Ok(_) => self.late = false,
                Err(TryRecvError::Empty) => return Err(slow()),
                Err(TryRecvError::Disconnected) => return Err(ended()),
            }
        }
        self.ask.send(asked).map_err(|_| ended())?;
        match self.told.recv_timeout(self.patience) {
            Ok(told) => {
                self.patience = Duration::from_secs(RUN_SECONDS_MAX);
                Ok(told)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.late = true;
                self.slow = (self.slow + 1).min(SLOW_MAX);
                self.skipped = 1 << self.slow;
                Err(slow())
            }
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }
}

fn slow() -> ModelFault {
    ModelFault::new("graph", format!("did not answer within {RUN_SECONDS_MAX} s"))
}

fn ended() -> ModelFault {
    ModelFault::new("graph", "its thread has ended")
}

fn out_of_step() -> ModelFault {
    ModelFault::new("graph", "answered something else")
}

fn work(source: &Source, asked: &Receiver<Asked>, tell: &SyncSender<Told>) {
    let mut stamp = source.stamp();
    let mut network = source.load();
    let mut beside = Vec::new();
    while let Ok(asked) = asked.recv() {
        let told = match asked {
            Asked::Spec => {
                let now = source.stamp();
                if now != stamp {
                    stamp = now;
                    beside = match (source.load(), &network) {
                        (Err(faults), Ok(_)) => faults,
                        (loaded, _) => {
                            network = loaded;
                            Vec::new()
                        }
                    };
                }
                let spec = network.as_ref().map(|network| Arc::clone(network.spec())).map_err(Clone::clone);
                Told::Spec(spec, beside.iter().cloned().chain(source.fault()).collect())
            }
            Asked::Run(inputs) => Told::Answer(match &mut network {
                Ok(network) => network.run(&inputs),
                Err(faults) => Err(faults.first().cloned().unwrap_or_else(out_of_step)),
            }),
        };
        if tell.send(told).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer comes after the patience has ended.
    #[test]
    fn a_slow_network_is_asked_ever_less_often() {
        let ((ask, asked), (tell, told)) = (sync_channel(1), sync_channel(1));
        let patience = Duration::from_millis(1);
        let mut worker = Worker { ask, told, late: false, patience, slow: 0, skipped: 0 };
        let mut times = 0;
        for _ in 0..2_000 {
            assert!(worker.run(Inputs::default()).is_err());
            while asked.try_recv().is_ok() {
                times += 1;
                tell.send(Told::Answer(Err(slow()))).unwrap();
            }
        }
        // After 2, 4, ... 256 others, and then after each 256.
        assert_eq!(times, 8 + (2_000 - 510 - 8) / 257 + 1);
        // Once it answers in time it is asked each time again.
        worker.skipped = 0;
        let prompt = thread::spawn(move || {
            while asked.recv().is_ok() {
                tell.send(Told::Answer(Ok(Answer::default()))).unwrap();
            }
        });
        worker.patience = Duration::from_mins(1);
        assert!(worker.run(Inputs::default()).is_ok() && worker.slow == 0);
        drop(worker);
        prompt.join().unwrap();
    }
}
