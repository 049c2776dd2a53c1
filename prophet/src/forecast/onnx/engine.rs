//! The engine that runs models. A process has one engine: ONNX Runtime if its library is named, the
//! embedded engine otherwise.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::Environment;

/// An engine that runs models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The embedded engine, in pure Rust (tract). It needs no library.
    Embedded,
    /// ONNX Runtime, with the path of its library.
    OnnxRuntime(PathBuf),
}

/// The reason why an engine is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The build has no embedded engine, and no library was named.
    #[error(
        "this build has no embedded engine for models, and no library of ONNX Runtime was named"
    )]
    None,
    /// The process already runs another engine.
    #[error("this process already runs models with {0}")]
    Other(Engine),
    /// The library of ONNX Runtime cannot be loaded, or it is too old.
    #[error("failed to start {0}: {1}")]
    Start(Engine, String),
}

struct Started {
    engine: Engine,
    environment: Environment,
}

static STARTED: OnceLock<Result<Started, EngineError>> = OnceLock::new();

/// Starts the engine of this process: ONNX Runtime if its `library` is named, the embedded engine
/// otherwise.
///
/// # Errors
/// The engine cannot be started, or this process has started another engine.
pub fn start(library: Option<&Path>) -> Result<Engine, EngineError> {
    let wanted = library.map_or(Engine::Embedded, |path| Engine::OnnxRuntime(path.into()));
    match STARTED.get_or_init(|| start_once(wanted.clone())) {
        Err(error) => Err(error.clone()),
        Ok(started) if started.engine == wanted => Ok(wanted),
        Ok(started) => Err(EngineError::Other(started.engine.clone())),
    }
}

/// Returns the environment of the engine of this process. Starts the embedded engine if none was
/// started.
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
#[expect(clippy::unnecessary_wraps, reason = "a build without this engine returns an error")]
fn embedded() -> Result<ort::environment::EnvironmentBuilder, EngineError> {
    // Must precede all other calls of `ort`: without it, `ort` searches for the library and panics
    // if there is none.
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
