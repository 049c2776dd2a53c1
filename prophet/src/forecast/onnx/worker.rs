//! Loads and runs models in a thread, which works while other methods forecast.
//!
//! A decision in a cluster has limits on the time that it waits for the thread, so that a slow
//! model never delays it for long. Simulations and backtests wait for each run, because their
//! result must not depend on how busy the machine is.
//!
//! In a cluster, the file is checked for changes before every forecast, and is reloaded when it has
//! changed. If the new file is faulty, its faults are reported and the previous model stays in use.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use super::file::BYTES_MAX;
use super::model::Model;
use super::slot::ModelSlot;
use super::spec::Spec;
use super::tensors::{ModelInput, ModelOutput};
use crate::forecast::model_fault::ModelFault;

/// The source of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// No model: the ensemble runs without one.
    None,
    /// The pretrained model that ships with Prophet.
    Pretrained,
    /// The paper's Transformer that ships with Prophet.
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
                    return Err(fault("it is a folder: give a file in it".into()));
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
    /// Run the model on these inputs.
    Run(ModelInput),
}

/// The spec of the model in use and the faults of a newer file that was rejected, or the faults of
/// the source if it has no usable model.
type SpecOrFaults = Result<(Arc<Spec>, Vec<ModelFault>), Vec<ModelFault>>;

enum Reply {
    Spec(SpecOrFaults),
    /// The output of a run.
    Output(Result<ModelOutput, ModelFault>),
}

/// Runs a model.
pub(super) struct Runner {
    source: ModelSource,
    worker: Worker,
    /// Whether a run has begun and is not finished.
    running: bool,
    /// Of a simulation: the spec of the model, which is loaded once.
    spec: Option<SpecOrFaults>,
    /// Of a simulation: the file of the model, which is read once for all copies.
    file: Arc<KeptFile>,
}

/// The bytes of a model, or the faults that prevented reading them, once they were read.
type KeptFile = OnceLock<Result<Cow<'static, [u8]>, Vec<ModelFault>>>;

impl Runner {
    /// Starts a thread that loads the model, and then runs it with time limits.
    pub(super) fn limited(source: ModelSource) -> Self {
        let from = source.clone();
        let load = || Loaded::new(from);
        let worker = Worker::start(load, LOAD_SECONDS_MAX, Some(RUN_SECONDS_MAX));
        Self { source, worker, running: false, spec: None, file: Arc::default() }
    }

    /// Starts a thread that loads the model once, and then runs it without a time limit. Loading
    /// has a time limit here, too, because the read of a file can hang.
    pub(super) fn patient(source: ModelSource) -> Self {
        Self::patient_with(source, Arc::default())
    }

    fn patient_with(source: ModelSource, file: Arc<KeptFile>) -> Self {
        let (from, kept) = (source.clone(), Arc::clone(&file));
        let load = move || {
            let file = kept.get_or_init(|| from.read()).as_deref().map_err(Clone::clone);
            Loaded::once(file.and_then(Model::load))
        };
        let worker = Worker::start(load, SIMULATION_SECONDS_MAX, None);
        Self { source, worker, running: false, spec: None, file }
    }

    /// Returns the spec of the model in use, and the faults of a newer file that was rejected.
    ///
    /// # Errors
    /// All faults, if there is no usable model.
    pub(super) fn spec(&mut self) -> SpecOrFaults {
        if self.running {
            // Nothing needs the output of this run.
            let _ = self.finish();
        }
        if self.worker.run.is_some() {
            return self.worker.spec();
        }
        self.spec.get_or_insert_with(|| self.worker.spec()).clone()
    }

    /// Begins to run the model on `inputs`, which have the shape of the spec that [`Self::spec`]
    /// has just returned. [`Self::finish`] returns the output.
    ///
    /// # Errors
    /// The run is skipped after slow runs.
    pub(super) fn begin(&mut self, inputs: ModelInput) -> Result<(), ModelFault> {
        debug_assert!(!self.running, "`spec` ends a run");
        self.worker.send(Request::Run(inputs))?;
        self.running = true;
        Ok(())
    }

    /// Returns the output of the run that has begun.
    ///
    /// # Errors
    /// The run fails, does not end in time, or has not begun.
    pub(super) fn finish(&mut self) -> Result<ModelOutput, ModelFault> {
        if !std::mem::take(&mut self.running) {
            return Err(out_of_step());
        }
        match self.worker.reply()? {
            Reply::Output(output) => output,
            Reply::Spec(_) => Err(out_of_step()),
        }
    }
}

