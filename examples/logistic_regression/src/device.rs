//! [`DeviceModel`]: the samples and the parameters on the device, and the sequence that looks at them.
//!
//! Not here: what is done with what it finds (`training.rs`).

use tenure::{Download, Error, ManagedSequence, ScopeRef, Tensor, TensorOptions, op};

use crate::kernel;
use crate::model::{Gradients, Parameters, Samples};

/// The sequence's name.
pub const SEQUENCE: &str = "gradient";

/// Everything of a scope that is training. Tensors and sequence are the scope's: they go when it ends, on every way.
#[derive(Debug)]
pub struct DeviceModel {
    weights: Tensor<f32>,
    bias: Tensor<f32>,
    sequence: ManagedSequence,
    read: Read,
}

/// What the sequence reads back.
#[derive(Debug)]
struct Read {
    weights: Download<f32>,
    bias: Download<f32>,
    gradients: Download<f32>,
    losses: Download<f32>,
}

/// What one evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The parameters as they are on the device.
    pub parameters: Parameters,
    /// The slope there.
    pub gradients: Gradients,
    /// The mean loss there.
    pub loss: f32,
}

impl DeviceModel {
    /// Puts all of it on the device of `scope`, and records the sequence: the only time that anything is recorded (L9).
    ///
    /// # Errors
    /// What the device, the memory or the kernel's compiler said.
    ///
    /// # Panics
    /// If there are not as many inputs as classes, or more than 2^32 - 1.
    pub fn new(scope: &ScopeRef, samples: &Samples, start: Parameters) -> Result<DeviceModel, Error> {
        let count = samples.count();
        assert_eq!([samples.x_i.len(), samples.x_j.len()], [count, count], "each sample has two inputs");
        let count = u32::try_from(count).expect("samples are counted in 32 bits");
        let kernel = scope.manager()?.kernel(&kernel::source())?;

        let x_i = scope.tensor_from("x_i", &samples.x_i)?;
        let x_j = scope.tensor_from("x_j", &samples.x_j)?;
        let y = scope.tensor_from("y", &samples.y)?;
        let weights = scope.tensor_from("weights", &start.weights)?;
        let bias = scope.tensor_from("bias", &[start.bias])?;
        let empty = |label: &str, shape: &[u64]| {
            scope.tensor_with::<f32>(TensorOptions::builder().shape(shape).label(label).build())
        };
        let gradients = empty("gradients", &[3, count.into()])?;
        let losses = empty("losses", &[count.into()])?;

        let gradient = op::dispatch(&kernel)
            .bind(&x_i)
            .bind(&x_j)
            .bind(&y)
            .bind(&weights)
            .bind(&bias)
            .bind(&gradients)
            .bind(&losses)
            .groups(kernel::groups(count))
            .parameters(count);
        let sequence = scope.named(SEQUENCE)?;
        sequence.record(gradient)?;
        let read_back = |tensor: &Tensor<f32>| {
            let (operation, download) = op::download(tensor);
            sequence.record(operation).map(|_| download)
        };
        let read = Read {
            weights: read_back(&weights)?,
            bias: read_back(&bias)?,
            gradients: read_back(&gradients)?,
            losses: read_back(&losses)?,
        };
        // The other handles go: what the recording names stays as long as it is needed (L5).
        Ok(DeviceModel { weights, bias, sequence, read })
    }

    /// Operations of the recording.
    pub fn operations(&self) -> usize {
        self.sequence.len()
    }

    /// Evaluates the sequence and waits for what it finds.
    ///
    /// # Errors
    /// As [`ManagedSequence::run`].
    pub fn look(&self) -> Result<Look, Error> {
        self.sequence.run()?;
        let (weights, bias) = (self.read.weights.get()?, self.read.bias.get()?);
        let gradients = self.read.gradients.get()?;
        let losses = self.read.losses.get()?;
        let count = losses.len();
        let row = |index: usize| gradients[index * count..][..count].to_vec();
        Ok(Look {
            parameters: Parameters { weights: [weights[0], weights[1]], bias: bias[0] },
            gradients: Gradients { by_weight_i: row(0), by_weight_j: row(1), by_bias: row(2) },
            loss: losses.iter().sum::<f32>() / count as f32,
        })
    }

    /// Gives the device other parameters. The recording stays as it is: it names the tensors, not what is in them.
    ///
    /// # Errors
    /// As [`Tensor::write`].
    pub fn set(&self, parameters: Parameters) -> Result<(), Error> {
        self.weights.write(&parameters.weights)?;
        self.bias.write(&[parameters.bias])
    }
}
