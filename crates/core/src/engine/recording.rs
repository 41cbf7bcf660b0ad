//! Recordings: what a sequence will do, checked when it is recorded, and the tensors that it keeps alive
//! (L5). Core's own data: no native object is touched until evaluation.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::engine::driver::{NativeKernel, NativeOperation, NativeRange, NativeSequence};
use crate::engine::tensors::TensorCell;
use crate::error::{Error, ResourceKind};
use crate::operation::{OpKind, overlap};
use crate::tensor::TensorRef;
use crate::view::TensorUse;

/// From this many tensors on, a recording finds them by hashing.
const INDEX_FROM: usize = 16;

#[derive(Default)]
pub(crate) struct Recording {
    pub operations: Vec<OpKind>,
    /// Each tensor once, with whether the recording writes it.
    pub tensors: Vec<RecordedTensor>,
    index: HashMap<u64, usize>,
}

pub(crate) struct RecordedTensor {
    pub handle: TensorRef,
    pub writes: bool,
}

impl Recording {
    /// Appends a checked operation.
    pub(crate) fn push(&mut self, operation: OpKind) {
        for (tensor, access) in operation.uses() {
            let id = tensor.handle.cell.id();
            let known = if self.index.is_empty() {
                self.tensors.iter().position(|known| known.handle.cell.id() == id)
            } else {
                self.index.get(&id).copied()
            };
            match known {
                Some(at) => self.tensors[at].writes |= access.writes(),
                None => {
                    self.tensors
                        .push(RecordedTensor { handle: tensor.handle.clone(), writes: access.writes() });
                    self.note_index(id);
                }
            }
        }
        self.operations.push(operation);
    }

    fn note_index(&mut self, id: u64) {
        if !self.index.is_empty() {
            self.index.insert(id, self.tensors.len() - 1);
        } else if self.tensors.len() >= INDEX_FROM {
            self.index =
                self.tensors.iter().enumerate().map(|(at, known)| (known.handle.cell.id(), at)).collect();
        }
    }

    /// Encodes everything into an empty native sequence. The caller has pinned every tensor.
    pub(crate) fn encode(&self, engine: &Engine, native: &mut NativeSequence) -> Result<(), Error> {
        for operation in &self.operations {
            let mut blocks = SmallVec::<[_; 4]>::new();
            for (tensor, _) in operation.uses() {
                blocks.push((tensor.handle.cell.native_place(), tensor.range.clone()));
            }
            let ranges: SmallVec<[NativeRange<'_>; 4]> = blocks
                .iter()
                .map(|(place, range)| NativeRange {
                    block: place.as_ref().map(|(block, _)| &**block),
                    offset: place.as_ref().map_or(0, |(_, offset)| offset + range.start),
                    bytes: range.end - range.start,
                })
                .collect();
            let kernel: Arc<NativeKernel>;
            let native_operation = match operation {
                // Nothing moves for an empty range (L22).
                OpKind::Write { .. } | OpKind::Fill { .. } | OpKind::Copy { .. } if ranges[0].bytes == 0 => {
                    continue;
                }
                OpKind::Read { into, .. } if ranges[0].bytes == 0 => {
                    into.deliver(Vec::new());
                    continue;
                }
                OpKind::Write { bytes, .. } => NativeOperation::Write { target: ranges[0], bytes },
                OpKind::Read { into, .. } => NativeOperation::Read { source: ranges[0], into },
                OpKind::Copy { .. } => NativeOperation::Copy { source: ranges[0], target: ranges[1] },
                OpKind::Fill { pattern, .. } => NativeOperation::Fill { target: ranges[0], pattern },
                OpKind::Dispatch(dispatch) => {
                    kernel = dispatch.kernel.entry.native()?;
                    NativeOperation::Dispatch {
                        kernel: &kernel,
                        bindings: ranges
                            .iter()
                            .copied()
                            .zip(dispatch.kernel.bindings().iter().copied())
                            .collect(),
                        groups: dispatch.groups,
                        parameters: &dispatch.parameters,
                        label: dispatch.kernel.label(),
                    }
                }
            };
            // SAFETY: `check` refused ranges outside a tensor and overlapping writes. The tensors are pinned
            // until the submission's frontier covers them, recordings keep kernels, and a sequence whose
            // tensors were destroyed is refused (L5): what is named outlives every submission.
            unsafe { engine.driver.record(native, &native_operation) }
                .map_err(|error| engine.backend_error(error))?;
        }
        Ok(())
    }
}

impl Engine {
    /// Refuses an operation that names something stale, foreign, of the wrong size or aliased (L3, L22).
    pub(crate) fn check_operation(self: &Arc<Self>, operation: &OpKind) -> Result<(), Error> {
        if let OpKind::Dispatch(dispatch) = operation {
            self.check_dispatch(operation, dispatch)?;
        }
        let uses = operation.uses();
        for (tensor, _) in &uses {
            self.check_tensor(&tensor.handle.cell)?;
        }
        match operation {
            OpKind::Write { target, bytes } => target.expect_bytes(bytes.len() as u64)?,
            OpKind::Copy { source, target } => target.expect_bytes(source.range.end - source.range.start)?,
            _ => {}
        }
        for (at, (tensor, access)) in uses.iter().enumerate() {
            let aliased = uses[at + 1..].iter().any(|(other, other_access)| {
                (access.writes() || other_access.writes())
                    && tensor.handle.is(&other.handle)
                    && overlap(&tensor.range, &other.range)
            });
            if aliased {
                return Err(Error::Aliased {
                    tensor: tensor.handle.cell.label.to_shared(),
                    operation: operation.label().into(),
                });
            }
        }
        Ok(())
    }

