//! Modules and their kernels.
//!
//! Not here: reading PTX (`ptx/`), loading options (`driver/module.rs`).

use std::collections::HashMap;

use super::state::State;
use crate::code::{Answer, Code};
use crate::memory::{Handle, Kind, fresh};
use crate::ptx;

/// A module.
#[derive(Debug)]
pub struct Module {
    /// The context that it was loaded in.
    pub context: Handle,
    /// What its text says.
    pub content: ptx::Module,
    /// Where its variables are, and how many bytes they have.
    pub variables: HashMap<String, (u64, u64)>,
    /// Kernels that callers asked for.
    pub functions: Vec<Handle>,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its module.
    pub module: Handle,
    /// What it does.
    pub kernel: ptx::Kernel,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`, if it was set.
    pub dynamic_shared_limit: Option<u32>,
    /// Other attributes that were set, by number.
    pub attributes: HashMap<u32, i32>,
}

impl State {
    /// Loads a module into a context: makes its variables and writes their first values.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` if the variables do not fit.
    pub fn load_module(
        &mut self,
        context: Handle,
        device: usize,
        mut content: ptx::Module,
    ) -> Answer<Handle> {
        let handle = self.new_handle();
        let wanted: Vec<(String, u64)> =
            content.globals().iter().map(|global| (global.name.clone(), global.bytes as u64)).collect();
        let total: u64 = wanted.iter().map(|(_, bytes)| *bytes).sum();
        if total > self.free_bytes(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let mut variables = HashMap::new();
        let mut placed = Vec::new();
        for (name, bytes) in wanted {
            let backing = fresh(Kind::Variable(handle), bytes).ok_or(Code::OUT_OF_MEMORY)?;
            let allocation = self.map.insert(Kind::Variable(handle), device, context, backing, false);
            self.order.allocated(allocation.address, None);
            self.devices[device].taken += bytes;
            variables.insert(name, (allocation.address, bytes));
            placed.push(allocation);
        }
        let addresses: Vec<u64> = placed.iter().map(|allocation| allocation.address).collect();
        // Values that point to variables are right only now.
        content.place_globals(&addresses);
        for (allocation, global) in placed.iter().zip(content.globals()) {
            let bytes = allocation.backing.bytes();
            allocation.backing.fill(0, bytes, 0);
            allocation.backing.store(0, &global.initial[..global.initial.len().min(bytes)]);
        }
        self.modules.insert(handle, Module { context, content, variables, functions: Vec::new() });
        Ok(handle)
    }

    /// A handle of a kernel; the same for every asking.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for no module, `NOT_FOUND` for a name that it does not have.
    pub fn function(&mut self, module: Handle, name: &str) -> Answer<Handle> {
        let found = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let kernel = found.content.kernel(name).ok_or(Code::NOT_FOUND)?.clone();
        let known = found.functions.iter().copied();
        let same = |handle: &Handle| self.functions.get(handle).is_some_and(|f| f.kernel.name() == name);
        if let Some(handle) = known.into_iter().find(same) {
            return Ok(handle);
        }
        let handle = self.new_handle();
        let function = Function { module, kernel, dynamic_shared_limit: None, attributes: HashMap::new() };
        self.functions.insert(handle, function);
        if let Some(module) = self.modules.get_mut(&module) {
            module.functions.push(handle);
        }
        Ok(handle)
    }

    /// Takes a module away. Work that uses it is over.
    pub fn end_module(&mut self, handle: Handle) -> Option<Module> {
        let module = self.modules.remove(&handle)?;
        for function in &module.functions {
            self.functions.remove(function);
        }
        for (address, _) in module.variables.values() {
            if let Some(allocation) = self.map.remove(*address) {
                self.give_back(&allocation);
            }
            self.order.gone(*address);
        }
        Some(module)
    }
}
