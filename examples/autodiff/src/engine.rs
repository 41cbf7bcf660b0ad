//! The engine: values, the graph of how they were made, and the traversal that gives gradients.

use std::collections::HashMap;

use tenure::graph::{BackwardError, Graph, Node, Payload, Retain};
use tenure::{Error, Kernel, ManagedScope, ScopeRef, Tensor, TensorOptions};

use crate::kernels::{Kernels, Parameters, dispatch};
use crate::operation::Operation;

/// A matrix on the device, and the node that made it if it is tracked. A cheap handle.
#[derive(Clone, Debug)]
pub struct Variable {
    tensor: Tensor<f32>,
    shape: [u64; 2],
    node: Option<Node<Tape>>,
}

/// What a node keeps: how its value was made, and which inputs are tracked. Never its own value: that would be a cycle.
#[derive(Debug)]
pub struct Tape {
    operation: Operation,
    tracked: [bool; 2],
}

impl Payload for Tape {
    fn bytes(&self) -> u64 {
        self.operation.saved_bytes()
    }
}

impl Variable {
    /// A value that is not tracked, from a tensor of `shape[0] * shape[1]` elements in rows.
    pub fn constant(tensor: Tensor<f32>, shape: [u64; 2]) -> Self {
        Variable { tensor, shape, node: None }
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor<f32> {
        &self.tensor
    }

    /// Rows and columns.
    pub fn shape(&self) -> [u64; 2] {
        self.shape
    }

    /// The node, if it is tracked.
    pub fn node(&self) -> Option<&Node<Tape>> {
        self.node.as_ref()
    }

    /// The same value, not tracked.
    pub fn detached(&self) -> Self {
        Variable { node: None, ..self.clone() }
    }

    /// The elements, row by row.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read(&self) -> Result<Vec<f32>, Error> {
        self.tensor.read()
    }
}

/// How a traversal is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions {
    /// Keep the graph, to traverse it again.
    pub retain: Retain,
    /// Track the gradients too, so that they have gradients of their own.
    pub create_graph: bool,
}

/// Gradients by the node that they belong to.
#[derive(Debug, Default)]
pub struct Gradients(HashMap<u64, Variable>);

impl Gradients {
    /// The gradient of a tracked value.
    pub fn of(&self, variable: &Variable) -> Option<&Variable> {
        self.0.get(&variable.node.as_ref()?.id())
    }

    fn add(&mut self, engine: &Engine, node: u64, gradient: Variable) -> Result<(), Error> {
        let sum = match self.0.get(&node) {
            Some(before) => engine.add(before, &gradient)?,
            None => gradient,
        };
        self.0.insert(node, sum);
        Ok(())
    }
}

/// Makes values in one scope and tracks them in one graph.
#[derive(Clone, Debug)]
pub struct Engine {
    scope: ScopeRef,
    kernels: Kernels,
    graph: Graph<Tape>,
    /// False inside a traversal that makes no graph.
    tracking: bool,
}

impl Engine {
    /// An engine whose values are local to `scope`.
    pub fn new(scope: &ManagedScope, kernels: &Kernels, graph: &Graph<Tape>) -> Self {
        Engine {
            scope: ScopeRef::clone(scope),
            kernels: kernels.clone(),
            graph: graph.clone(),
            tracking: true,
        }
    }

    /// A value that is not tracked.
    ///
    /// # Errors
    /// As [`ScopeRef::tensor_from`].
    ///
    /// # Panics
    /// If there are not `shape[0] * shape[1]` elements.
    pub fn constant(&self, shape: [u64; 2], elements: &[f32]) -> Result<Variable, Error> {
        assert_eq!(elements.len() as u64, shape[0] * shape[1], "a matrix of {shape:?}");
        Ok(Variable::constant(self.scope.tensor_from("constant", elements)?, shape))
    }

