//! Names within functions and blocks.
//!
//! Not here: names of the module (`Names`).

use std::collections::HashMap;

use crate::ptx::program::{Flag, Slot};
use crate::ptx::types::{Space, Type};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Entry<'a> {
    Register(Slot, Type),
    Flag(Flag),
    Place(Place),
    Label(u32),
    Targets(Vec<&'a str>),
}

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub space: Space,
    /// Within its space; added to the address of `global`.
    pub address: u64,
    pub global: Option<u32>,
    /// Counted from the start of dynamic shared memory.
    pub dynamic: bool,
    /// Read by `ld.const` too.
    pub constant: bool,
}

/// The names of one block.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    pub names: HashMap<&'a str, Entry<'a>>,
    /// `.reg .b32 %r<12>` declares `%r0` to `%r11`.
    pub families: Vec<(&'a str, Type, u32)>,
    /// Names of the caller are not seen.
    pub function: bool,
}

impl Scope<'_> {
    /// The type of a register of a family.
    pub fn of_family(&self, name: &str) -> Option<Type> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[prefix.len()..];
        // The prefix itself may end in digits, so that a shorter rest of the name is the number.
        (0..digits.len()).find_map(|skip| {
            let (prefix, number) = name.split_at(prefix.len() + skip);
            if number.len() > 1 && number.starts_with('0') {
                return None;
            }
            let number: u32 = number.parse().ok()?;
            let found = self.families.iter().find(|(family, _, count)| *family == prefix && number < *count);
            found.map(|(_, class, _)| *class)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_family_are_told_by_prefix_and_number() {
        let mut scope = Scope::default();
        scope.families.push(("%r", Type::B32, 12));
        scope.families.push(("%x1", Type::B64, 3));
        assert_eq!(scope.of_family("%r0"), Some(Type::B32));
        assert_eq!(scope.of_family("%r11"), Some(Type::B32));
        assert_eq!(scope.of_family("%r12"), None);
        assert_eq!(scope.of_family("%r01"), None);
        assert_eq!(scope.of_family("%x12"), Some(Type::B64));
        assert_eq!(scope.of_family("%x13"), None);
        assert_eq!(scope.of_family("%r"), None);
    }
}
