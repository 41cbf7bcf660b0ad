//! The one place that gives a function of ours a name of the driver's.
//!
//! Not here: what the functions do. Groups list them with `exports!`.

/// Exports functions: `Needs name(argument: Type) = expression;`. The expression is an `Answer`.
///
/// Arguments are numbers or the types of `caller`, which are laid out as the C interface has them. Whatever the
/// expression does, no panic gets out.
macro_rules! exports {
    ($($needs:ident $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the driver's interface, where its arguments and answers are described.")]
            ///
            /// # Safety
            /// Pointers are as the driver's interface wants them.
            // SAFETY: the names are the driver's, and a process has one driver: this library is loaded in its place.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $crate::code::Code {
                $crate::driver::entry::call(
                    stringify!($name),
                    $crate::driver::entry::Needs::$needs,
                    move || $body,
                )
            }
        )*

        /// The address of a function that is exported here.
        pub fn address_of(name: &str) -> Option<usize> {
            match name {
                $(stringify!($name) => Some($name as *const () as usize),)*
                _ => None,
            }
        }
    };
}
