//! Opening backends by name.

use tenure::{BackendErrorKind, Error, ManagerOptions};

#[test]
fn every_backend_of_this_build_opens_or_says_why_not() {
    assert!(!tenure::BACKENDS.is_empty());
    for name in tenure::BACKENDS {
        match tenure::open(name) {
            Ok(manager) => {
                assert_eq!(manager.info().name, *name);
                assert!(manager.close().expect("nothing is open").is_clean());
            }
            Err(Error::Backend(error)) => assert_eq!(error.kind, BackendErrorKind::Unavailable, "{error}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn an_unknown_backend_is_refused_with_the_names_there_are() {
    let error = tenure::open("abacus").expect_err("there is no such backend");
    let text = error.to_string();
    assert!(text.contains("`abacus`"), "{text}");
    for name in tenure::BACKENDS {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let options =
        ManagerOptions::builder().threads(false).hook_deadline(std::time::Duration::from_secs(1)).build();
    let error = tenure::open_with_options(tenure::BACKENDS[0], options).expect_err("deadlines need threads");
    assert!(matches!(error, Error::InvalidOption { option: "hook_deadline", .. }), "{error}");
}
