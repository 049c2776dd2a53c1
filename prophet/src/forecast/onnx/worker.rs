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
}

impl Worker {
    /// Begins to load.
    pub(super) fn start(source: Source) -> Self {
        let (ask, asked) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        thread::spawn(move || work(&source, &asked, &tell));
        Self { ask, told, late: false, patience: Duration::from_secs(LOAD_SECONDS_MAX) }
    }

    /// The spec of the network that is to be run, and what is wrong beside.
    pub(super) fn spec(&mut self) -> Result<(Arc<Spec>, Vec<ModelFault>), Vec<ModelFault>> {
        match self.answer(Asked::Spec).map_err(|fault| vec![fault])? {
            Told::Spec(spec, beside) => spec.map(|spec| (spec, beside)),
            Told::Answer(_) => Err(vec![out_of_step()]),
        }
    }

    pub(super) fn run(&mut self, inputs: Inputs) -> Result<Answer, ModelFault> {
        match self.answer(Asked::Run(inputs))? {
            Told::Answer(answer) => answer,
            Told::Spec(..) => Err(out_of_step()),
        }
    }

    fn answer(&mut self, asked: Asked) -> Result<Told, ModelFault> {
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
                Told::Spec(spec, beside.clone())
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
