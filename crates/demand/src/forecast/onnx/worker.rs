//! Loads and runs models. For decisions in a cluster, a thread does so, so that a slow model never
//! delays a decision for long. In simulations and backtests, a loaded model runs in the thread of
//! the forecast, because the result must not depend on how busy the machine is.
//!
//! In a cluster, the file is checked for changes before every forecast, and is reloaded when it has
//! changed. If the new file is faulty, its faults are reported and the previous model stays in use.
//! A simulation and its copies read the file once.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use base::input::is_a_folder;

use super::engine::in_engine_thread;
use super::file::BYTES_MAX;
use super::model::Model;
use super::slot::ModelSlot;
use super::spec::Spec;
use super::tensors::{ModelInput, ModelOutput, Wanted};
use crate::forecast::model_fault::ModelFault;

/// Where the ONNX model of a forecaster is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// No model: the ensemble runs without one.
    None,
    /// The pretrained model that ships with Prophet.
    Pretrained,
    /// The variant of the paper's Transformer that ships with Prophet.
    PaperTransformer,
    /// The paper's LSTM that ships with Prophet.
    PaperLstm,
    /// A file, which may change while the model is in use.
    File(PathBuf),
    /// A slot in memory that another task fills, and may fill again while the model is in use.
    Slot(ModelSlot),
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no model"),
            Self::Pretrained => f.write_str("the shipped model"),
            Self::PaperTransformer => f.write_str("the shipped Transformer"),
            Self::PaperLstm => f.write_str("the shipped LSTM"),
            Self::File(path) => write!(f, "the model {}", path.display()),
            Self::Slot(_) => f.write_str("the fetched model"),
        }
    }
}

/// A value that changes when the model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    /// The time of modification, and the size in bytes.
    File(SystemTime, u64),
    /// The version of the slot.
    Slot(u64),
}

impl ModelSource {
    /// Loads the model once.
    ///
    /// # Errors
    /// All faults of the model, at least one.
    pub fn load(&self) -> Result<Model, Vec<ModelFault>> {
        Model::load(&self.read()?)
    }

    /// Reads the file of the model.
    fn read(&self) -> Result<Cow<'static, [u8]>, Vec<ModelFault>> {
        match self {
            Self::None => Err(vec![ModelFault::new("file", "there is no model")]),
            Self::Pretrained => Ok(PRETRAINED.into()),
            Self::PaperTransformer => Ok(PAPER_TRANSFORMER.into()),
            Self::PaperLstm => Ok(PAPER_LSTM.into()),
            Self::Slot(slot) => Ok(slot.file().map_err(|fault| vec![fault])?.to_vec().into()),
            Self::File(path) => {
                let fault = |what: String| vec![ModelFault::new("file", what)];
                let found = fs::metadata(path).map_err(|error| fault(error.to_string()))?;
                if found.is_dir() {
                    return Err(fault(is_a_folder().to_string()));
                }
                if found.len() > BYTES_MAX {
                    return Err(fault(format!("more than {BYTES_MAX} bytes")));
                }
                Ok(fs::read(path).map_err(|error| fault(error.to_string()))?.into())
            }
        }
    }

    /// Returns the fault of the last fetch, if the source is a slot and the fetch failed.
    fn fault(&self) -> Option<ModelFault> {
        match self {
            Self::Slot(slot) => slot.fault(),
            Self::None
            | Self::Pretrained
            | Self::PaperTransformer
            | Self::PaperLstm
            | Self::File(_) => None,
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::None | Self::Pretrained | Self::PaperTransformer | Self::PaperLstm => None,
            Self::Slot(slot) => Some(Stamp::Slot(slot.version())),
            Self::File(path) => {
                let found = fs::metadata(path).ok()?;
                Some(Stamp::File(found.modified().ok()?, found.len()))
            }
        }
    }
}

/// How long a decision waits for a model to be loaded, in seconds. Loading takes less than a second
/// in a release build, so a longer one is stuck. For example, the read of a file on a network file
/// system can hang.
const LOAD_SECONDS_MAX: u64 = 10;

/// How long a simulation waits for a model to be loaded, in seconds. Loading takes less than a
/// second, so that a longer one is stuck, also on a machine with much other work.
const SIMULATION_SECONDS_MAX: u64 = 60;

/// How long a run may take, in seconds. A run takes a millisecond, or a few in an unoptimised
/// build, so a longer run is stuck.
const RUN_SECONDS_MAX: u64 = 2;

