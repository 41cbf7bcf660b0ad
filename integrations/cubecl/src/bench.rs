//! The pairs: CubeCL's client and tenure at the same thing, on the same device, in turns.
//!
//! CubeCL's runtime reaches a device without CUDA by wgpu only. tenure reaches it by Vulkan as well, which is its faster way
//! there, so evaluation has a row for each way.

use std::hint::black_box;
use std::path::Path;

use cubecl::prelude::*;
use cubecl_runtime::runtime::Runtime;
use cubecl_wgpu::{WgpuDevice, WgpuRuntime};
use tenure::vulkan::{VulkanBackend, VulkanOptions};
use tenure::{Access, KernelSource, Manager, ManagerOptions, TrimPolicy, op};
use tenure_bench::measure::Failure;
use tenure_bench::report::{Report, Row};
use tenure_bench::scaling::{Paired, Pairs, paired};

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

/// How often tenure's side is opened anew: see `Pairs`. CubeCL keeps one client for the process.
const OPENINGS: u64 = 15;

/// Pairs on each opening, and launches of each side between two looks at the clock.
const PAIRS: u64 = 41;
const ROUNDS: u64 = 10;

/// An empty kernel launched and waited for: tenure by Vulkan and by wgpu, CubeCL by wgpu.
fn eval() -> Result<Vec<Row>, Failure> {
    let on_wgpu = || Ok(tenure::open("wgpu")?);
    // wgpu names the device, and the API by which it reaches it.
    let named = on_wgpu()?.info().device.clone();
    let device =
        named.strip_suffix(" (vulkan)").ok_or_else(|| format!("wgpu reaches {named} by another API"))?;
    let on_vulkan = || {
        // The same device, if there are several.
        let options = VulkanOptions::builder().device(device).build();
        Ok(Manager::open_with(VulkanBackend::with_options(&options)?, ManagerOptions::default())?)
    };
    let of = format!("CubeCL 0.11.3 launch and sync by wgpu on {device}");
    let mut rows = Vec::new();
    let mut beside = |id: &str, pair: Paired| {
        let us = |ns: f64| ns / 1_000.0;
        rows.push(Row::new(format!("{id}_us"), us(pair.own), "us").against(of.clone(), us(pair.other)));
        rows.push(Row::part(id, pair.ratio, of.clone()).at_most(0.33));
    };
    beside("eval.vs_cubecl", beside_launch_and_sync(on_vulkan)?);
    beside("eval.vs_cubecl_wgpu", beside_launch_and_sync(on_wgpu)?);
    Ok(rows)
}

/// Tenure's kernel has a tensor bound and is recorded once; CubeCL's has nothing bound.
fn beside_launch_and_sync(open: impl Fn() -> Result<Manager, Failure>) -> Result<Paired, Failure> {
    let source = KernelSource::new("empty", &[Access::ReadWrite]).wgsl(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(1) fn main() { let keep = arrayLength(&data); }",
        "main",
    );
    let client = client();
    let launch = || {
        nothing::launch(&client, CubeCount::Static(1, 1, 1), CubeDim::new_1d(1), 0);
        pollster::block_on(client.sync()).expect("the device is there");
    };
    launch();
    let mut pairs = Pairs::default();
    for _ in 0..OPENINGS {
        let manager = open()?;
        let kernel = manager.kernel(&source)?;
        let scope = manager.scope("scope")?;
        let tensor = scope.tensor::<u32>(64)?;
        let sequence = scope.named("empty")?;
        sequence.record(op::dispatch(&kernel).bind(&tensor))?;
        pairs.time(PAIRS, ROUNDS, || sequence.run().expect("nothing fails"), launch);
        drop((sequence, tensor, scope, kernel));
        manager.close()?;
    }
    Ok(pairs.medians())
}
