//! [`CubeDispatch`]: tensors and scalars to the bindings and the info buffer that CubeCL's text expects.
//!
//! The info buffer has the scalars by type, each type padded to 8 bytes, and then the bindings' lengths in elements.
//! CubeCL's own builder lays it out. Not here: recording.

use std::sync::Arc;

use cubecl::ir::ElemType;
use cubecl::prelude::*;
use cubecl::{InfoBuilder, ScalarArgType};
use tenure_core::{Dispatch, Element, Kernel, View, op};

use super::compile::{CubeError, CubeSource};

/// What a kernel takes.
#[derive(Debug)]
pub(super) struct Layout {
    pub kernel: Arc<str>,
    /// How many scalars of each type.
    pub scalars: Vec<(ElemType, usize)>,
    pub buffers: usize,
}

impl CubeSource {
    /// Begins a dispatch of `kernel`, which was compiled from [`CubeSource::source`].
    pub fn dispatch(&self, kernel: &Kernel) -> CubeDispatch {
        CubeDispatch {
            layout: self.layout().clone(),
            dispatch: op::dispatch(kernel),
            info: InfoBuilder::default(),
            scalars: Vec::new(),
            buffers: 0,
            too_long: None,
        }
    }
}

/// A dispatch of a `#[cube]` kernel being put together.
#[must_use = "a dispatch does nothing until it is finished and recorded"]
pub struct CubeDispatch {
    layout: Arc<Layout>,
    dispatch: Dispatch,
    info: InfoBuilder,
    scalars: Vec<(ElemType, usize)>,
    buffers: usize,
    /// The first tensor whose length does not fit.
    too_long: Option<(Arc<str>, u64)>,
}

impl CubeDispatch {
    /// Binds the next buffer argument, in the order of the kernel's parameters. A slice of vectors of N elements is
    /// bound as a tensor of arrays of N elements, so that both count alike.
    pub fn bind<T: Element>(mut self, tensor: impl Into<View<T>>) -> Self {
        let view = tensor.into();
        if u32::try_from(view.len()).is_err() && self.too_long.is_none() {
            self.too_long = Some((view.label().into(), view.len()));
        }
        self.info.metadata.register_buffer(view.len(), AddressType::U32);
        self.buffers += 1;
        self.dispatch = self.dispatch.bind(view);
        self
    }

    /// Passes the next scalar argument of its type, in the order of the kernel's parameters. `usize` has another size on
    /// a device than here: let the kernel take `u32`.
    pub fn scalar<S: ScalarArgType>(mut self, value: S) -> Self {
        let ty = S::cube_type();
        match self.scalars.iter_mut().find(|(known, _)| *known == ty) {
            Some((_, count)) => *count += 1,
            None => self.scalars.push((ty, 1)),
        }
        self.info.scalars.push(value);
        self
    }

    /// Number of workgroups in x, y, z. The default is 1, 1, 1.
    pub fn groups(mut self, groups: [u32; 3]) -> Self {
        self.dispatch = self.dispatch.groups(groups);
        self
    }

    /// The dispatch, to record.
    ///
    /// # Errors
    /// [`CubeError::Arguments`] if the number of buffers or the number or type of scalars is not the kernel's,
    /// [`CubeError::TooLong`].
    pub fn finish(mut self) -> Result<Dispatch, CubeError> {
        let refuse = |expected, given| {
            Err(CubeError::Arguments { kernel: self.layout.kernel.clone(), expected, given })
        };
        if self.buffers != self.layout.buffers {
            return refuse(format!("{} buffers", self.layout.buffers), self.buffers.to_string());
        }
        self.scalars.sort();
        if self.scalars != self.layout.scalars {
            return refuse(describe(&self.layout.scalars), describe(&self.scalars));
        }
        if let Some((tensor, elements)) = self.too_long {
            return Err(CubeError::TooLong { kernel: self.layout.kernel.clone(), tensor, elements });
        }
        let info = self.info.finish(AddressType::U32);
        Ok(self.dispatch.parameter_bytes(bytemuck::cast_slice(&info.data)))
    }
}

fn describe(scalars: &[(ElemType, usize)]) -> String {
    if scalars.is_empty() {
        return "no scalars".to_owned();
    }
    let each: Vec<String> = scalars.iter().map(|(ty, count)| format!("{count} of {ty}")).collect();
    format!("scalars: {}", each.join(", "))
}
