//! The model: what it learns from ([`Samples`]) and what it learns ([`Parameters`]).
//!
//! Not here: the gradient (`kernel.rs`).

/// What is learned from: inputs of two numbers each, and whether they belong to the class.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// The first input of each sample.
    pub x_i: Vec<f32>,
    /// The second input of each sample.
    pub x_j: Vec<f32>,
    /// 1 for a sample of the class, 0 for another.
    pub y: Vec<f32>,
}

impl Samples {
    /// Those of Kompute's example: what belongs to the class is told by the second input alone.
    pub fn kompute() -> Samples {
        Samples {
            x_i: vec![0.0, 1.0, 1.0, 1.0, 1.0],
            x_j: vec![0.0, 0.0, 0.0, 1.0, 1.0],
            y: vec![0.0, 0.0, 0.0, 1.0, 1.0],
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.y.len()
    }
}

/// What is learned: the probability of the class is `sigmoid(weights[0] x_i + weights[1] x_j + bias)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// A factor an input.
    pub weights: [f32; 2],
    /// What is added.
    pub bias: f32,
}

impl Parameters {
    /// Where Kompute's example starts.
    pub const START: Parameters = Parameters { weights: [0.001, 0.001], bias: 0.0 };

    /// The probability that a sample belongs to the class.
    pub fn predict(&self, x_i: f32, x_j: f32) -> f32 {
        sigmoid(self.weights[0] * x_i + self.weights[1] * x_j + self.bias)
    }

    /// The parameters a step further: each sample's part of the gradient in turn, `rate` times.
    pub fn descend(mut self, gradients: &Gradients, rate: f32) -> Parameters {
        for (by_weight_i, (by_weight_j, by_bias)) in
            gradients.by_weight_i.iter().zip(gradients.by_weight_j.iter().zip(&gradients.by_bias))
        {
            self.weights[0] -= rate * by_weight_i;
            self.weights[1] -= rate * by_weight_j;
            self.bias -= rate * by_bias;
        }
        self
    }
}

/// The slope of the mean loss along each parameter, in parts that each sample contributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Along the first weight.
    pub by_weight_i: Vec<f32>,
    /// Along the second weight.
    pub by_weight_j: Vec<f32>,
    /// Along the bias.
    pub by_bias: Vec<f32>,
}

/// The logistic function. Only powers of `e` up to 1 are taken: nothing overflows.
pub fn sigmoid(z: f32) -> f32 {
    let small = (-z.abs()).exp();
    if z >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

/// The loss `-y ln(p) - (1 - y) ln(1 - p)` for `p = sigmoid(z)`, without the logarithm of a `p` that was rounded to 0 or
/// of one rounded to 1.
pub fn loss(z: f32, y: f32) -> f32 {
    z.max(0.0) - z * y + (1.0 + (-z.abs()).exp()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logistic_function_is_as_defined() {
        for z in [-20.0, -3.0, -0.5, 0.0, 0.25, 2.0, 15.0] {
            let expected = 1.0 / (1.0 + (-f64::from(z)).exp());
            assert!((f64::from(sigmoid(z)) - expected).abs() < 1e-7, "{z}");
        }
        assert_eq!([sigmoid(-1e30), sigmoid(0.0), sigmoid(1e30)], [0.0, 0.5, 1.0]);
    }

    #[test]
    fn the_loss_is_as_defined() {
        for z in [-10.0, -3.0, -0.5, 0.0, 0.25, 2.0, 10.0] {
            let p = 1.0 / (1.0 + (-f64::from(z)).exp());
            for (y, expected) in [(0.0, -(1.0 - p).ln()), (1.0, -p.ln())] {
                assert!((f64::from(loss(z, y)) - expected).abs() < 1e-6, "{z} {y}");
            }
        }
        // Where the definition would be the logarithm of 0.
        assert_eq!([loss(1000.0, 0.0), loss(1000.0, 1.0), loss(-1000.0, 1.0)], [1000.0, 0.0, 1000.0]);
    }

    #[test]
    fn a_step_adds_all_parts_up() {
        let gradients =
            Gradients { by_weight_i: vec![1.0, 2.0], by_weight_j: vec![-4.0, 0.0], by_bias: vec![0.5, 0.5] };
        let parameters = Parameters { weights: [1.0, 1.0], bias: 1.0 }.descend(&gradients, 0.25);
        assert_eq!(parameters, Parameters { weights: [0.25, 2.0], bias: 0.75 });
    }
}
