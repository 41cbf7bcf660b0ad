//! The SPI's errors: what a backend answers when the environment does what no caller can foresee.
//!
//! Not here: how users get them (`error.rs`).

use std::fmt;
use std::sync::Arc;

use crate::error::SharedError;

/// What went wrong in a backend: kind, operation and source.
#[derive(Clone, Debug)]
pub struct BackendError {
    /// What kind of fault.
    pub kind: BackendErrorKind,
    /// The driver call or SPI operation that failed.
    pub operation: &'static str,
    /// What the driver said, in words.
    pub message: Arc<str>,
    /// The driver's own error value, if there is one.
    pub source: Option<SharedError>,
}

impl BackendError {
    /// An error with no source.
    pub fn new(kind: BackendErrorKind, operation: &'static str, message: impl Into<Arc<str>>) -> Self {
        BackendError { kind, operation, message: message.into(), source: None }
    }

    /// The same error with the driver's error value attached.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}: {}", self.kind, self.operation, self.message)
    }
}

impl std::error::Error for BackendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// Kinds of backend faults. Core decides by these alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// No memory, on the device or for the driver itself.
    OutOfMemory,
    /// The device is lost (L23).
    DeviceLost,
    /// There is no such driver or device here.
    Unavailable,
    /// The device or backend cannot do this.
    Unsupported,
    /// A kernel did not compile.
    Compile,
    /// Submitted work failed by itself; the device goes on.
    Execution,
    /// Anything else that the driver answered.
    Driver,
}

impl fmt::Display for BackendErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendErrorKind::OutOfMemory => "out of memory",
            BackendErrorKind::DeviceLost => "device lost",
            BackendErrorKind::Unavailable => "unavailable",
            BackendErrorKind::Unsupported => "unsupported",
            BackendErrorKind::Compile => "kernel does not compile",
            BackendErrorKind::Execution => "execution failed",
            BackendErrorKind::Driver => "driver error",
        })
    }
}
