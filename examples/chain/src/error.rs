//! What can go wrong: with one image ([`ImageError`]), and before there is a batch ([`SetupError`]).
//!
//! Neither names the image: who reports it does. Not here: what follows from it (`batch.rs`, `app.rs`).

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::kernels::Size;

/// Why an image was not done. The others are not concerned.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be opened.
    Open(io::Error),
    /// It is no PNG image, or a damaged one.
    Decode(png::DecodingError),
    /// Its header says that it is larger than what is taken.
    TooManyPixels {
        /// The size by the header.
        size: Size,
        /// The most pixels that are taken.
        limit: u64,
    },
    /// The result would be wider or higher than a PNG image can be.
    TooLargeResult(Size),
    /// There is no memory on the host for that many bytes.
    NoMemory(u64),
    /// The result cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The batch was cancelled before the image was done.
    Cancelled,
    /// The device or tenure said no.
    Tenure(tenure::Error),
}

impl ImageError {
    /// True if no other image can succeed either.
    pub fn concerns_all(&self) -> bool {
        matches!(self, ImageError::Tenure(error) if error.is_device_lost())
    }
}

impl From<tenure::Error> for ImageError {
    fn from(error: tenure::Error) -> ImageError {
        match error {
            tenure::Error::Cancelled { .. } => ImageError::Cancelled,
            error => ImageError::Tenure(error),
        }
    }
}

impl<V> From<tenure::Rejected<V>> for ImageError {
    fn from(rejected: tenure::Rejected<V>) -> ImageError {
        rejected.error.into()
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Open(error) => write!(f, "cannot be opened: {error}"),
            ImageError::Decode(error) => write!(f, "is not a readable PNG image: {error}"),
            ImageError::TooManyPixels { size, limit } => {
                write!(
                    f,
                    "has {} pixels ({size}), at most {limit} are taken (see --max-pixels)",
                    size.pixels()
                )
            }
            ImageError::TooLargeResult(size) => write!(f, "is {size}: twice that is more than PNG allows"),
            ImageError::NoMemory(bytes) => write!(f, "needs {bytes} bytes of memory that are not to be had"),
            ImageError::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            ImageError::Cancelled => f.write_str("was cancelled"),
            ImageError::Tenure(error) => error.fmt(f),
        }
    }
}

impl Error for ImageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ImageError::Open(error) => Some(error),
            ImageError::Decode(error) => Some(error),
            ImageError::Write { source, .. } => Some(source),
            ImageError::Tenure(error) => Some(error),
            _ => None,
        }
    }
}

/// Why there is no batch at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The input folder cannot be read.
    Input {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The input folder has no file that ends in `.png`.
    NoImages(PathBuf),
    /// Nothing can be written to the output folder.
    Output {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Input and output are one folder: results would replace what they are made of.
    SameFolder(PathBuf),
    /// A sample image cannot be written.
    Generate {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Ctrl-C cannot be caught.
    Signal(ctrlc::Error),
    /// The device cannot be opened, or cannot run the kernels.
    Device(tenure::Error),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Input { path, source } => {
                write!(f, "cannot read the input folder {}: {source}", path.display())
            }
            SetupError::NoImages(path) => {
                write!(f, "no PNG images in {}; --generate N makes some in an empty folder", path.display())
            }
            SetupError::Output { path, source } => {
                write!(f, "cannot write to the output folder {}: {source}", path.display())
            }
            SetupError::SameFolder(path) => {
                write!(
                    f,
                    "input and output are the same folder, {}: results would replace images",
                    path.display()
                )
            }
            SetupError::Generate { path, source } => {
                write!(f, "cannot write the sample {}: {source}", path.display())
            }
            SetupError::Signal(error) => write!(f, "cannot catch Ctrl-C: {error}"),
            SetupError::Device(error) => write!(f, "cannot use the device: {error}"),
        }
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SetupError::Input { source, .. }
            | SetupError::Output { source, .. }
            | SetupError::Generate { source, .. } => Some(source),
            SetupError::Signal(error) => Some(error),
            SetupError::Device(error) => Some(error),
            SetupError::NoImages(_) | SetupError::SameFolder(_) => None,
        }
    }
}
