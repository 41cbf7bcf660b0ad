//! Cases about views as handles of the whole tensor (L1, L5).
//!
//! Not here: views out of range (`input`).

use tenure_core::{EndOfLife, ResourceKind, op};

use super::support::{LEN, assert_given_back, mebibytes, settled, stale, untrimmed};
use crate::bed::Bed;

/// A view of 4 elements keeps all of the tensor, and works without any other handle.
pub(super) fn a_view_keeps_the_whole_tensor(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    tensor.write(&vec![5; LEN as usize]).unwrap();
    let view = tensor.view(1000..1008).unwrap();
    drop(tensor);
    let inner = view.view(2..6).unwrap();
    drop(view);
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (1, [1, 0, 0]));
    inner.write(&[6; 4]).unwrap();
    assert_eq!((inner.len(), inner.read().unwrap()), (4, vec![6; 4]));
    drop(inner);
    assert_eq!((settled(&manager).tensors, mebibytes(&manager)), (0, [0, 0, 1]));
    assert_given_back(&manager);
}

/// A recorded view keeps all of the tensor; work on views lands where they are, whichever of them is left.
pub(super) fn a_recorded_view_keeps_the_whole_tensor(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let scope = manager.scope("s").unwrap();
    let tensor = manager.tensor::<u32>(LEN).unwrap();
    let (download, values) = op::download(&tensor);
    let sequence = scope.sequence().unwrap();
    sequence.record(op::fill(&tensor, 1)).unwrap();
    sequence.record(op::fill(tensor.view(64..128).unwrap(), 2)).unwrap();
    sequence.record(op::upload(tensor.view(LEN - 1..LEN).unwrap(), &[3])).unwrap();
    drop(tensor);
    assert_eq!(mebibytes(&manager), [1, 0, 0]);
    sequence.record(download).unwrap().run().unwrap();
    let mut expected = vec![1; LEN as usize];
    expected[64..128].fill(2);
    expected[LEN as usize - 1] = 3;
    assert_eq!(values.get().unwrap(), expected);
    sequence.reset().unwrap();
    assert_eq!(mebibytes(&manager), [0, 0, 1]);
    scope.finish_blocking().unwrap();
    assert_given_back(&manager);
}

/// Destroying the tensor ends all of its views. They say what was destroyed and where.
pub(super) fn destroying_a_tensor_ends_its_views(bed: &Bed) {
    let manager = bed.open_with(untrimmed()).manager;
    let tensor = manager.tensor_from("base", &vec![1_u32; LEN as usize]).unwrap();
    let views = [tensor.view(0..4).unwrap(), tensor.view(8..8).unwrap()];
    let line = line!() + 1;
    tensor.destroy().unwrap();
    drop(tensor);
    assert_eq!(mebibytes(&manager), [0, 0, 1], "views keep nothing of what was destroyed");
    for view in &views {
        let data = vec![0; view.len() as usize];
        for answer in [view.read().map(drop), view.write(&data)] {
            match stale(answer, ResourceKind::Tensor, "base") {
                EndOfLife::Destroyed(site) => assert_eq!((site.file(), site.line()), (file!(), line)),
                other => panic!("the tensor was destroyed, not {other}"),
            }
        }
    }
    drop(views);
    assert_given_back(&manager);
}
