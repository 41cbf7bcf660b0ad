//! The operations, and their backward steps: expressed in operations again, so that gradients have gradients.

use smallvec::{SmallVec, smallvec};
use tenure::Error;

use crate::engine::{Engine, Variable};

/// How a value was made, with what its backward step needs.
#[derive(Clone, Debug)]
pub enum Operation {
    /// An input or a parameter.
    Leaf,
    /// `x + y`.
    Add,
    /// `x * y`, element by element.
    Multiply {
        /// The first factor.
        x: Variable,
        /// The second.
        y: Variable,
    },
    /// `factor * x`.
    Scale {
        /// The factor.
        factor: f32,
    },
    /// `max(x, 0)`.
    Relu {
        /// 1 where x is above 0.
        mask: Variable,
    },
    /// The sum of all elements.
    Sum {
        /// Rows and columns of x.
        shape: [u64; 2],
    },
    /// One element, everywhere.
    Broadcast,
    /// `x * y` as matrices, each transposed or not.
    MatMul {
        /// The first factor.
        x: Variable,
        /// The second.
        y: Variable,
        /// Which of them is transposed.
        transposed: [bool; 2],
    },
}

/// For each input its gradient; none where nobody asks for it.
pub type InputGradients = SmallVec<[Option<Variable>; 2]>;

impl Operation {
    /// Bytes of the tensors that are kept for the backward step.
    pub fn saved_bytes(&self) -> u64 {
        match self {
            Operation::Leaf
            | Operation::Add
            | Operation::Scale { .. }
            | Operation::Sum { .. }
            | Operation::Broadcast => 0,
            Operation::Relu { mask } => mask.tensor().bytes(),
            Operation::Multiply { x, y } | Operation::MatMul { x, y, .. } => {
                x.tensor().bytes() + y.tensor().bytes()
            }
        }
    }

    /// The gradients of the inputs that are `wanted`, from the gradient of the result.
    ///
    /// # Errors
    /// What the device or the memory said.
    pub fn backward(
        &self,
        engine: &Engine,
        gradient: &Variable,
        wanted: [bool; 2],
    ) -> Result<InputGradients, Error> {
        let g = gradient;
        let [want_x, want_y] = wanted;
        let one = |input: Result<Variable, Error>| Ok(smallvec![Some(input?)]);
        match self {
            Operation::Leaf => Ok(smallvec![]),
            Operation::Add => Ok(smallvec![want_x.then(|| g.clone()), want_y.then(|| g.clone())]),
            Operation::Scale { factor } => one(engine.scale(g, *factor)),
            Operation::Relu { mask } => one(engine.multiply(g, mask)),
            Operation::Sum { shape } => one(engine.broadcast(g, *shape)),
            Operation::Broadcast => one(engine.sum(g)),
            Operation::Multiply { x, y } => Ok(smallvec![
                want_x.then(|| engine.multiply(g, y)).transpose()?,
                want_y.then(|| engine.multiply(g, x)).transpose()?,
            ]),
            Operation::MatMul { x, y, transposed: [tx, ty] } => {
                let of_x = || {
                    if *tx { engine.matmul(y, g, [*ty, true]) } else { engine.matmul(g, y, [false, !*ty]) }
                };
                let of_y = || {
                    if *ty { engine.matmul(g, x, [true, *tx]) } else { engine.matmul(x, g, [!*tx, false]) }
                };
                Ok(smallvec![want_x.then(of_x).transpose()?, want_y.then(of_y).transpose()?])
            }
        }
    }
}
