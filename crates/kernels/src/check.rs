//! What a dispatch refuses before anything is recorded: sizes that do not fit each other. Errors name the tensors.
//!
//! Not here: what recording checks by itself, such as aliases, stale tensors and the device's largest binding.

use std::fmt::Display;
use std::sync::Arc;

use tenure_core::{Element, Error, View};

/// The error of a dispatch that does not fit its kernel.
pub(crate) fn refuse(kernel: &'static str, problem: impl Into<Arc<str>>) -> Error {
    Error::Binding { kernel: kernel.into(), problem: problem.into() }
}

/// Refuses a view that does not have exactly the elements that `reason` needs.
pub(crate) fn exactly<T: Element>(
    kernel: &'static str,
    role: &'static str,
    view: &View<T>,
    needed: u64,
    reason: impl Display,
) -> Result<(), Error> {
    if view.len() == needed {
        return Ok(());
    }
    let problem = format!("{role} `{}` has {} elements, {reason} has {needed}", view.label(), view.len());
    Err(refuse(kernel, problem))
}

/// Refuses a view that has fewer elements than `reason` needs.
pub(crate) fn at_least<T: Element>(
    kernel: &'static str,
    role: &'static str,
    view: &View<T>,
    needed: u64,
    reason: impl Display,
) -> Result<(), Error> {
    if view.len() >= needed {
        return Ok(());
    }
    let problem = format!("{role} `{}` has {} elements, {reason} needs {needed}", view.label(), view.len());
    Err(refuse(kernel, problem))
}

/// Refuses two views of different lengths.
pub(crate) fn same<A: Element, B: Element>(
    kernel: &'static str,
    (role, view): (&'static str, &View<A>),
    (other_role, other): (&'static str, &View<B>),
) -> Result<(), Error> {
    exactly(kernel, role, view, other.len(), format_args!("{other_role} `{}`", other.label()))
}
