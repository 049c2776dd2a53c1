//! The engine that runs models. A process has one engine: ONNX Runtime if its library is named, the
//! embedded engine otherwise.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::Environment;

#[cfg(feature = "embedded-onnx")]
use super::embedded::{self, EmbeddedGraph};
use super::runtime::{self, RuntimeGraph};
use super::tensors::{ModelOutput, NamedTensor, Wanted};

/// An engine that runs models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The embedded engine, in pure Rust (rten). It needs no library.
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

/// The engine of this process.
enum Started {
    #[cfg(feature = "embedded-onnx")]
    Embedded,
    OnnxRuntime(PathBuf, Environment),
}

static STARTED: OnceLock<Result<Started, EngineError>> = OnceLock::new();

/// Starts the engine of this process: ONNX Runtime if its `library` is named, the embedded engine
/// otherwise.
///
/// # Errors
/// The engine cannot be started, or this process has started another engine.
pub fn start(library: Option<&Path>) -> Result<Engine, EngineError> {
    let wanted = library.map_or(Engine::Embedded, |path| Engine::OnnxRuntime(path.into()));
    let engine = started(wanted.clone())?.engine();
    if engine == wanted { Ok(wanted) } else { Err(EngineError::Other(engine)) }
}

/// Returns the engine of this process. Starts `wanted` if none was started.
fn started(wanted: Engine) -> Result<&'static Started, EngineError> {
    STARTED.get_or_init(|| Started::new(wanted)).as_ref().map_err(Clone::clone)
}

impl Started {
    fn new(engine: Engine) -> Result<Self, EngineError> {
        match engine {
            #[cfg(feature = "embedded-onnx")]
            Engine::Embedded => Ok(Self::Embedded),
            #[cfg(not(feature = "embedded-onnx"))]
            Engine::Embedded => Err(EngineError::None),
            Engine::OnnxRuntime(path) => match runtime::environment(&path) {
                Ok(environment) => Ok(Self::OnnxRuntime(path, environment)),
                Err(what) => Err(EngineError::Start(Engine::OnnxRuntime(path), what)),
            },
        }
    }

    fn engine(&self) -> Engine {
        match self {
            #[cfg(feature = "embedded-onnx")]
            Self::Embedded => Engine::Embedded,
            Self::OnnxRuntime(path, _) => Engine::OnnxRuntime(path.clone()),
        }
    }
}

/// Calls `act` in a thread of the embedded engine. Models that run in such a thread need no switch
/// to another one and back, which takes nearly as long as a run of the shipped model.
pub fn in_engine_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    #[cfg(feature = "embedded-onnx")]
    return embedded::in_thread(act);
    #[cfg(not(feature = "embedded-onnx"))]
    act()
}

/// The graph of a model in the engine of this process.
pub(super) enum Graph {
    #[cfg(feature = "embedded-onnx")]
    Embedded(Box<EmbeddedGraph>),
    OnnxRuntime(RuntimeGraph),
}

impl Graph {
    /// Loads the graph of a file. Starts the embedded engine if no engine was started.
    ///
    /// # Errors
    /// The engine does not support the graph, or cannot be started.
    pub(super) fn load(bytes: &[u8]) -> Result<Self, String> {
        match started(Engine::Embedded).map_err(|error| error.to_string())? {
            #[cfg(feature = "embedded-onnx")]
            Started::Embedded => {
                EmbeddedGraph::load(bytes).map(|graph| Self::Embedded(graph.into()))
            }
            Started::OnnxRuntime(_, environment) => {
                RuntimeGraph::load(environment, bytes).map(Self::OnnxRuntime)
            }
        }
    }

    /// Computes the outputs that are wanted. `inputs` are all inputs of the graph.
    ///
    /// # Errors
    /// The engine fails.
    pub(super) fn run(
        &mut self,
        inputs: &[NamedTensor<'_>],
        wanted: Wanted,
    ) -> Result<ModelOutput, String> {
        match self {
            #[cfg(feature = "embedded-onnx")]
            Self::Embedded(graph) => graph.run(inputs, wanted),
            Self::OnnxRuntime(graph) => graph.run(inputs, wanted),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("the embedded engine"),
            Self::OnnxRuntime(path) => write!(f, "ONNX Runtime ({})", path.display()),
        }
    }
}
