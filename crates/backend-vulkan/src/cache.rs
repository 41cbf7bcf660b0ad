//! [`Cache`]: what the driver compiled, kept on disk from one process to the next.
//!
//! The file is the driver's data behind a header of ours with a checksum: drivers trust what they are given. A file that is
//! damaged, or of another device or driver, is ignored with a warning, and written anew. Not here: kernels.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::BackendError;

use crate::ffi::Api;
use crate::instance::Facts;
use crate::kernel::ffi::{Layout, Pipeline, RawCache};

const MAGIC: &[u8; 8] = b"tenurevk";
/// Magic, checksum, length.
const HEADER_BYTES: usize = 24;
/// What the driver's own data begins with: length, version, vendor, device, and the driver's mark.
const DRIVER_HEADER_BYTES: usize = 32;

/// The driver's cache, and where it is kept.
pub(crate) struct Cache {
    raw: RawCache,
    path: Option<PathBuf>,
}

impl Cache {
    /// A cache that begins with what the file has, if there is one.
    pub(crate) fn open(api: &Arc<Api>, facts: &Facts, path: Option<PathBuf>) -> Result<Self, BackendError> {
        let data = path.as_deref().and_then(|path| load(path, facts)).unwrap_or_default();
        let raw = match RawCache::new(api, &data) {
            // The driver may find fault with what we did not.
            Err(error) if !data.is_empty() => {
                tracing::warn!(%error, "the driver refused its pipeline cache, which is built anew");
                RawCache::new(api, &[])?
            }
            made => made?,
        };
        Ok(Cache { raw, path })
    }

    pub(crate) fn pipeline(
        &self,
        layout: Arc<Layout>,
        words: &[u32],
        entry: &str,
        label: &str,
    ) -> Result<Pipeline, BackendError> {
        Pipeline::new(&self.raw, layout, words, entry, label)
    }

    /// Writes the cache to its file. A failure is a warning: nothing is lost but time.
    pub(crate) fn save(&self) {
        let Some(path) = &self.path else { return };
        let saved = self
            .raw
            .data()
            .map_err(|error| error.to_string())
            .and_then(|data| store(path, &data).map_err(|error| error.to_string()));
        if let Err(error) = saved {
            tracing::warn!(path = %path.display(), %error, "the pipeline cache cannot be written");
        }
    }
}

/// The data in the file, if it is whole and of this driver.
fn load(path: &Path, facts: &Facts) -> Option<Vec<u8>> {
    let file = match fs::read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the pipeline cache cannot be read");
            return None;
        }
    };
    match unpack(&file).and_then(|data| belongs(data, facts).map(|()| data)) {
        Ok(data) => Some(data.to_vec()),
        Err(reason) => {
            tracing::warn!(path = %path.display(), reason, "the pipeline cache is ignored and built anew");
            None
        }
    }
}

fn store(path: &Path, data: &[u8]) -> io::Result<()> {
    // Beside it first: a process that ends in between leaves the old file whole.
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    fs::write(&beside, pack(data))?;
    fs::rename(&beside, path)
}

fn pack(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES + data.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&checksum(data).to_le_bytes());
    file.extend_from_slice(&(data.len() as u64).to_le_bytes());
    file.extend_from_slice(data);
    file
}

fn unpack(file: &[u8]) -> Result<&[u8], &'static str> {
    let (header, data) = file.split_at_checked(HEADER_BYTES).ok_or("it is shorter than its header")?;
    if &header[..8] != MAGIC {
        return Err("it is no pipeline cache");
    }
    if header[16..] != (data.len() as u64).to_le_bytes() {
        return Err("it is cut off");
    }
    if header[8..16] != checksum(data).to_le_bytes() {
        return Err("it is damaged");
    }
    Ok(data)
}

/// The header that every driver's data has, by the specification of Vulkan.
fn belongs(data: &[u8], facts: &Facts) -> Result<(), &'static str> {
    let header = data.get(..DRIVER_HEADER_BYTES).ok_or("it has no header of a driver")?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let same = word(8) == facts.vendor && word(12) == facts.device && header[16..] == facts.cache_uuid;
    if same { Ok(()) } else { Err("it is of another device or driver") }
}

/// FNV-1a, 64 bits: it finds damage, and is no protection against forgery.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_damage_is_seen() {
        let data: Vec<u8> = (0..=255).collect();
        let file = pack(&data);
        assert_eq!(unpack(&file), Ok(&*data));
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(unpack(&damaged).is_err(), "byte {at}");
        }
        for length in 0..file.len() {
            assert!(unpack(&file[..length]).is_err(), "cut at {length}");
        }
    }
}
