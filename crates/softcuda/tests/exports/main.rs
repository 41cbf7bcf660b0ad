//! The exported functions, called as they stand in the Rust library: what C can hand in that is wrong.
//!
//! Not here: programs that do something (`tests/programs`).

mod ffi;

use softcuda::code::Code;
use softcuda::driver::address_of;

#[test]
fn nothing_to_write_to_is_an_error() {
    assert_eq!(ffi::start(), Code::SUCCESS);
    for (name, answer) in ffi::with_nothing_to_write_to() {
        assert_eq!(answer, Code::INVALID_VALUE, "{name}");
    }
    assert_eq!(ffi::objects(), 1, "the context of this test is all there is");
}

#[test]
fn functions_are_known_by_their_names() {
    for name in ["cuInit", "cuMemAlloc_v2", "cuGraphLaunch", "cuStreamEndCapture", "cuStreamWaitValue32_v2"] {
        assert!(address_of(name).is_some(), "{name}");
    }
    assert_eq!(address_of("cuInit"), Some(ffi::address_of_init()));
    assert_eq!(address_of("cuNothing"), None);
    assert_eq!(address_of("softcuda_leaks"), None, "it is no function of the driver's");
}