/// Largest exponent of the backoff. After n slow replies in a row, the next 2^n requests are
/// skipped, with n at most this. Without the backoff, the replay of weeks of history would wait for
/// the time limit at each tick.
const SLOW_MAX: u32 = 8;

enum Request {
    /// Return the spec of the model.
    Spec,
    /// Run the model with this spec on these inputs, each of batch 1.
    Run(Arc<Spec>, Vec<ModelInput>, Wanted),
}

/// The spec of the model in use and the faults of a newer file that was rejected, or the faults of
/// the source if it has no usable model.
type SpecOrFaults = Result<(Arc<Spec>, Vec<ModelFault>), Vec<ModelFault>>;

enum Reply {
    Spec(SpecOrFaults),
    /// The output of each input.
    Outputs(Result<Outputs, ModelFault>),
}

/// The output or the fault of each input.
type Outputs = Vec<Result<ModelOutput, ModelFault>>;

/// Runs a model.
pub(super) struct Runner {
    source: ModelSource,
    place: Place,
    /// The file of the model in a simulation, which reads it once for all copies. Unused in a
    /// cluster.
    file: Arc<KeptFile>,
}

/// The bytes of a model, or the faults that prevented reading them, once they were read.
type KeptFile = OnceLock<Result<Cow<'static, [u8]>, Vec<ModelFault>>>;

/// Where a model runs.
enum Place {
    /// The model runs in a thread of its own, with time limits.
    Worker(Worker),
    /// The model runs in the thread of the forecast, once another thread has loaded it.
    Loading(Receiver<Box<Loaded>>),
    /// The model runs in the thread of the forecast, without a time limit.
    Here(Box<Loaded>),
    /// The model does not run, because it was not loaded in time, or loading failed.
    NotLoaded(ModelFault),
}

impl Runner {
    /// Starts a thread that loads the model, and then runs it with time limits.
    pub(super) fn limited(source: ModelSource) -> Self {
        let place = Place::Worker(Worker::start(source.clone()));
        Self { source, place, file: Arc::default() }
    }

    /// Starts a thread that loads the model, which will run in the thread of the forecast. Loading
    /// has a time limit here, too, because the read of a file can hang.
    pub(super) fn patient(source: ModelSource) -> Self {
        Self::patient_with(source, Arc::default())
    }

    fn patient_with(source: ModelSource, file: Arc<KeptFile>) -> Self {
        let (sender, loading) = sync_channel(1);
        let (from, kept) = (source.clone(), Arc::clone(&file));
        thread::spawn(move || {
            let file = kept.get_or_init(|| from.read()).as_deref().map_err(Clone::clone);
            sender.send(Box::new(Loaded::once(file.and_then(Model::load))))
        });
        Self { source, place: Place::Loading(loading), file }
    }

    /// Returns the spec of the model in use, and the faults of a newer file that was rejected.
    ///
    /// # Errors
    /// All faults, if there is no usable model.
    pub(super) fn spec(&mut self) -> SpecOrFaults {
        match &mut self.place {
            Place::Worker(worker) => worker.spec(),
            place => place.loaded().map_err(|fault| vec![fault])?.spec(),
        }
    }

    /// Runs the model on `inputs`, each of batch 1, for the outputs that are wanted. The inputs
    /// were made for the model with this spec.
    ///
    /// # Errors
    /// Another model was loaded since. In a thread of its own, also: the run does not end in time,
    /// or is skipped after slow runs.
    pub(super) fn run(
        &mut self,
        spec: &Arc<Spec>,
        inputs: &[&ModelInput],
        wanted: Wanted,
    ) -> Result<Outputs, ModelFault> {
        match &mut self.place {
            Place::Worker(worker) => {
                let inputs = inputs.iter().copied().cloned().collect();
                worker.run(spec, inputs, wanted)
            }
            place => place.loaded()?.run(spec, inputs, wanted),
        }
    }
}

/// Loads the model again, because a loaded model serves one forecaster at a time.
impl Clone for Runner {
    fn clone(&self) -> Self {
        let source = self.source.clone();
        match self.place {
            Place::Worker(_) => Self::limited(source),
            Place::Loading(_) | Place::Here(_) | Place::NotLoaded(_) => {
                Self::patient_with(source, Arc::clone(&self.file))
            }
        }
    }
}

