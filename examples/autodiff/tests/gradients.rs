//! Gradients against finite differences, and what becomes of the graph and the memory.

use autodiff::engine::Tape;
use autodiff::kernels::Kernels;
use autodiff::perceptron::{Perceptron, Random, Sizes};
use autodiff::training::{Sample, Training, train};
use autodiff::{BackwardOptions, Engine, Variable};
use tenure::graph::{Graph, Retain};
use tenure::{Error, ManagedScope, Manager};

/// A manager on the host backend with what tests need.
struct Bed {
    manager: Manager,
    scope: ManagedScope,
    graph: Graph<Tape>,
    engine: Engine,
    random: Random,
}

impl Bed {
    fn new() -> Self {
        let manager = tenure::open("host").unwrap();
        let scope = manager.scope("test").unwrap();
        let graph = Graph::new("test");
        let engine = Engine::new(&scope, &Kernels::new(&manager).unwrap(), &graph);
        Bed { manager, scope, graph, engine, random: Random(3) }
    }

    fn numbers(&mut self, count: u64) -> Vec<f32> {
        (0..count).map(|_| self.random.next(1.0)).collect()
    }

    fn leaf(&mut self, shape: [u64; 2]) -> Variable {
        let elements = self.numbers(shape[0] * shape[1]);
        self.engine.leaf(self.manager.tensor_from("leaf", &elements).unwrap(), shape)
    }

    /// The slope of `function` at each element of `leaf`, by differences on both sides.
    fn differences(&self, leaf: &Variable, function: &impl Fn() -> Variable) -> Vec<f32> {
        const STEP: f32 = 1e-2;
        let elements = leaf.read().unwrap();
        let at = |index: usize, by: f32| {
            let mut moved = elements.clone();
            moved[index] += by;
            leaf.tensor().write(&moved).unwrap();
            function().read().unwrap()[0]
        };
        let slopes =
            (0..elements.len()).map(|index| (at(index, STEP) - at(index, -STEP)) / (2.0 * STEP)).collect();
        leaf.tensor().write(&elements).unwrap();
        slopes
    }

    /// Asserts the gradients of `leaves` against differences.
    #[track_caller]
    fn check(&self, leaves: &[&Variable], function: impl Fn() -> Variable) {
        let gradients = self.engine.backward(&function(), BackwardOptions::default()).unwrap();
        for leaf in leaves {
            let gradient = gradients.of(leaf).unwrap().read().unwrap();
            let slopes = self.differences(leaf, &function);
            for (gradient, slope) in gradient.iter().zip(&slopes) {
                assert!(
                    (gradient - slope).abs() < 1e-2 * (1.0 + slope.abs()),
                    "{gradient:?} is not {slopes:?}"
                );
            }
        }
        let held = leaves.len() as u64;
        assert_eq!(self.graph.len(), held, "only the leaves are left");
    }

    fn close(self) {
        drop((self.engine, self.graph));
        self.scope.finish_blocking().unwrap();
        drop(self.scope);
        assert!(self.manager.close().unwrap().is_clean());
    }
}

#[test]
fn elementwise_operations() {
    let mut bed = Bed::new();
    let [x, y] = [[3, 5]; 2].map(|shape| bed.leaf(shape));
    let engine = bed.engine.clone();
    bed.check(&[&x, &y], || engine.sum(&engine.add(&x, &y).unwrap()).unwrap());
    bed.check(&[&x, &y], || engine.sum(&engine.multiply(&x, &y).unwrap()).unwrap());
    bed.check(&[&x, &y], || {
        let square = engine.multiply(&x, &x).unwrap();
        engine.sum(&engine.multiply(&square, &engine.scale(&y, -1.5).unwrap()).unwrap()).unwrap()
    });
    bed.check(&[&x, &y], || engine.mean_squared_error(&x, &y).unwrap());
    drop((x, y, engine));
    bed.close();
}

