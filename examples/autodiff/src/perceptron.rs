//! A perceptron with one hidden layer.

use tenure::{Error, Manager, Tensor, TensorOptions};

use crate::engine::{Engine, Gradients, Variable};

/// Sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Inputs.
    pub inputs: u64,
    /// Neurons of the hidden layer.
    pub hidden: u64,
    /// Outputs.
    pub outputs: u64,
}

/// The parameters, which the manager owns: they outlive every scope.
#[derive(Clone, Debug)]
pub struct Perceptron {
    parameters: Vec<(Tensor<f32>, [u64; 2])>,
}

/// The parameters in one traversal: weights, bias, weights, bias.
#[derive(Clone, Debug)]
pub struct Tracked(Vec<Variable>);

impl Perceptron {
    /// A model with small random parameters.
    ///
    /// # Errors
    /// What the memory said.
    pub fn new(manager: &Manager, sizes: Sizes, seed: u64) -> Result<Self, Error> {
        let Sizes { inputs, hidden, outputs } = sizes;
        let mut random = Random(seed);
        let shapes = [
            ("hidden weights", [inputs, hidden]),
            ("hidden bias", [1, hidden]),
            ("weights", [hidden, outputs]),
            ("bias", [1, outputs]),
        ];
        let parameters = shapes.map(|(label, shape)| {
            let tensor =
                manager.tensor_with::<f32>(TensorOptions::builder().shape(shape).label(label).build())?;
            let spread = (1.0 / shape[0] as f32).sqrt();
            let elements: Vec<f32> = (0..tensor.len()).map(|_| random.next(spread)).collect();
            tensor.write(&elements)?;
            Ok((tensor, shape))
        });
        Ok(Perceptron { parameters: parameters.into_iter().collect::<Result<_, Error>>()? })
    }

    /// The parameters' tensors.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor<f32>> {
        self.parameters.iter().map(|(tensor, _)| tensor)
    }

    /// The parameters as leaves of the engine's graph.
    pub fn track(&self, engine: &Engine) -> Tracked {
        Tracked(self.parameters.iter().map(|(tensor, shape)| engine.leaf(tensor.clone(), *shape)).collect())
    }

    /// One step of gradient descent.
    ///
    /// # Errors
    /// What the device said.
    pub fn descend(
        &self,
        engine: &Engine,
        tracked: &Tracked,
        gradients: &Gradients,
        rate: f32,
    ) -> Result<(), Error> {
        for ((tensor, _), leaf) in self.parameters.iter().zip(&tracked.0) {
            if let Some(gradient) = gradients.of(leaf) {
                engine.descend(tensor, gradient, -rate)?;
            }
        }
        Ok(())
    }
}

impl Tracked {
    /// The leaves: weights, bias, weights, bias.
    pub fn leaves(&self) -> &[Variable] {
        &self.0
    }

    /// The outputs for a batch of inputs, a row each.
    ///
    /// # Errors
    /// What the device or the memory said.
    pub fn forward(&self, engine: &Engine, batch: &Variable) -> Result<Variable, Error> {
        let [weights, bias, output_weights, output_bias] = &self.0[..] else {
            unreachable!("made with four")
        };
        let hidden = engine.relu(&layer(engine, batch, weights, bias)?)?;
        layer(engine, &hidden, output_weights, output_bias)
    }
}

/// `x * weights + bias`, the bias for each row.
fn layer(engine: &Engine, x: &Variable, weights: &Variable, bias: &Variable) -> Result<Variable, Error> {
    let rows = x.shape()[0];
    let ones = engine.constant([rows, 1], &vec![1.0; rows as usize])?;
    let product = engine.matmul(x, weights, [false; 2])?;
    engine.add(&product, &engine.matmul(&ones, bias, [false; 2])?)
}

/// Numbers that look random, the same everywhere (xorshift64*, Vigna 2016).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number between `-spread` and `spread`.
    pub fn next(&mut self, spread: f32) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        (bits as f32 / (1_u64 << 23) as f32 - 1.0) * spread
    }
}
