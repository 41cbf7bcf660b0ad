//! Copies between the host and a tensor: after what the device does with it, and apart from evaluations that conflict.
//!
//! Not here: uploads and downloads as operations (`engine/recording.rs`), and the rest of a tensor (`engine/tensors.rs`).

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::sequences::Life;
use crate::engine::tensors::{HostAccess, TensorCell};
use crate::error::Error;

impl Engine {
    /// Copies from the host into a tensor's range of bytes, after everything that uses it.
    pub(crate) fn write_tensor(
        self: &Arc<Self>,
        cell: &TensorCell,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.with_room(|| self.write_once(cell, offset, bytes))
    }

    fn write_once(self: &Arc<Self>, cell: &TensorCell, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let _pass = self.enter_for(cell)?;
        self.begin_host_access(cell, true)?;
        let answer = match cell.native_place() {
            // SAFETY: every use of the tensor has retired, the host access keeps the block and keeps
            // evaluations and other host copies away, and the caller checked the range.
            Some((native, start)) => unsafe { self.driver.write_block(&native, start + offset, bytes) },
            None => Ok(()),
        };
        self.end_host_access(cell);
        answer.map_err(|error| self.backend_error(error))
    }

    /// Copies a tensor's range of bytes to the host, after everything that writes it.
    pub(crate) fn read_tensor(
        self: &Arc<Self>,
        cell: &TensorCell,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        self.with_room(|| self.read_once(cell, offset, bytes))
    }

    fn read_once(self: &Arc<Self>, cell: &TensorCell, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let _pass = self.enter_for(cell)?;
        self.begin_host_access(cell, false)?;
        let answer = match cell.native_place() {
            // SAFETY: every write of the tensor has retired, the host access keeps the block and keeps
            // writing evaluations and host writes away, and the caller checked the range.
            Some((native, start)) => unsafe { self.driver.read_block(&native, start + offset, bytes) },
            None => Ok(()),
        };
        self.end_host_access(cell);
        answer.map_err(|error| self.backend_error(error))
    }

    /// Waits until the host may copy, then keeps conflicting uses away.
    fn begin_host_access(self: &Arc<Self>, cell: &TensorCell, writes: bool) -> Result<(), Error> {
        loop {
            let unretired = {
                let mut state = cell.state.lock();
                if let Life::Ended(why) = &state.life {
                    return Err(cell.stale(why));
                }
                let host_conflict = match state.host {
                    HostAccess::None => false,
                    HostAccess::Readers(_) => writes,
                    HostAccess::Writer => true,
                };
                if state.pins > 0 || host_conflict {
                    cell.released.wait(&mut state);
                    continue;
                }
                let before = if writes { state.uses.all() } else { state.uses.writes() };
                let unretired = before.points().iter().copied().find(|point| !self.is_retired(*point));
                if unretired.is_none() {
                    state.host = match state.host {
                        _ if writes => HostAccess::Writer,
                        HostAccess::Readers(count) => HostAccess::Readers(count + 1),
                        _ => HostAccess::Readers(1),
                    };
                    return match self.lost_error() {
                        None => Ok(()),
                        Some(lost) => {
                            drop(state);
                            self.end_host_access(cell);
                            Err(lost)
                        }
                    };
                }
                unretired
            };
            if let Some(point) = unretired {
                self.wait_device(&[point], None);
                self.retire_and_queue_hooks();
            }
        }
    }

    fn end_host_access(self: &Arc<Self>, cell: &TensorCell) {
        self.let_go(cell, |state| {
            state.host = match state.host {
                HostAccess::Readers(count) if count > 1 => HostAccess::Readers(count - 1),
                _ => HostAccess::None,
            };
        });
    }
}
