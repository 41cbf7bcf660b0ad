//! The pairs: CubeCL's client and tenure at the same thing, on the same adapter.

use std::hint::black_box;
use std::path::Path;

use cubecl::prelude::*;
use cubecl_runtime::runtime::Runtime;
use cubecl_wgpu::{WgpuDevice, WgpuRuntime};
use tenure::{Access, KernelSource, ManagerOptions, TrimPolicy, op};
use tenure_bench::measure::Failure;
use tenure_bench::report::{Report, Row};
use tenure_bench::scaling::paired;

use crate::Topic;

const MIB: u64 = 1 << 20;

/// Measures a topic, prints a table, and adds the rows to a JSON file on request.
pub fn run(topic: Topic, json: Option<&Path>) -> Result<(), Failure> {
    let rows = match topic {
        Topic::Pool => pool()?,
        Topic::Eval => eval()?,
    };
    let report = Report::new(rows);
    println!("{report}");
    if let Some(file) = json {
        report.add_to(file)?;
    }
    Ok(())
}

fn client() -> Client {
    <WgpuRuntime as Runtime>::client(&WgpuDevice::default())
}

/// Memory of 1 MiB made and dropped; both sides keep one alive meanwhile, so that neither goes to the driver.
fn pool() -> Result<Vec<Row>, Failure> {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
    let manager = tenure::open_with_options("wgpu", options)?;
    let _kept = manager.tensor::<u8>(MIB)?;
    let client = client();
    let _kept_too = client.empty(MIB as usize);
    pollster::block_on(client.sync()).map_err(|error| format!("{error:?}"))?;
    let pair = paired(
        1_000,
        || drop(black_box(manager.tensor::<u8>(black_box(MIB)).expect("there is room"))),
        || drop(black_box(client.empty(black_box(MIB as usize)))),
    );
    let of = format!("CubeCL 0.11.3 `empty` on {}", manager.info().device);
    Ok(vec![
        Row::new("pool.alloc_free_wgpu", pair.own, "ns").against(of.clone(), pair.other),
        Row::part("pool.vs_cubecl", pair.ratio, of).at_most(0.2),
    ])
}

/// Does nothing.
#[cube(launch)]
fn nothing(#[comptime] kind: u32) {
    let _ = kind;
}

/// An empty kernel launched and waited for. Tenure's has a tensor bound, CubeCL's has none.
fn eval() -> Result<Vec<Row>, Failure> {
    let manager = tenure::open("wgpu")?;
    let source = KernelSource::new("empty", &[Access::ReadWrite]).wgsl(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(1) fn main() { let keep = arrayLength(&data); }",
        "main",
    );
    let kernel = manager.kernel(&source)?;
    let scope = manager.scope("scope")?;
    let tensor = scope.tensor::<u32>(64)?;
    let sequence = scope.named("empty")?;
    sequence.record(op::dispatch(&kernel).bind(&tensor))?;

    let client = client();
    let launch = || {
        nothing::launch(&client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(1), 0);
        pollster::block_on(client.sync()).expect("the device is there");
    };
    launch();
    let pair = paired(20, || sequence.run().expect("nothing fails"), launch);
    let of = format!("CubeCL 0.11.3 launch and sync on {}", manager.info().device);
    let us = |ns: f64| ns / 1_000.0;
    Ok(vec![
        Row::new("eval.vs_cubecl_us", us(pair.own), "us").against(of.clone(), us(pair.other)),
        Row::part("eval.vs_cubecl", pair.ratio, of).at_most(0.33),
    ])
}
