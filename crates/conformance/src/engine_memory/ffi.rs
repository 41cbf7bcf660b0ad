//! The unsafe calls of an engine that shares memory: adopting, and reaching blocks past the manager.

use std::sync::Arc;

use tenure_core::backend::BlockRequest;
use tenure_core::{Backend, Error, Manager, Tensor, TensorOptions};

use super::{Adoption, Lent};
use crate::instrument::Instrumented;

pub(super) fn adopt<B: Backend>(
    adoption: Adoption<'_>,
    foreign_of: &impl Fn(&B::Block) -> B::Foreign,
) -> (Result<Tensor<u32>, Error>, Lent) {
    let Adoption { manager, scope, label, contents, beyond, on_release } = adoption;
    let backend = manager.backend::<Instrumented<B>>().expect("the manager of this bed").shared_inner();
    let bytes: &[u8] = bytemuck::cast_slice(contents);
    let room = (bytes.len() as u64).next_multiple_of(backend.capabilities().alignment).max(16);
    let block = backend.allocate(&BlockRequest { bytes: room, label }).expect("room for the engine");
    // SAFETY: the block is new: nobody uses it.
    unsafe { backend.write_block(&block, 0, bytes) }.expect("the engine writes its memory");
    let foreign = foreign_of(&block);
    let lent = Lent::default();
    let release = {
        let (backend, lent, length) = (backend.clone(), lent.clone(), bytes.len());
        move || {
            lent.released(give_back(&backend, block, length));
            on_release();
        }
    };
    let length = contents.len() as u64 + beyond;
    let options = TensorOptions::builder().shape([length]).label(label).build();
    let tensor = match scope {
        // SAFETY: the block is freed in the callback only, and used by nobody until then.
        Some(scope) => unsafe { scope.adopt_tensor::<u32, _>(foreign, options, release) },
        // SAFETY: as above.
        None => unsafe { manager.adopt_tensor::<u32, _>(foreign, options, release) },
    };
    (tensor, lent)
}

/// The engine has its memory again: it looks at it, and frees it.
fn give_back<B: Backend>(backend: &Arc<B>, block: B::Block, length: usize) -> Option<Vec<u32>> {
    let mut contents = vec![0_u32; length / size_of::<u32>()];
    // SAFETY: the memory is the engine's again: nobody uses it.
    let read = unsafe { backend.read_block(&block, 0, bytemuck::cast_slice_mut(&mut contents)) };
    // SAFETY: as above. That a lost device says so is no matter here.
    let _ = unsafe { backend.free(block) };
    read.is_ok().then_some(contents)
}

pub(super) fn look<B: Backend>(tensor: &Tensor<u32>, before: &dyn Fn()) -> Result<Vec<u32>, Error> {
    tensor.native::<Instrumented<B>, _>(|native| {
        before();
        let mut elements =
            vec![0_u32; usize::try_from(native.bytes).expect("a small tensor") / size_of::<u32>()];
        if let Some(block) = native.block {
            let backend = native.backend.shared_inner();
            let into = bytemuck::cast_slice_mut(&mut elements);
            // SAFETY: the caller says that nothing uses the tensor.
            let read = unsafe { backend.read_block(block.inner(), native.offset, into) };
            read.expect("the engine reads");
        }
        elements
    })
}

pub(super) fn adopt_nonsense(manager: &Manager) -> Error {
    let options = TensorOptions::builder().shape([1]).build();
    // SAFETY: no backend has this type for memory of an engine, so it is refused before anything reaches it.
    let refused = unsafe { manager.adopt_tensor::<u32, _>("no memory", options, || ()) };
    refused.expect_err("a text is no memory")
}