/// The copy loads its model again, because a thread serves one forecaster at a time.
impl Clone for Runner {
    fn clone(&self) -> Self {
        if self.worker.run.is_some() {
            return Self::limited(self.source.clone());
        }
        Self::patient_with(self.source.clone(), Arc::clone(&self.file))
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

    fn run(&mut self, inputs: &ModelInput) -> Result<ModelOutput, ModelFault> {
        match &mut self.model {
            Ok(model) => model.run(inputs),
            Err(faults) => Err(faults.first().cloned().unwrap_or_else(out_of_step)),
        }
    }
}

/// The handle of the thread.
struct Worker {
    requests: SyncSender<Request>,
    replies: Receiver<Reply>,
    /// Whether a reply is outstanding that came too late and will be discarded.
    late: bool,
    /// The time limit of the next reply: loading first, then a run.
    patience: Option<Duration>,
    /// The time limit of a run; none in a simulation.
    run: Option<Duration>,
    /// The number of slow replies in a row, at most `SLOW_MAX`.
    slow: u32,
    /// The number of requests that will still be skipped.
    skipped: u32,
}

impl Worker {
    /// Starts the thread, which begins with `load`. The time limits of loading and of a run are in
    /// seconds.
    fn start(
        load: impl FnOnce() -> Loaded + Send + 'static,
        load_seconds: u64,
        run_seconds: Option<u64>,
    ) -> Self {
        let (requests, received) = sync_channel(1);
        let (sender, replies) = sync_channel(1);
        thread::spawn(move || work(load(), &received, &sender));
        let patience = Some(Duration::from_secs(load_seconds));
        let run = run_seconds.map(Duration::from_secs);
        Self { requests, replies, late: false, patience, run, slow: 0, skipped: 0 }
    }

    /// Returns the spec of the model in use, and the faults of a newer file that was rejected.
    ///
    /// # Errors
    /// All faults, if there is no usable model.
    fn spec(&mut self) -> SpecOrFaults {
        let reply = self.send(Request::Spec).and_then(|()| self.reply());
        match reply.map_err(|fault| vec![fault])? {
            Reply::Spec(spec) => spec,
            Reply::Output(_) => Err(vec![out_of_step()]),
        }
    }

    /// Sends a request, of which [`Self::reply`] returns the reply.
    ///
    /// # Errors
    /// The request is skipped after slow replies.
    fn send(&mut self, request: Request) -> Result<(), ModelFault> {
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
        self.requests.send(request).map_err(|_| ended())
    }

    /// Returns the reply to the last request.
    ///
    /// # Errors
    /// The reply does not come within the time limit.
    fn reply(&mut self) -> Result<Reply, ModelFault> {
        let reply = match self.patience {
            Some(limit) => self.replies.recv_timeout(limit),
            None => self.replies.recv().map_err(RecvTimeoutError::from),
        };
        match reply {
            Ok(reply) => {
                self.patience = self.run;
                if matches!(reply, Reply::Output(_)) {
                    self.slow = 0;
                }
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
fn work(mut loaded: Loaded, requests: &Receiver<Request>, replies: &SyncSender<Reply>) {
    while let Ok(request) = requests.recv() {
        let reply = match request {
            Request::Spec => Reply::Spec(loaded.spec()),
            Request::Run(inputs) => Reply::Output(loaded.run(&inputs)),
        };
        if replies.send(reply).is_err() {
            return;
        }
    }
}

/// The pretrained model that ships with Prophet. Its model card is `models/pretrained/README.md`.
pub const PRETRAINED: &[u8] = include_bytes!("../../../../models/pretrained/quantile.onnx");

/// The networks of the paper that ship with Prophet. Their model card is `models/paper/README.md`.
const PAPER_TRANSFORMER: &[u8] = include_bytes!("../../../../models/paper/transformer.onnx");
const PAPER_LSTM: &[u8] = include_bytes!("../../../../models/paper/lstm.onnx");

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
        let source = ModelSource::File(path.clone());
        let mut worker = Worker {
            patience: Some(Duration::from_millis(1)),
            ..Worker::start(move || Loaded::new(source), LOAD_SECONDS_MAX, None)
        };
        assert_eq!(worker.spec().unwrap_err(), [slow()]);
        (worker.patience, worker.skipped) = (Some(Duration::from_hours(1)), 0);
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
        let patience = Some(Duration::from_millis(1));
        let late = false;
        let worker =
            Worker { requests, replies, late, patience, run: patience, slow: 0, skipped: 0 };
        let mut runner = Runner { worker, ..Runner::patient(ModelSource::None) };
        let run = |runner: &mut Runner| {
            runner.begin(ModelInput::default())?;
            runner.finish()
        };
        let mut times = 0;
        for _ in 0..2_000 {
            assert!(run(&mut runner).is_err());
            while received.try_recv().is_ok() {
                times += 1;
                sender.send(Reply::Output(Err(slow()))).unwrap();
            }
        }
        // A request is sent after 2, 4, ... 256 skipped ones, and then after every 256.
        assert_eq!(times, 8 + (2_000 - 510 - 8) / 257 + 1);
        // A reply in time ends the backoff.
        runner.worker.skipped = 0;
        let prompt = thread::spawn(move || {
            while received.recv().is_ok() {
                sender.send(Reply::Output(Ok(ModelOutput::default()))).unwrap();
            }
        });
        runner.worker.patience = Some(Duration::from_mins(1));
        assert!(run(&mut runner).is_ok() && runner.worker.slow == 0);
        drop(runner);
        prompt.join().unwrap();
    }
}