#[test]
fn matrix_products_transposed_or_not() {
    let mut bed = Bed::new();
    for transposed in [[false, false], [true, false], [false, true], [true, true]] {
        let turned = |shape: [u64; 2], turn: bool| if turn { [shape[1], shape[0]] } else { shape };
        let x = bed.leaf(turned([3, 4], transposed[0]));
        let y = bed.leaf(turned([4, 2], transposed[1]));
        let engine = bed.engine.clone();
        bed.check(&[&x, &y], || {
            let product = engine.matmul(&x, &y, transposed).unwrap();
            engine.sum(&engine.multiply(&product, &product).unwrap()).unwrap()
        });
    }
    bed.close();
}

#[test]
fn a_whole_perceptron() {
    let mut bed = Bed::new();
    let engine = bed.engine.clone();
    let model = Perceptron::new(&bed.manager, Sizes { inputs: 3, hidden: 5, outputs: 2 }, 11).unwrap();
    let (inputs, outputs) = (bed.numbers(4 * 3), bed.numbers(4 * 2));
    let batch = engine.constant([4, 3], &inputs).unwrap();
    let expected = engine.constant([4, 2], &outputs).unwrap();
    let tracked = model.track(&engine);
    let leaves: Vec<&Variable> = tracked.leaves().iter().collect();
    bed.check(&leaves, || {
        engine.mean_squared_error(&tracked.forward(&engine, &batch).unwrap(), &expected).unwrap()
    });
    drop(leaves);
    drop((tracked, batch, expected, engine, model));
    bed.close();
}

/// The gradient of a gradient: `f = x^3`, so `f' = 3x^2` and `f'' = 6x`.
#[test]
fn nested_backward() {
    let bed = Bed::new();
    let engine = &bed.engine;
    let x = engine.leaf(bed.manager.tensor_from("x", &[2.0_f32]).unwrap(), [1, 1]);
    let cube = engine.multiply(&engine.multiply(&x, &x).unwrap(), &x).unwrap();
    let options = BackwardOptions { retain: Retain::Yes, create_graph: true };
    let first = engine.backward(&cube, options).unwrap();
    let slope = first.of(&x).unwrap().clone();
    assert_eq!(slope.read().unwrap(), [12.0]);
    drop(first);
    let second = engine.backward(&slope, BackwardOptions::default()).unwrap();
    assert_eq!(second.of(&x).unwrap().read().unwrap(), [12.0]);
    drop((cube, slope, second));
    assert_eq!(bed.graph.len(), 1);
    drop(x);
    bed.close();
}

/// A retained graph gives the same again; one that was not retained says so, and names the node (L26).
#[test]
fn a_graph_is_traversed_once_unless_it_is_retained() {
    let bed = Bed::new();
    let engine = &bed.engine;
    let x = engine.leaf(bed.manager.tensor_from("x", &[3.0_f32]).unwrap(), [1, 1]);
    let square = engine.multiply(&x, &x).unwrap();
    for _ in 0..2 {
        let options = BackwardOptions { retain: Retain::Yes, create_graph: false };
        assert_eq!(engine.backward(&square, options).unwrap().of(&x).unwrap().read().unwrap(), [6.0]);
    }
    assert_eq!(bed.graph.report().bytes, 8, "x twice");
    engine.backward(&square, BackwardOptions::default()).unwrap();
    assert_eq!(bed.graph.report().bytes, 0);
    let again = engine.backward(&square, BackwardOptions::default()).unwrap_err();
    assert!(matches!(again, Error::NodeConsumed { node: 2, .. }), "{again}");
    // What is made of it afterwards is no partial result either.
    let more = engine.multiply(&square, &x).unwrap();
    let error = engine.backward(&more, BackwardOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NodeConsumed { node: 2, .. }), "{error}");
    drop((square, more, x));
    bed.close();
}