    /// A tracked value on a tensor that somebody owns: a parameter.
    pub fn leaf(&self, tensor: Tensor<f32>, shape: [u64; 2]) -> Variable {
        let tape = Tape { operation: Operation::Leaf, tracked: [false; 2] };
        Variable { tensor, shape, node: Some(self.graph.leaf(tape)) }
    }

    /// `x + y`, of one shape.
    ///
    /// # Errors
    /// What the device or the memory said.
    pub fn add(&self, x: &Variable, y: &Variable) -> Result<Variable, Error> {
        let tensor = self.compute("sum", &self.kernels.add, &[x, y], x.shape, Parameters::default())?;
        Ok(self.track(tensor, x.shape, &[x, y], || Operation::Add))
    }

    /// `x * y`, element by element, of one shape.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn multiply(&self, x: &Variable, y: &Variable) -> Result<Variable, Error> {
        let tensor =
            self.compute("product", &self.kernels.multiply, &[x, y], x.shape, Parameters::default())?;
        Ok(self.track(tensor, x.shape, &[x, y], || Operation::Multiply { x: x.clone(), y: y.clone() }))
    }

    /// `factor * x`.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn scale(&self, x: &Variable, factor: f32) -> Result<Variable, Error> {
        let parameters = Parameters { factor, ..Parameters::default() };
        let tensor = self.compute("scaled", &self.kernels.scale, &[x], x.shape, parameters)?;
        Ok(self.track(tensor, x.shape, &[x], || Operation::Scale { factor }))
    }

    /// `max(x, 0)`.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn relu(&self, x: &Variable) -> Result<Variable, Error> {
        let tensor = self.compute("relu", &self.kernels.relu, &[x], x.shape, Parameters::default())?;
        if x.node.is_none() || !self.tracking {
            return Ok(Variable::constant(tensor, x.shape));
        }
        let mask = self.compute("mask", &self.kernels.step, &[x], x.shape, Parameters::default())?;
        let mask = Variable::constant(mask, x.shape);
        Ok(self.track(tensor, x.shape, &[x], || Operation::Relu { mask }))
    }

    /// The sum of all elements, as a matrix of one.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn sum(&self, x: &Variable) -> Result<Variable, Error> {
        let tensor = self.compute("total", &self.kernels.sum, &[x], [1, 1], Parameters::default())?;
        Ok(self.track(tensor, [1, 1], &[x], || Operation::Sum { shape: x.shape }))
    }

    /// A matrix of `shape` with the one element of `x` everywhere.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn broadcast(&self, x: &Variable, shape: [u64; 2]) -> Result<Variable, Error> {
        let tensor =
            self.compute("broadcast", &self.kernels.broadcast, &[x], shape, Parameters::default())?;
        Ok(self.track(tensor, shape, &[x], || Operation::Broadcast))
    }

    /// `x * y` as matrices, each transposed first where `transposed` says so.
    ///
    /// # Errors
    /// As [`Engine::add`].
    ///
    /// # Panics
    /// If the inner sizes differ.
    pub fn matmul(&self, x: &Variable, y: &Variable, transposed: [bool; 2]) -> Result<Variable, Error> {
        let turned =
            |[rows, columns]: [u64; 2], turn: bool| if turn { [columns, rows] } else { [rows, columns] };
        let [rows, inner] = turned(x.shape, transposed[0]);
        let [inner_y, columns] = turned(y.shape, transposed[1]);
        assert_eq!(inner, inner_y, "{:?} times {:?}, transposed {transposed:?}", x.shape, y.shape);
        let shape = [rows, columns];
        let parameters = Parameters {
            columns: columns as u32,
            inner: inner as u32,
            transposed: u32::from(transposed[0]) | u32::from(transposed[1]) << 1,
            ..Parameters::default()
        };
        let tensor = self.compute("matmul", &self.kernels.matmul, &[x, y], shape, parameters)?;
        Ok(self.track(tensor, shape, &[x, y], || Operation::MatMul {
            x: x.clone(),
            y: y.clone(),
            transposed,
        }))
    }

    /// The mean of the squares of `x - y`.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn mean_squared_error(&self, x: &Variable, y: &Variable) -> Result<Variable, Error> {
        let difference = self.add(x, &self.scale(y, -1.0)?)?;
        let squares = self.multiply(&difference, &difference)?;
        self.scale(&self.sum(&squares)?, 1.0 / (x.shape[0] * x.shape[1]) as f32)
    }

    /// `parameter += factor * gradient` in place, untracked: the step of gradient descent.
    ///
    /// # Errors
    /// As [`Engine::add`].
    pub fn descend(&self, parameter: &Tensor<f32>, gradient: &Variable, factor: f32) -> Result<(), Error> {
        let parameters = Parameters { factor, ..Parameters::default() };
        self.scope.evaluate([dispatch(&self.kernels.axpy, &[&gradient.tensor], parameter, parameters)])?;
        Ok(())
    }

    /// The gradients of all tracked values that `root`, a matrix of one, was made of.
    ///
    /// # Errors
    /// [`Error::NodeConsumed`] if part of the graph was traversed before and not retained (L26), and what the device or
    /// the memory said.
    ///
    /// # Panics
    /// If `root` is not tracked.
    pub fn backward(&self, root: &Variable, options: BackwardOptions) -> Result<Gradients, Error> {
        let node = root.node.as_ref().expect("the root of a traversal is tracked");
        let engine = Engine { tracking: options.create_graph, ..self.clone() };
        let mut gradients = Gradients::default();
        let seed = vec![1.0; (root.shape[0] * root.shape[1]) as usize];
        gradients.0.insert(node.id(), engine.constant(root.shape, &seed)?);
        let answer = node.backward(options.retain, |step| {
            // A tracked value that nothing of the root depends on has none.
            let Some(gradient) = gradients.0.get(&step.node.id()).cloned() else { return Ok(()) };
            let Tape { operation, tracked } = &*step.payload;
            let inputs = operation.backward(&engine, &gradient, *tracked)?;
            let tracked_inputs = inputs.into_iter().zip(tracked).filter(|(_, tracked)| **tracked);
            for ((input, _), parent) in tracked_inputs.zip(step.parents) {
                gradients.add(&engine, parent.id(), input.expect("a tracked input has a gradient"))?;
            }
            Ok(())
        });
        match answer {
            Ok(_) => Ok(gradients),
            Err(BackwardError::Graph(error) | BackwardError::Visit { error, .. }) => Err(error),
        }
    }

    fn compute(
        &self,
        label: &str,
        kernel: &Kernel,
        inputs: &[&Variable],
        shape: [u64; 2],
        parameters: Parameters,
    ) -> Result<Tensor<f32>, Error> {
        let options = TensorOptions::builder().shape(shape).label(label).build();
        let result = self.scope.tensor_with::<f32>(options)?;
        let inputs: Vec<&Tensor<f32>> = inputs.iter().map(|input| &input.tensor).collect();
        self.scope.evaluate([dispatch(kernel, &inputs, &result, parameters)])?;
        Ok(result)
    }

    /// Makes a node if an input has one.
    fn track(
        &self,
        tensor: Tensor<f32>,
        shape: [u64; 2],
        inputs: &[&Variable],
        operation: impl FnOnce() -> Operation,
    ) -> Variable {
        let mut tracked = [false; 2];
        for (tracked, input) in tracked.iter_mut().zip(inputs) {
            *tracked = input.node.is_some();
        }
        if !self.tracking || tracked == [false; 2] {
            return Variable::constant(tensor, shape);
        }
        let parents: Vec<&Node<Tape>> = inputs.iter().filter_map(|input| input.node.as_ref()).collect();
        let node = self.graph.node(Tape { operation: operation(), tracked }, parents);
        Variable { tensor, shape, node: Some(node) }
    }
}
