//! Nodes of the chain: each records its work in a named sequence of the image's scope, with a hook of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Error, Kernel, ManagedScope, Manager, ScopeRef, Tensor, TensorOptions, hook, op};

use crate::image::CHANNELS;
use crate::kernels::bicubic::FACTOR;
use crate::kernels::blur::Pass;
use crate::kernels::unsharp::Mask;
use crate::kernels::{Size, bicubic, blur, unsharp};

/// Standard deviation of the blur, in pixels.
const SIGMA: f32 = 1.2;
/// The unsharp mask.
const MASK: Mask = Mask { amount: 0.6, threshold: 2.0 / 255.0 };

/// Names of the nodes that run on the device, in order.
pub const NODES: [&str; 3] = ["upscale", "blur", "unsharp"];

/// The compiled nodes of a chain.
pub struct Chain {
    bicubic: Kernel,
    blur: Kernel,
    unsharp: Kernel,
}

/// What the chain made of one image.
pub struct Outcome {
    /// The result.
    pub pixels: Tensor<f32>,
    /// Its size.
    pub size: Size,
    /// How long each node took, in the order of [`NODES`].
    pub times: [Duration; 3],
}

impl Chain {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// What the backend says.
    pub fn new(manager: &Manager) -> Result<Self, Error> {
        Ok(Chain {
            bicubic: manager.kernel(&bicubic::kernel())?,
            blur: manager.kernel(&blur::kernel())?,
            unsharp: manager.kernel(&unsharp::kernel())?,
        })
    }

    /// Runs the nodes over one image, in its scope.
    ///
    /// # Errors
    /// What tenure says: out of memory, cancelled, device lost.
    pub fn run(
        &self,
        scope: &ManagedScope,
        batch: &ScopeRef,
        source: &Tensor<f32>,
        size: Size,
    ) -> Result<Outcome, Error> {
        let large = Size { width: size.width * FACTOR, height: size.height * FACTOR };
        let upscaled = make(scope, "upscaled", large)?;
        let upscale = self.node(scope, batch, NODES[0], |sequence| {
            let dispatch = op::dispatch(&self.bicubic).bind(source).bind(&upscaled);
            sequence.record(dispatch.groups(groups(large)).parameters(size)).map(drop)
        })?;

        let half = make(scope, "blurred rows", large)?;
        let blurred = make(scope, "blurred", large)?;
        let blur = self.node(scope, batch, NODES[1], |sequence| {
            for (vertical, source, target) in [(0, &upscaled, &half), (1, &half, &blurred)] {
                let pass = Pass { size: large, sigma: SIGMA, vertical };
                let dispatch = op::dispatch(&self.blur).bind(source).bind(target);
                sequence.record(dispatch.groups(groups(large)).parameters(pass))?;
            }
            Ok(())
        })?;
        half.destroy()?;

        let sharp = make(scope, "sharp", large)?;
        let unsharp = self.node(scope, batch, NODES[2], |sequence| {
            let dispatch = op::dispatch(&self.unsharp).bind(&upscaled).bind(&blurred).bind(&sharp);
            sequence.record(dispatch.groups(groups(large)).parameters(MASK)).map(drop)
        })?;
        Ok(Outcome { pixels: sharp, size: large, times: [upscale, blur, unsharp] })
    }

    /// One node: its sequence, recorded and run, and its hooks. Returns how long it took.
    fn node(
        &self,
        scope: &ManagedScope,
        batch: &ScopeRef,
        name: &'static str,
        record: impl FnOnce(&tenure::ManagedSequence) -> Result<(), Error>,
    ) -> Result<Duration, Error> {
        let sequence = scope.named(name)?;
        record(&sequence)?;
        scope.register(hook::once(format!("{name} done"), |_| Ok(())))?;
        // Every node asks for it, the chain's scope has it once, after everything was given up (L12, L16).
        scope.register_on(batch, hook::after_release("empty caches", |_| Ok(())).key("empty caches"))?;
        let started = Instant::now();
        sequence.run()?;
        Ok(started.elapsed())
    }
}

fn groups(size: Size) -> [u32; 3] {
    [size.width.div_ceil(8).max(1), size.height.div_ceil(8).max(1), 1]
}

fn make(scope: &ManagedScope, label: &str, size: Size) -> Result<Tensor<f32>, Error> {
    let shape = [u64::from(size.height), u64::from(size.width), CHANNELS as u64];
    let label: Arc<str> = label.into();
    scope.tensor_with(TensorOptions::builder().shape(shape).label(label).build())
}