    /// Refuses a tensor that is stale or of another manager (L3).
    pub(crate) fn check_tensor(self: &Arc<Self>, cell: &TensorCell) -> Result<(), Error> {
        if !Arc::ptr_eq(self, &cell.engine) {
            return Err(Error::ForeignManager {
                kind: ResourceKind::Tensor,
                label: cell.label.to_shared(),
                owner: cell.engine.label.clone(),
                manager: self.label.clone(),
            });
        }
        cell.check_live()
    }

    fn check_dispatch(
        self: &Arc<Self>,
        operation: &OpKind,
        dispatch: &crate::operation::DispatchOp,
    ) -> Result<(), Error> {
        let entry = &dispatch.kernel.entry;
        if !Arc::ptr_eq(self, &entry.engine) {
            return Err(Error::ForeignManager {
                kind: ResourceKind::Kernel,
                label: entry.shared_label().clone(),
                owner: entry.engine.label.clone(),
                manager: self.label.clone(),
            });
        }
        let declared = entry.bindings().len();
        if declared != dispatch.bindings.len() {
            let given = dispatch.bindings.len();
            return Err(Error::Binding {
                kernel: entry.shared_label().clone(),
                problem: format!("{declared} bindings are declared, {given} were bound").into(),
            });
        }
        let (groups, limit) = (dispatch.groups, self.capabilities.max_groups);
        if groups.iter().zip(&limit).any(|(groups, most)| groups > most) {
            return Err(Error::TooManyGroups { kernel: entry.shared_label().clone(), groups, limit });
        }
        for (tensor, _) in operation.uses() {
            let bytes = tensor.range.end - tensor.range.start;
            if bytes > self.capabilities.max_binding_bytes {
                return Err(Error::TooLarge {
                    label: tensor.handle.cell.label.to_shared(),
                    requested: bytes,
                    limit: self.capabilities.max_binding_bytes,
                    which: "largest binding",
                });
            }
        }
        Ok(())
    }
}

impl TensorUse {
    /// Refuses another number of bytes than the range has.
    pub(crate) fn expect_bytes(&self, bytes: u64) -> Result<(), Error> {
        let expected = self.range.end - self.range.start;
        if expected == bytes {
            return Ok(());
        }
        let element = self.handle.cell.element.bytes;
        Err(Error::Length { label: self.label(), expected: expected / element, actual: bytes / element })
    }
}
