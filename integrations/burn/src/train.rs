//! A training loop of Burn's with tenure's scopes: whatever way an epoch ends, its hooks run once and in order.

use std::error::Error;

use burn::tensor::{Device, Tensor};
use tenure::hook;

/// Rows of a batch.
const ROWS: usize = 64;
/// Batches of an epoch.
const BATCHES: u32 = 20;

/// Trains `y = x * (3, -2)` and tells what each epoch's hooks did.
pub fn run(epochs: u32) -> Result<(), Box<dyn Error>> {
    let manager = tenure::open("host")?;
    let device = Device::flex().autodiff();
    let truth = Tensor::<2>::from_data([[3.0_f32], [-2.0]], &device);
    let mut weights = Tensor::<2>::zeros([2, 1], &device).require_grad();
    for epoch in 1..=epochs {
        let ran = manager.run("epoch", |scope| {
            let of_hook = device.clone();
            scope.register(hook::after_release("clean memory up", move |_| {
                of_hook.memory_cleanup();
                Ok(())
            }))?;
            let of_hook = device.clone();
            // Burn sweeps inside a traversal only: a small one does it.
            scope.register(hook::once("sweep Burn's graph", move |_| {
                drop(Tensor::<1>::zeros([1], &of_hook).require_grad().backward());
                Ok(())
            }))?;
            let of_hook = device.clone();
            scope.register(hook::once("synchronise", move |_| {
                of_hook.sync().map_err(|error| format!("{error:?}").into())
            }))?;
            let mut loss = 0.0;
            for batch in 0..BATCHES {
                let x = inputs(&device, epoch * BATCHES + batch);
                let difference = x.clone().matmul(weights.clone()) - x.matmul(truth.clone());
                let squares = (difference.clone() * difference).mean();
                let gradients = squares.backward();
                let gradient = weights.grad(&gradients).ok_or("the weights are tracked")?;
                weights = Tensor::from_inner(weights.clone().inner() - gradient * 0.1).require_grad();
                loss = squares.into_scalar::<f32>();
            }
            Ok::<f32, Box<dyn Error>>(loss)
        });
        let (loss, report) = ran.map_err(|error| error.to_string())?;
        let hooks: Vec<String> =
            report.hooks.iter().map(|hook| format!("{} x{}", hook.label, hook.runs)).collect();
        println!("epoch {epoch}: loss {loss:.6}; hooks: {}", hooks.join(", "));
    }
    println!("weights {:?}", weights.into_data().try_to_vec::<f32>());
    if !manager.close()?.is_clean() {
        return Err("something was left over".into());
    }
    Ok(())
}

/// Numbers between -1 and 1, the same in every run.
fn inputs(device: &Device, seed: u32) -> Tensor<2> {
    let number = |at: u32| {
        let bits = (at.wrapping_add(seed.wrapping_mul(ROWS as u32 * 2))).wrapping_mul(2_654_435_761) >> 8;
        bits as f32 / (1 << 23) as f32 - 1.0
    };
    let numbers: Vec<f32> = (0..ROWS as u32 * 2).map(number).collect();
    Tensor::<1>::from_data(&numbers[..], device).reshape([ROWS, 2])
}