impl Place {
    /// Waits until the model is loaded, once.
    fn loaded(&mut self) -> Result<&mut Loaded, ModelFault> {
        if let Self::Loading(loading) = self {
            let loaded = loading.recv_timeout(Duration::from_secs(SIMULATION_SECONDS_MAX));
            *self = match loaded {
                Ok(loaded) => Self::Here(loaded),
                Err(RecvTimeoutError::Timeout) => Self::NotLoaded(slow()),
                Err(RecvTimeoutError::Disconnected) => Self::NotLoaded(ended()),
            };
        }
        match self {
            Self::Here(loaded) => Ok(loaded),
            Self::NotLoaded(fault) => Err(fault.clone()),
            Self::Loading(_) | Self::Worker(_) => Err(slow()),
        }
    }
}

/// A model with its source, from which it is loaded again when the source has changed.
struct Loaded {
    source: ModelSource,
    stamp: Option<Stamp>,
    model: Result<Model, Vec<ModelFault>>,
    /// The faults of a newer file that was rejected.
    rejected: Vec<ModelFault>,
}

impl Loaded {
    fn new(source: ModelSource) -> Self {
        Self { stamp: source.stamp(), model: source.load(), rejected: Vec::new(), source }
    }

    /// A model that is never loaded again.
    fn once(model: Result<Model, Vec<ModelFault>>) -> Self {
        Self { source: ModelSource::None, stamp: None, model, rejected: Vec::new() }
    }

    fn spec(&mut self) -> SpecOrFaults {
        let now = self.source.stamp();
        if now != self.stamp {
            self.stamp = now;
            self.rejected = match (self.source.load(), &self.model) {
                (Err(faults), Ok(_)) => faults,
                (loaded, _) => {
                    self.model = loaded;
                    Vec::new()
                }
            };
        }
        let model = self.model.as_ref().map_err(Clone::clone)?;
        let rejected = self.rejected.iter().cloned().chain(self.source.fault());
        Ok((Arc::clone(model.spec()), rejected.collect()))
    }

    fn run<I: Borrow<ModelInput>>(
        &mut self,
        spec: &Arc<Spec>,
        inputs: &[I],
        wanted: Wanted,
    ) -> Result<Outputs, ModelFault> {
        match &mut self.model {
            Ok(model) if Spec::is_same(model.spec(), spec) => Ok(model.run_rows(inputs, wanted)),
            Ok(_) => Err(ModelFault::new("file", "the model changed before the run")),
            Err(faults) => Err(faults.first().cloned().unwrap_or_else(out_of_step)),
        }
    }
}

/// The handle of the thread that runs a model.
pub(super) struct Worker {
    requests: SyncSender<Request>,
    replies: Receiver<Reply>,
    /// Whether a reply is outstanding that came too late and will be discarded.
    late: bool,
    /// The time limit of the next reply: loading first, then a run.
    patience: Duration,
    /// The time limit of a run.
    run: Duration,
    /// The number of slow replies in a row, at most `SLOW_MAX`.
    slow: u32,
    /// The number of requests that will still be skipped.
    skipped: u32,
}

impl Worker {
    /// Starts the thread, which begins to load the model.
    pub(super) fn start(source: ModelSource) -> Self {
        let (requests, received) = sync_channel(1);
        let (sender, replies) = sync_channel(1);
        thread::spawn(move || in_engine_thread(|| work(Loaded::new(source), received, sender)));
        let patience = Duration::from_secs(LOAD_SECONDS_MAX);
        let run = Duration::from_secs(RUN_SECONDS_MAX);
        Self { requests, replies, late: false, patience, run, slow: 0, skipped: 0 }
    }

    /// Returns the spec of the model in use, and the faults of a newer file that was rejected.
    ///
    /// # Errors
    /// All faults, if there is no usable model.
    pub(super) fn spec(&mut self) -> SpecOrFaults {
        match self.request(Request::Spec).map_err(|fault| vec![fault])? {
            Reply::Spec(spec) => spec,
            Reply::Outputs(_) => Err(vec![out_of_step()]),
        }
    }

    /// Runs the model with this spec on `inputs`, for the outputs that are wanted.
    ///
    /// # Errors
    /// Another model was loaded since, or the run does not end in time, or is skipped after slow
    /// runs.
    pub(super) fn run(
        &mut self,
        spec: &Arc<Spec>,
        inputs: Vec<ModelInput>,
        wanted: Wanted,
    ) -> Result<Outputs, ModelFault> {
        let reply = self.request(Request::Run(Arc::clone(spec), inputs, wanted))?;
        self.slow = 0;
        match reply {
            Reply::Outputs(outputs) => outputs,
            Reply::Spec(_) => Err(out_of_step()),
        }
    }

