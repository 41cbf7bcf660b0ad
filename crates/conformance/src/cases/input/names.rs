//! Cases about names that nobody has or somebody has already, and results that are not there yet (L7, L8).
//!
//! Not here: what replacing and clearing do (`sequences.rs`).

use tenure_core::{Error, SequenceState, op};

use crate::bed::Bed;
use crate::cases::ownership::support::{Snapshot, assert_given_back, assert_names, untrimmed};

/// Names that a scope does not have, of sequences that were never there, are anonymous, are another scope's, or have
/// been destroyed; and names that it has already. Both errors name sequence and scope.
pub(super) fn unknown_and_taken_names(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let outer = rig.manager.scope("outer").unwrap();
    let inner = outer.scope("inner").unwrap();
    let anonymous = inner.sequence().unwrap();
    drop(outer.named("outer's").unwrap());
    let kept = inner.named("kept").unwrap();
    drop(inner.named("gone").unwrap());
    inner.destroy("gone").unwrap();
    let before = Snapshot::of(&rig);
    for name in ["", "never", anonymous.name(), "outer's", "gone", "Kept"] {
        for answer in [inner.find(name).map(drop), inner.destroy(name)] {
            let error = answer.unwrap_err();
            match &error {
                Error::UnknownName { name: told, scope } => assert_eq!((&**told, &**scope), (name, "inner")),
                other => panic!("nobody is called `{name}`: {other}"),
            }
            assert_names(&error, &[name, "inner"]);
        }
    }
    let error = inner.named("kept").unwrap_err();
    match &error {
        Error::NameTaken { name, scope } => assert_eq!((&**name, &**scope), ("kept", "inner")),
        other => panic!("the name is taken: {other}"),
    }
    assert_names(&error, &["kept", "inner"]);
    before.assert_unchanged(&rig);
    let names: Vec<_> = inner.named_sequences().into_iter().map(|info| info.name).collect();
    assert_eq!((names.len(), &*names[0], kept.state()), (1, "kept", SequenceState::Recording));
    assert_eq!(inner.anonymous_sequences().len(), 1);
    // The same name in another scope, and a name that has become free, are nobody's business.
    drop((outer.named("kept").unwrap(), inner.named("gone").unwrap(), inner.named("").unwrap()));
    outer.finish_blocking().unwrap();
    assert_given_back(&rig.manager);
}

/// A download that nothing was evaluated for has no result, and says which tensor's it would be; so it is after a reset
/// and when its operation was dropped.
pub(super) fn a_download_before_its_execution(bed: &Bed) {
    let rig = bed.open_with(untrimmed());
    let scope = rig.manager.scope("s").unwrap();
    let tensor = scope.tensor_from("row", &[1_u32; 64]).unwrap();
    let (operation, values) = op::download(&tensor);
    let not_ready = || {
        let error = values.get().unwrap_err();
        assert!(matches!(error, Error::NotReady { .. }), "{error}");
        assert_names(&error, &["row"]);
    };
    not_ready();
    let sequence = scope.sequence().unwrap();
    sequence.record(operation).unwrap();
    not_ready();
    sequence.reset().unwrap();
    sequence.run().unwrap();
    not_ready();
    let (dropped, nothing) = op::download(&tensor);
    drop(dropped);
    assert!(matches!(nothing.get(), Err(Error::NotReady { .. })));
    scope.finish_blocking().unwrap();
    drop(tensor);
    assert_given_back(&rig.manager);
}
