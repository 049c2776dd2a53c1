//! The engine that runs networks, one for the whole process: ONNX Runtime, where its library is named, else the embedded one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::Environment;

/// Which engine runs networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// In pure Rust (tract); nothing need be installed.
    Embedded,
    /// ONNX Runtime, by the path of its library.
    OnnxRuntime(PathBuf),
}

/// The engine cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Neither is there.
    #[error("this build has no embedded engine for networks, and no library of ONNX Runtime was named")]
    None,
    /// A process has one.
    #[error("networks are run by {0} already")]
    Other(Engine),
    /// The library cannot be loaded, or is too old.
    #[error("failed to start {0}: {1}")]
    Start(Engine, String),
}

struct Started {
    engine: Engine,
    environment: Environment,
}

static STARTED: OnceLock<Result<Started, EngineError>> = OnceLock::new();

/// Starts the engine of this process: ONNX Runtime where its `library` is named, else the embedded one.
///
/// # Errors
/// It cannot be started, or another one was.
pub fn start(library: Option<&Path>) -> Result<Engine, EngineError> {
    let asked = library.map_or(Engine::Embedded, |path| Engine::OnnxRuntime(path.into()));
    match STARTED.get_or_init(|| start_once(asked.clone())) {
        Err(error) => Err(error.clone()),
        Ok(started) if started.engine == asked => Ok(asked),
        Ok(started) => Err(EngineError::Other(started.engine.clone())),
    }
}

/// The environment of the engine that was started; the embedded one where none was.
pub(super) fn environment() -> Result<&'static Environment, EngineError> {
    match STARTED.get_or_init(|| start_once(Engine::Embedded)) {
        Ok(started) => Ok(&started.environment),
        Err(error) => Err(error.clone()),
    }
}

fn start_once(engine: Engine) -> Result<Started, EngineError> {
    let failed = |error: &dyn fmt::Display| EngineError::Start(engine.clone(), error.to_string());
    let builder = match &engine {
        Engine::OnnxRuntime(path) => ort::init_from(path).map_err(|error| failed(&error))?,
        Engine::Embedded => embedded()?,
    };
    let environment = builder.with_telemetry(false).build().map_err(|error| failed(&error))?;
    Ok(Started { engine, environment })
}

#[cfg(feature = "embedded-onnx")]
#[expect(clippy::unnecessary_wraps, reason = "a build without it has an error to tell")]
fn embedded() -> Result<ort::environment::EnvironmentBuilder, EngineError> {
    // Before all else: without it, the library is looked for, and where there is none, that panics.
    ort::set_api(ort_tract::api());
    Ok(ort::init())
}

#[cfg(not(feature = "embedded-onnx"))]
fn embedded() -> Result<ort::environment::EnvironmentBuilder, EngineError> {
    Err(EngineError::None)
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("the embedded engine"),
            Self::OnnxRuntime(path) => write!(f, "ONNX Runtime ({})", path.display()),
        }
    }
}
