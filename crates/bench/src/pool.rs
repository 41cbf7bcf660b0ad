//! The pool: what a tensor costs that is made and dropped, beside allocators, at any scale and from many threads.
//!
//! Most rows are over the null backend, so that they show core's pool and no driver's. Not here: CubeCL's pool, which
//! has a workspace of its own (`integrations/cubecl`).

use std::hint::black_box;
use std::time::Instant;

use tenure::{Manager, ManagerOptions, Tensor, TrimPolicy};
use tenure_bench::measure::{Bench, Failure, median_of};
use tenure_bench::null::{self, NullBackend};
use tenure_bench::report::Row;
use tenure_bench::resident::resident;
#[cfg(feature = "gpu-allocator")]
use tenure_bench::scaling::paired;
use tenure_bench::scaling::{paired_ratio, relative_scaling};

const MILLION: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    // First: later the process has memory of its own that it would use again, and nothing would seem to grow.
    let mut scale_rows = Vec::new();
    scale(bench, &mut scale_rows)?;
    hot_loops(bench, &mut rows)?;
    live_scaling(bench, &mut rows)?;
    threads(bench, &mut rows);
    #[cfg(feature = "gpu-allocator")]
    beside_gpu_allocator(bench, &mut rows)?;
    rows.append(&mut scale_rows);
    Ok(rows)
}

/// Makes and drops `rounds` tensors of 1 MiB, and measures nothing.
pub fn repeat(rounds: u64) -> Result<(), Failure> {
    let manager = null::manager()?;
    (0..rounds).for_each(|_| make_drop(&manager, MIB));
    Ok(())
}

/// Makes and drops a tensor.
fn make_drop(manager: &Manager, bytes: u64) {
    drop(black_box(manager.tensor::<u8>(black_box(bytes)).expect("there is room")));
}

fn hot_loops(bench: &mut Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let sizes =
        [("pool.alloc_free", MIB), ("pool.alloc_free_64_kib", 64 << 10), ("pool.alloc_free_256_b", 256)];
    for (id, bytes) in sizes {
        if bench.wants(id) {
            let manager = null::manager()?;
            let value = bench.time(id, || make_drop(&manager, bytes))?;
            rows.push(Row::new(id, value, "ns").at_most(100.0));
        }
    }
    // What no list of the latest sizes can serve: many sizes, many of them alive at a time.
    if bench.wants("pool.alloc_free_mixed") {
        let manager = null::manager()?;
        let mut random = Random(1);
        let mut live: Vec<Tensor<u8>> = Vec::new();
        for _ in 0..1_000 {
            live.push(manager.tensor(random.size())?);
        }
        let value = bench.time("pool.alloc_free_mixed", || {
            let at = (random.next() % 1_000) as usize;
            live[at] = manager.tensor(random.size()).expect("there is room");
        })?;
        rows.push(Row::new("pool.alloc_free_mixed", value, "ns"));
    }
    Ok(())
}

/// A linear congruential generator with the constants of MMIX; the high bits are good enough for sizes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From 256 bytes to 4 MiB, each power of two as likely as the next.
    fn size(&mut self) -> u64 {
        let power = 8 + self.next() % 14;
        (1 << power) + self.next() % (1 << power)
    }
}

/// Making and dropping one beside a million that are alive, against beside a hundred.
fn live_scaling(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    for (id, bytes) in [("pool.live_scaling", 256), ("pool.live_scaling_1_mib", MIB)] {
        if !bench.wants(id) {
            continue;
        }
        let beside = |live: u64| -> Result<_, Failure> {
            let manager = null::manager()?;
            let held: Vec<Tensor<u8>> = (0..live).map(|_| manager.tensor(bytes)).collect::<Result<_, _>>()?;
            Ok(move || {
                black_box(&held);
                make_drop(&manager, bytes);
            })
        };
        let value = paired_ratio(bench.scaled(5_000), beside(bench.scaled(MILLION))?, beside(100)?);
        rows.push(Row::part(id, value, "100 live").at_most(1.3));
    }
    Ok(())
}

/// Tenure on Vulkan and gpu-allocator on the same device: memory for 1 MiB taken and given back, in pairs. Both keep one
/// alive meanwhile, so that neither goes to the driver.
#[cfg(feature = "gpu-allocator")]
fn beside_gpu_allocator(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    use crate::raw_vulkan::Raw;
    use gpu_allocator::MemoryLocation;
    use gpu_allocator::vulkan::{AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc};

    if !bench.wants("pool.vs_gpu_allocator") {
        return Ok(());
    }
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
    let manager = tenure::open_with_options("vulkan", options)?;
    let _kept = manager.tensor::<u8>(MIB)?;

    let raw = Raw::open(&manager.info().device)?;
    let requirements = raw.requirements(MIB)?;
    let mut allocator = Allocator::new(&AllocatorCreateDesc {
        instance: raw.instance.clone(),
        device: raw.device.clone(),
        physical_device: raw.physical,
        debug_settings: Default::default(),
        buffer_device_address: false,
        allocation_sizes: Default::default(),
    })?;
    let request = AllocationCreateDesc {
        name: "bench",
        requirements,
        location: MemoryLocation::GpuOnly,
        linear: true,
        allocation_scheme: AllocationScheme::GpuAllocatorManaged,
    };
    let kept = allocator.allocate(&request)?;
    let pair = paired(
        bench.scaled(1_000),
        || make_drop(&manager, MIB),
        || {
            let allocation = allocator.allocate(black_box(&request)).expect("there is room");
            allocator.free(black_box(allocation)).expect("it is the allocator's");
        },
    );
    allocator.free(kept)?;
    let of = format!("gpu-allocator 0.28 on {}", raw.name);
    rows.push(Row::new("pool.alloc_free_vulkan", pair.own, "ns").against(of.clone(), pair.other));
    rows.push(Row::part("pool.vs_gpu_allocator", pair.ratio, of).at_most(0.2));
    Ok(())
}

