//! [`Presence`]: whether a backend has a device on this machine, for tests of programs that run on several.
//!
//! What cannot run is not passed: a test counts it as ignored and says why. A run that knows that the driver is installed
//! names the backend in [`REQUIRED`], and there the same is a failure. Not here: the suite, which opens backends itself.

use tenure_core::{BackendErrorKind, BackendInfo, Error, Manager};

/// The variable of the environment with the backends that may not be missing, by name and separated by commas.
pub const REQUIRED: &str = "TENURE_REQUIRE";

/// What opening a backend came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It opened, and closed again.
    Here(BackendInfo),
    /// This machine has no device for it, and nobody said that there is one: the reason.
    Missing(String),
    /// There is a device that does not open, or there is none though it was required: what was said.
    Broken(String),
}

impl Presence {
    /// Of the backend with this name, which `open` opens.
    pub fn of(backend: &str, open: impl FnOnce() -> Result<Manager, Error>) -> Presence {
        Presence::among(&std::env::var(REQUIRED).unwrap_or_default(), backend, open)
    }

    fn among(required: &str, backend: &str, open: impl FnOnce() -> Result<Manager, Error>) -> Presence {
        let is_required = required.split(',').any(|name| name.trim() == backend);
        match open().and_then(|manager| manager.close().map(|_| manager.info().clone())) {
            Ok(info) => Presence::Here(info),
            Err(Error::Backend(error)) if error.kind == BackendErrorKind::Unavailable && !is_required => {
                Presence::Missing(error.to_string())
            }
            Err(error) => Presence::Broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_backend_host::HostBackend;
    use tenure_core::{BackendError, ManagerOptions};

    fn missing() -> Result<Manager, Error> {
        Err(BackendError::new(BackendErrorKind::Unavailable, "open", "no driver").into())
    }

    #[test]
    fn what_opens_is_here() {
        let open = || Manager::open_with(HostBackend::new(), ManagerOptions::default());
        let Presence::Here(info) = Presence::among("", "host", open) else { panic!("host opens") };
        assert_eq!(info.name, "host");
    }

    #[test]
    fn what_is_missing_may_be_unless_it_is_required() {
        assert!(
            matches!(Presence::among("wgpu", "vulkan", missing), Presence::Missing(why) if why.contains("no driver"))
        );
        assert!(matches!(Presence::among("wgpu, vulkan", "vulkan", missing), Presence::Broken(_)));
    }

    #[test]
    fn what_does_not_open_is_broken() {
        let broken = || Err(BackendError::new(BackendErrorKind::Driver, "open", "no memory").into());
        assert!(matches!(Presence::among("", "vulkan", broken), Presence::Broken(_)));
    }
}
