//! [`View`]: a range of a tensor's elements. Every read and write of a tensor is one of a view.
//!
//! Not here: tensors as wholes (`tensor.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::tensor::{Element, Tensor, TensorRef};

/// A range of a tensor's elements. It is a handle of the tensor.
pub struct View<T> {
    pub(crate) used: TensorUse,
    pub(crate) element: PhantomData<fn() -> T>,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        View { used: self.used.clone(), element: PhantomData }
    }
}

impl<T> fmt::Debug for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("tensor", &self.used.handle).field("bytes", &self.used.range).finish()
    }
}

impl<T: Element> View<T> {
    pub(crate) fn into_use(self) -> TensorUse {
        self.used
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        (self.used.range.end - self.used.range.start) / size_of::<T>() as u64
    }

    /// True if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.used.range.is_empty()
    }

    /// The tensor's label.
    pub fn label(&self) -> &str {
        self.used.handle.cell.label.as_str()
    }

    /// A range of this view's elements.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Stale`].
    pub fn view(&self, range: Range<u64>) -> Result<View<T>, Error> {
        self.used.handle.cell.check_live()?;
        let length = self.len();
        if range.start > range.end || range.end > length {
            return Err(Error::OutOfRange {
                label: self.used.label(),
                start: range.start,
                end: range.end,
                length,
            });
        }
        let element = size_of::<T>() as u64;
        let first = self.used.range.start;
        let bytes = first + range.start * element..first + range.end * element;
        Ok(View { used: TensorUse { handle: self.used.handle.clone(), range: bytes }, element: PhantomData })
    }

    /// As [`Tensor::write`], for this range.
    ///
    /// # Errors
    /// As [`Tensor::write`].
    pub fn write(&self, data: &[T]) -> Result<(), Error> {
        let cell = &self.used.handle.cell;
        cell.check_live()?;
        self.expect_length(data.len())?;
        cell.engine.write_tensor(cell, self.used.range.start, bytemuck::cast_slice(data))
    }

    /// As [`Tensor::read`], for this range.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read(&self) -> Result<Vec<T>, Error> {
        let cell = &self.used.handle.cell;
        // A stale tensor is found before a large vector is made for it.
        cell.check_live()?;
        let length = usize::try_from(self.len()).expect("a live tensor's length fits the address space");
        let mut data = bytemuck::allocation::zeroed_vec(length);
        self.read_into(&mut data)?;
        Ok(data)
    }

    /// As [`Tensor::read_into`], for this range.
    ///
    /// # Errors
    /// As [`Tensor::read_into`].
    pub fn read_into(&self, data: &mut [T]) -> Result<(), Error> {
        let cell = &self.used.handle.cell;
        cell.check_live()?;
        self.expect_length(data.len())?;
        cell.engine.read_tensor(cell, self.used.range.start, bytemuck::cast_slice_mut(data))
    }

    fn expect_length(&self, actual: usize) -> Result<(), Error> {
        let expected = self.len();
        if actual as u64 == expected {
            return Ok(());
        }
        Err(Error::Length { label: self.used.label(), expected, actual: actual as u64 })
    }
}

impl<T: Element> From<&Tensor<T>> for View<T> {
    fn from(tensor: &Tensor<T>) -> View<T> {
        tensor.whole()
    }
}

impl<T: Element> From<Tensor<T>> for View<T> {
    fn from(tensor: Tensor<T>) -> View<T> {
        tensor.whole()
    }
}

impl<T> From<&View<T>> for View<T> {
    fn from(view: &View<T>) -> View<T> {
        view.clone()
    }
}

/// A range of bytes of a tensor, in an operation.
#[derive(Clone, Debug)]
pub(crate) struct TensorUse {
    pub handle: TensorRef,
    pub range: Range<u64>,
}

impl TensorUse {
    pub(crate) fn label(&self) -> Arc<str> {
        self.handle.cell.label.to_shared()
    }
}