/// Threads that make and drop tensors of one manager, each in a scope of its own.
fn threads(bench: &Bench, rows: &mut Vec<Row>) {
    let iterations = bench.scaled(MILLION);
    // About as long as the work.
    let spins = iterations * 100;
    for (id, threads, limit) in [("pool.threads_2", 2, Some(0.85)), ("pool.threads_8", 8, None)] {
        if !bench.wants(id) {
            continue;
        }
        let manager = null::manager().expect("the null backend opens");
        let value = relative_scaling(threads, spins, || {
            let scope = manager.scope("thread").expect("the manager is open");
            for _ in 0..iterations {
                drop(black_box(scope.tensor::<u8>(black_box(4096)).expect("there is room")));
            }
            scope.finish_blocking().expect("nothing fails");
        });
        let row = Row::part(id, value, "a loop that shares nothing");
        rows.push(if let Some(limit) = limit { row.at_least(limit) } else { row });
    }
}

fn scale(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    if bench.wants("pool.budget_1_gib") {
        through_a_budget(bench, rows)?;
    }
    if bench.wants("pool.live_1e6") {
        many_live(bench, rows)?;
    }
    if bench.wants("pool.scopes_1000") {
        many_scopes(bench, rows)?;
    }
    Ok(())
}

/// Ten million tensors of mixed sizes through a budget of 1 GiB, some hundred of them alive at a time.
fn through_a_budget(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let options = ManagerOptions::builder().budget(1 << 30).trim(TrimPolicy::Never).build();
    let manager = Manager::open_with(NullBackend::new(), options)?;
    let total = bench.scaled(10 * MILLION);
    let mut random = Random(1);
    let mut live: Vec<Tensor<u8>> =
        (0..256).map(|_| manager.tensor(random.size())).collect::<Result<_, _>>()?;
    let resident_before = resident();
    let begun = Instant::now();
    for _ in 0..total {
        let at = (random.next() % 256) as usize;
        live[at] = manager.tensor(random.size())?;
    }
    let each = begun.elapsed().as_nanos() as f64 / total as f64;
    rows.push(Row::new("pool.budget_1_gib", each, "ns"));
    let peak = manager.memory().peak_reserved_bytes;
    rows.push(Row::new("pool.budget_1_gib_peak", peak as f64 / MIB as f64, "MiB").at_most(1024.0));
    if let (Some(before), Some(after)) = (resident_before, resident()) {
        let grown = after.saturating_sub(before) as f64 / 1024.0;
        rows.push(Row::new("pool.budget_1_gib_growth", grown, "KiB"));
    }
    Ok(())
}

/// A million tensors that are alive together: time and memory of each.
fn many_live(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let total = bench.scaled(MILLION);
    let manager = null::manager()?;
    let before = resident();
    let begun = Instant::now();
    let live: Vec<Tensor<u8>> = (0..total).map(|_| manager.tensor(256)).collect::<Result<_, _>>()?;
    let made = begun.elapsed().as_nanos() as f64 / total as f64;
    let after = resident();
    let begun = Instant::now();
    drop(live);
    let dropped = begun.elapsed().as_nanos() as f64 / total as f64;
    rows.push(Row::new("pool.live_1e6_make", made, "ns"));
    rows.push(Row::new("pool.live_1e6_drop", dropped, "ns"));
    if let (Some(before), Some(after)) = (before, after) {
        let each = after.saturating_sub(before) as f64 / total as f64;
        rows.push(Row::new("pool.live_1e6_resident", each, "B"));
    }
    Ok(())
}

/// A thousand scopes that are open together, on eight threads: making each, ten tensors in it, and finishing it.
fn many_scopes(bench: &Bench, rows: &mut Vec<Row>) -> Result<(), Failure> {
    const THREADS: u64 = 8;
    const SCOPES: u64 = 1_000;
    const TENSORS: u64 = 10;
    let manager = null::manager()?;
    let value = median_of(bench.scaled(50), || {
        let open_together = std::sync::Barrier::new(THREADS as usize);
        let begun = Instant::now();
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let scopes: Vec<_> = (0..SCOPES / THREADS)
                        .map(|_| {
                            let scope = manager.scope("scope").expect("the manager is open");
                            let tensors: Vec<_> = (0..TENSORS)
                                .map(|_| scope.tensor::<u8>(4096).expect("there is room"))
                                .collect();
                            (scope, tensors)
                        })
                        .collect();
                    open_together.wait();
                    for (scope, tensors) in scopes {
                        scope.finish_blocking().expect("nothing fails");
                        drop(tensors);
                    }
                });
            }
        });
        begun.elapsed().as_nanos() as f64 / SCOPES as f64
    });
    rows.push(Row::new("pool.scopes_1000", value, "ns"));
    Ok(())
}
