//! Dispatches of users' kernels, with whatever ranges: those that cannot be bound as they are go through scratch.
//!
//! Not here: compiling (`kernel.rs`), and passes and bind groups (`encode.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use tenure_core::{Access, BackendError};

use crate::buffer::Storage;
use crate::device::{Limits, WORD};
use crate::encode::{Encoder, Range};
use crate::error::driver;
use crate::kernel::Compiled;

/// One recorded dispatch, with everything it names.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    pub kernel: Arc<Compiled>,
    /// `None` for an empty tensor.
    pub bindings: SmallVec<[(Option<Range>, Access); 4]>,
    pub groups: [u32; 3],
    pub parameters: SmallVec<[u8; 16]>,
}

/// A binding made ready.
struct Bound {
    range: Range,
    /// The scratch to give back.
    scratch: Option<Arc<Storage>>,
    /// Where the scratch is copied to afterwards.
    back: Option<Range>,
}

impl Dispatch {
    /// Finds out what wgpu would find out at the submission.
    pub(crate) fn check(&self, limits: &Limits, label: &str) -> Result<(), BackendError> {
        let most = limits.max_groups;
        assert!(self.groups.iter().all(|groups| *groups <= most), "core refuses too many groups");
        let passed = self.parameters.len();
        match self.kernel.parameters {
            None if passed > 0 => {
                let message =
                    format!("kernel `{label}` takes no parameters, the dispatch passed {passed} bytes");
                Err(driver("dispatch", message))
            }
            Some(smallest) if (passed as u64).next_multiple_of(WORD) < smallest => {
                let message = format!(
                    "kernel `{label}` wants {smallest} bytes of parameters, the dispatch passed {passed}"
                );
                Err(driver("dispatch", message))
            }
            _ => Ok(()),
        }
    }

    /// Why a binding cannot be bound as it is, if it cannot.
    fn needs_scratch(&self, at: usize, limits: &Limits) -> bool {
        let Some(range) = &self.bindings[at].0 else { return true };
        let layout = self.kernel.bindings[at];
        // Words that only partly belong to the range may be read and not written.
        let partial = !range.bytes.is_multiple_of(WORD) && !layout.read_only;
        // wgpu tracks how a buffer is used as a whole: one dispatch cannot read it here and write it there.
        let mixed = layout.read_only
            && self.bindings.iter().zip(&self.kernel.bindings).any(|((other, _), of)| {
                !of.read_only
                    && other.as_ref().is_some_and(|other| Arc::ptr_eq(&other.storage, &range.storage))
            });
        range.bytes < layout.smallest
            || !range.offset.is_multiple_of(limits.binding_alignment)
            || partial
            || mixed
    }
}

impl Encoder<'_> {
    /// `parameters` hold those of the dispatch, if its kernel takes any.
    pub(crate) fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        parameters: Option<Range>,
    ) -> Result<(), BackendError> {
        if dispatch.groups.contains(&0) {
            return Ok(());
        }
        let mut bound: SmallVec<[Bound; 4]> = SmallVec::new();
        for at in 0..dispatch.bindings.len() {
            bound.push(self.bound(dispatch, at)?);
        }
        let mut ranges: SmallVec<[Range; 4]> = bound.iter().map(|bound| bound.range.clone()).collect();
        if dispatch.kernel.parameters.is_some() {
            ranges.extend(parameters);
        }
        self.dispatch_bound(&dispatch.kernel, &ranges, dispatch.groups)?;
        for Bound { scratch, back, .. } in bound {
            let Some(scratch) = scratch else { continue };
            if let Some(target) = back {
                let source = Range { storage: scratch.clone(), offset: 0, bytes: target.bytes };
                self.copy(&source, &target)?;
            }
            self.device.give_scratch(scratch);
        }
        Ok(())
    }

    fn bound(&mut self, dispatch: &Dispatch, at: usize) -> Result<Bound, BackendError> {
        let (range, access) = &dispatch.bindings[at];
        let layout = dispatch.kernel.bindings[at];
        match range {
            Some(range) if !dispatch.needs_scratch(at, &self.device.limits) => {
                let bytes = range.bytes.next_multiple_of(WORD);
                return Ok(Bound { range: Range { bytes, ..range.clone() }, scratch: None, back: None });
            }
            _ => {}
        }
        let bytes = range.as_ref().map_or(0, |range| range.bytes);
        let words = bytes.next_multiple_of(WORD).max(layout.smallest);
        let scratch = self.device.scratch(words)?;
        // What is beyond the range is zero, for an empty tensor too: nothing smaller than an element can be bound.
        let whole = bytes / WORD * WORD;
        self.clear_words(&scratch, whole, words - whole);
        if let Some(range) = range {
            // What a kernel does not write keeps its old contents, so they are needed for writing too.
            let copy = Range { storage: scratch.clone(), offset: 0, bytes };
            self.copy(range, &copy)?;
        }
        let back = range.clone().filter(|_| access.writes() && !layout.read_only);
        Ok(Bound {
            range: Range { storage: scratch.clone(), offset: 0, bytes: words },
            scratch: Some(scratch),
            back,
        })
    }
}
