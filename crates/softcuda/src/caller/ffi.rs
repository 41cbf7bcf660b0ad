//! Pointers of callers as types: the only code that follows them.
//!
//! The types are as the C interface has them, so exported functions take them directly. A value of one of them comes
//! from a C caller, who vouches for it as the interface says, or from an `unsafe` constructor here.

use std::ffi::{CStr, c_char, c_void};

use crate::code::{Answer, Code};

/// Where the caller wants one value.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// Where the caller has one value, or several.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

/// Text of the caller's, with a zero at its end.
#[repr(transparent)]
#[derive(Debug)]
pub struct Text(*const c_char);

/// Host memory of the caller's.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPointer(*mut c_void);

/// A function of the caller's that a stream calls.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct HostFunction(Option<unsafe extern "C" fn(*mut c_void)>);

impl HostFunction {
    /// Whether there is none.
    pub fn is_null(self) -> bool {
        self.0.is_none()
    }

    /// Calls it.
    pub fn call(self, data: HostPointer) {
        if let Some(function) = self.0 {
            // SAFETY: the caller vouches for the function and for its argument.
            unsafe { function(data.0) };
        }
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Out<T> {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> In<T> {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> Out<T> {
    /// A place for a value.
    ///
    /// # Safety
    /// The pointer is null, or may be written to for as long as the value is used.
    pub const unsafe fn from_raw(pointer: *mut T) -> Out<T> {
        Out(pointer)
    }

    /// Whether the caller does not want the value.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the value.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the value if the caller wants it.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller vouches for the rest.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Reads what stands there.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn get(self) -> Answer<T> {
        In(self.0.cast_const()).get()
    }

    /// Writes the values one after the other.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn set_all(self, values: &[T]) -> Answer {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for (index, value) in values.iter().enumerate() {
            let place = self.0.wrapping_add(index);
            // SAFETY: the caller vouches for as many values as the interface says.
            unsafe { place.write_unaligned(*value) };
        }
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// The same place, for a value of the same size.
    pub fn cast<U: Copy>(self) -> Out<U> {
        assert_eq!(size_of::<T>(), size_of::<U>(), "a value of another size");
        Out(self.0.cast())
    }
}

impl Out<c_void> {
    /// The same place, for a value of a type that another argument tells.
    pub fn of_type<T>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// A place of a value.
    ///
    /// # Safety
    /// The pointer is null, or may be read from for as long as the value is used.
    pub const unsafe fn from_raw(pointer: *const T) -> In<T> {
        In(pointer)
    }

    /// Whether there is none.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads the value.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller vouches for the rest.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads `count` values.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null, unless `count` is 0.
    pub fn all(self, count: usize) -> Answer<Vec<T>> {
        (0..count).map(|index| self.at(index)).collect()
    }

    /// Reads one of several values.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn at(self, index: usize) -> Answer<T> {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { In(self.0.wrapping_add(index)).get() }
    }
}

impl In<HostPointer> {
    /// Writes a number in the place of one of several pointers, where the interface says that the driver does so.
    pub fn replace_number(self, index: usize, number: usize) {
        let place = self.0.wrapping_add(index).cast_mut().cast::<usize>();
        // SAFETY: the caller vouches for the list, and that the driver may write to it.
        unsafe { place.write_unaligned(number) };
    }
}

impl Text {
    /// Text of a C caller.
    ///
    /// # Safety
    /// The pointer is null or points to text with a zero at its end.
    pub const unsafe fn from_raw(pointer: *const c_char) -> Text {
        Text(pointer)
    }

    /// A copy.
    ///
    /// # Errors
    /// `INVALID_VALUE` for null.
    pub fn to_owned(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller vouches for the zero at its end.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl HostPointer {
    /// Memory of a C caller.
    ///
    /// # Safety
    /// Whoever makes it vouches for every use of it that the driver's interface allows.
    pub const unsafe fn from_raw(pointer: *mut c_void) -> HostPointer {
        HostPointer(pointer)
    }

    /// Whether it points to nothing.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// As a number.
    pub fn address(self) -> u64 {
        self.0.addr() as u64
    }

    /// The same, `bytes` further on.
    pub fn offset(self, bytes: usize) -> HostPointer {
        HostPointer(self.0.wrapping_byte_add(bytes))
    }

    /// Copies from there.
    pub fn read(self, into: &mut [u8]) {
        // SAFETY: the caller vouches for as many bytes; a slice of ours is no memory of the caller's.
        unsafe { self.0.cast::<u8>().copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    /// Copies to there.
    pub fn write(self, bytes: &[u8]) {
        // SAFETY: the caller vouches for as many bytes; a slice of ours is no memory of the caller's.
        unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// The text there, which has a zero at its end.
    pub fn as_text(self) -> Text {
        Text(self.0.cast_const().cast())
    }

    /// As a place for a value.
    pub fn as_out<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// The pointer itself.
    pub fn as_ptr(self) -> *mut c_void {
        self.0
    }

    /// A pointer that only gives an address back: nobody may follow it.
    pub fn from_address(address: u64) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(address as usize)
    }
}

// SAFETY: a pointer is a number until it is followed; who follows it answers for that, as with the real driver.
unsafe impl Send for HostPointer {}

// SAFETY: as above.
unsafe impl Sync for HostPointer {}
