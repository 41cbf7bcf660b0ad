//! The exported functions that only this driver has.
//!
//! Not here: their work.

use crate::caller::{HostPointer, Text};
use crate::code::Code;
use crate::device::driver;
use crate::modes::Errors;
use crate::modes::faults::Fault;

macro_rules! exports {
    ($($(#[$meta:meta])* $name:ident($($argument:ident: $type:ty),*) -> $answer:ty $body:block)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Pointers point to what is said above.
            // SAFETY: no other library has functions of these names.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $answer $body
        )*
    };
}

exports! {
    /// 1: the device is software.
    softcuda_is_software() -> i32 {
        1
    }

    /// How many violations there were.
    softcuda_violations() -> u64 {
        driver().lock().order.report.found()
    }

    /// Takes the texts of the violations that nobody took yet: writes as much as fits, with a zero at its end, and
    /// gives the bytes of the whole text. Without a place it takes nothing.
    softcuda_take_report(place: HostPointer, bytes: usize) -> usize {
        let mut state = driver().lock();
        let report = &mut state.order.report;
        if place.is_null() || bytes == 0 {
            return report.length();
        }
        let text = report.take();
        let mut written: Vec<u8> = text.bytes().take(bytes - 1).collect();
        written.push(0);
        place.write(&written);
        text.len()
    }

    /// Objects that would be lost if the process ended now, and those that died with their context.
    softcuda_leaks() -> u64 {
        super::leaks()
    }

    /// Live objects of a kind, by a text with a zero at its end; see the README for the kinds.
    softcuda_live(kind: Text) -> u64 {
        kind.to_owned().map_or(0, |kind| super::live(&kind))
    }

    /// How often a function was called, by its name; all functions for an empty name.
    softcuda_calls(function: Text) -> u64 {
        function.to_owned().map_or(0, |function| driver().settings.faults.calls(&function))
    }

    /// Lets the `call`-th call of a function from now on, the next being 1, answer a code. With `sticky`, everything
    /// answers it from then on.
    softcuda_inject(function: Text, call: u64, code: u32, sticky: i32) -> i32 {
        let Ok(function) = function.to_owned() else { return 1 };
        driver().settings.faults.plan(&function, call, Fault { code: Code(code), sticky: sticky != 0 });
        0
    }

    /// Whether errors of earlier work are told by the next call of any kind.
    softcuda_set_errors_at_once(at_once: i32) -> i32 {
        driver().settings.set_errors(if at_once != 0 { Errors::AtOnce } else { Errors::Late });
        0
    }

    /// What delays between tasks are drawn from; 0 for none.
    softcuda_set_seed(seed: u64) -> i32 {
        driver().settings.set_seed(seed);
        0
    }
}