/// What is detached has no gradient and keeps nothing of what made it.
#[test]
fn a_detached_value_keeps_nothing() {
    let bed = Bed::new();
    let engine = &bed.engine;
    let x = engine.leaf(bed.manager.tensor_from("x", &[3.0_f32]).unwrap(), [1, 1]);
    let detached = engine.multiply(&x, &x).unwrap().detached();
    assert_eq!(bed.graph.len(), 1);
    let y = engine.multiply(&detached, &x).unwrap();
    let gradients = engine.backward(&y, BackwardOptions::default()).unwrap();
    assert_eq!(gradients.of(&x).unwrap().read().unwrap(), [9.0]);
    assert!(gradients.of(&detached).is_none());
    drop((x, detached, y, gradients));
    bed.close();
}

/// One parameter in two losses: each traversal leaves it for the other.
#[test]
fn shared_parameters() {
    let bed = Bed::new();
    let engine = &bed.engine;
    let x = engine.leaf(bed.manager.tensor_from("x", &[3.0_f32]).unwrap(), [1, 1]);
    let losses = [2.0, 5.0].map(|factor| engine.scale(&x, factor).unwrap());
    let slopes = losses.each_ref().map(|loss| {
        let gradients = engine.backward(loss, BackwardOptions::default()).unwrap();
        gradients.of(&x).unwrap().read().unwrap()[0]
    });
    assert_eq!(slopes, [2.0, 5.0]);
    drop((losses, x));
    bed.close();
}

/// Forward passes that nobody traverses, with a parameter that lives on: nothing piles up, on the device or in the
/// graph.
#[test]
fn forward_only_keeps_nothing() {
    let mut bed = Bed::new();
    let x = bed.leaf([4, 4]);
    let engine = bed.engine.clone();
    let live = |bed: &Bed| {
        bed.manager.wait_idle().unwrap();
        bed.manager.memory().live.bytes
    };
    let before = live(&bed);
    for _ in 0..200 {
        let hidden = engine.relu(&engine.matmul(&x, &x, [false; 2]).unwrap()).unwrap();
        let total = engine.sum(&hidden).unwrap();
        assert_eq!(bed.graph.len(), 4);
        drop((hidden, total));
        assert_eq!(bed.graph.len(), 1);
    }
    assert_eq!(live(&bed), before);
    drop((x, engine));
    bed.close();
}

/// The loss falls, and after every step the device holds the same.
#[test]
fn training_learns_and_memory_is_flat() {
    let manager = tenure::open("host").unwrap();
    let mut samples: Vec<Sample> = Vec::new();
    let training = Training { steps: 600, epoch: 50, rate: 0.1, ..Training::default() };
    let report = train(&manager, training, |_, sample| samples.push(sample)).unwrap().unwrap();
    let mean = |part: &[Sample]| part.iter().map(|sample| sample.loss).sum::<f32>() / part.len() as f32;
    assert!(
        mean(&samples[550..]) < 0.5 * mean(&samples[..50]),
        "{} {}",
        mean(&samples[550..]),
        mean(&samples[..50])
    );
    assert!(samples.iter().all(|sample| sample.nodes == samples[0].nodes));
    let highest = samples.iter().map(|sample| sample.live_bytes).max().unwrap();
    let first = samples[..50].iter().map(|sample| sample.live_bytes).max().unwrap();
    assert_eq!(highest, first, "no step holds more than the first ones");
    assert_eq!(report.hooks.len(), 1);
    assert!(manager.close().unwrap().is_clean());
}

#[test]
fn a_plot_has_a_line_for_each_figure() {
    let sample = Sample { loss: 0.5, live_bytes: 2048, reserved_bytes: 4096, nodes: 4 };
    let svg = autodiff::plot::draw("a <device>", &vec![sample; 1000]);
    assert_eq!(svg.matches("stroke=\"#").count(), 5);
    assert!(svg.contains("1000 steps on a &lt;device>"));
}