    /// Sends a request and returns its reply within the time limit.
    fn request(&mut self, request: Request) -> Result<Reply, ModelFault> {
        if let Some(fewer) = self.skipped.checked_sub(1) {
            self.skipped = fewer;
            return Err(slow());
        }
        if self.late {
            match self.replies.try_recv() {
                Ok(_) => self.late = false,
                Err(TryRecvError::Empty) => return Err(slow()),
                Err(TryRecvError::Disconnected) => return Err(ended()),
            }
        }
        self.requests.send(request).map_err(|_| ended())?;
        match self.replies.recv_timeout(self.patience) {
            Ok(reply) => {
                self.patience = self.run;
                Ok(reply)
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
    ModelFault::new("graph", "the model was not loaded, or did not run, in time")
}

fn ended() -> ModelFault {
    ModelFault::new("graph", "the thread of the model has ended")
}

fn out_of_step() -> ModelFault {
    ModelFault::new("graph", "the thread of the model sent an unexpected reply")
}

/// Serves requests until the worker is dropped.
#[expect(clippy::needless_pass_by_value, reason = "a receiver cannot be lent to another thread")]
fn work(mut loaded: Loaded, requests: Receiver<Request>, replies: SyncSender<Reply>) {
    while let Ok(request) = requests.recv() {
        let reply = match request {
            Request::Spec => Reply::Spec(loaded.spec()),
            Request::Run(spec, inputs, wanted) => {
                Reply::Outputs(loaded.run(&spec, &inputs, wanted))
            }
        };
        if replies.send(reply).is_err() {
            return;
        }
    }
}

/// The pretrained model that ships with Prophet. Its model card is `models/pretrained/README.md`.
pub const PRETRAINED: &[u8] = include_bytes!("../../../../../models/pretrained/quantile.onnx");

/// The models of the paper that ship with Prophet. Their model card is `models/paper/README.md`.
const PAPER_TRANSFORMER: &[u8] = include_bytes!("../../../../../models/paper/transformer.onnx");
const PAPER_LSTM: &[u8] = include_bytes!("../../../../../models/paper/lstm.onnx");

#[cfg(test)]
mod tests {
    use super::*;

    /// The read of a named pipe without a writer hangs. The second request must not wait: its time
    /// limit is an hour.
    #[test]
    fn a_file_whose_read_hangs_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut worker = Worker {
            patience: Duration::from_millis(1),
            ..Worker::start(ModelSource::File(path.clone()))
        };
        assert_eq!(worker.spec().unwrap_err(), [slow()]);
        (worker.patience, worker.skipped) = (Duration::from_hours(1), 0);
        assert_eq!(worker.spec().unwrap_err(), [slow()]);
        // Ends the read. The thread finds no file when it looks again, and ends.
        let mut pipe = fs::File::options().write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::io::Write::write_all(&mut pipe, b"no model").unwrap();
    }

    /// Each reply comes after the time limit.
    #[test]
    fn requests_to_a_slow_model_back_off() {
        let ((requests, received), (sender, replies)) = (sync_channel(1), sync_channel(1));
        let patience = Duration::from_millis(1);
        let (run, late) = (patience, false);
        let mut worker = Worker { requests, replies, late, patience, run, slow: 0, skipped: 0 };
        let spec = Arc::clone(ModelSource::Pretrained.load().ok().unwrap().spec());
        let mut times = 0;
        for _ in 0..2_000 {
            assert!(worker.run(&spec, Vec::new(), Wanted::All).is_err());
            while received.try_recv().is_ok() {
                times += 1;
                sender.send(Reply::Outputs(Err(slow()))).unwrap();
            }
        }
        // A request is sent after 2, 4, ... 256 skipped ones, and then after every 256.
        assert_eq!(times, 8 + (2_000 - 510 - 8) / 257 + 1);
        // A reply in time ends the backoff.
        worker.skipped = 0;
        let prompt = thread::spawn(move || {
            while received.recv().is_ok() {
                sender.send(Reply::Outputs(Ok(Vec::new()))).unwrap();
            }
        });
        worker.patience = Duration::from_mins(1);
        assert!(worker.run(&spec, Vec::new(), Wanted::All).is_ok() && worker.slow == 0);
        drop(worker);
        prompt.join().unwrap();
    }
}
