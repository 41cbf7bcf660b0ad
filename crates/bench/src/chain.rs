//! The chain of `examples/chain`, a batch of 64 images, under each trim policy: time, trims, bytes, and the share of the
//! time that the driver had for taking memory and giving it back.
//!
//! Each policy has a batch and a manager of its own, side by side, and they take turns image by image (`turns.rs`). Beside
//! the devices there is a model of one that takes long to give memory back; it is named so in every row. Not here: the
//! chain, which is the example's.

mod turns;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain::batch::{Batch, Job};
use chain::cancel::Cancel;
use chain::ledger::Ledger;
use chain::node::Node;
use chain::progress::Progress;
use tenure::host::HostBackend;
use tenure::{Backend, BackendError, Manager, ManagerOptions, TrimPolicy};
use tenure_bench::measure::{Bench, Failure, median};
use tenure_bench::report::Row;

use crate::costed::{Costed, Costs};
use turns::{InTurn, Seat, seats};

const IMAGES: u64 = 64;
/// Batches of each policy on each device. Of each image the median counts.
const RUNS: u64 = 5;
const MIB: u64 = 1 << 20;

/// The policies, each with its name in rows.
const POLICIES: [(&str, TrimPolicy); 4] = [
    ("every_execution", TrimPolicy::EveryExecution),
    ("on_finish", TrimPolicy::OnFinish),
    // Between what one image needs and what images of many sizes leave in the cache.
    ("watermark", TrimPolicy::Watermark { high: 32 * MIB, low: 0 }),
    ("never", TrimPolicy::Never),
];

/// The model: what a driver may take that waits for the device before it frees, as `cudaFree` does. Assumed, not measured.
const MODEL: Costs = Costs { allocate: Duration::from_micros(100), free: Duration::from_micros(500) };
const NO_COSTS: Costs = Costs { allocate: Duration::ZERO, free: Duration::ZERO };

/// All rows.
pub fn rows(bench: &mut Bench) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let jobs = jobs(folder.path(), bench.scaled(IMAGES))?;
    let mut rows = Vec::new();
    on_device(bench, &mut rows, "chain.host", &jobs, || Ok(Costed::new(HostBackend::new(), NO_COSTS)))?;
    #[cfg(feature = "vulkan")]
    on_device(bench, &mut rows, "chain.vulkan", &jobs, || {
        Ok(Costed::new(tenure::vulkan::VulkanBackend::new()?, NO_COSTS))
    })?;
    #[cfg(feature = "wgpu")]
    on_device(bench, &mut rows, "chain.wgpu", &jobs, || {
        Ok(Costed::new(tenure::wgpu::WgpuBackend::new()?, NO_COSTS))
    })?;
    on_device(bench, &mut rows, "chain.model", &jobs, || Ok(Costed::new(HostBackend::new(), MODEL)))?;
    Ok(rows)
}

/// Writes the images.
fn jobs(folder: &Path, images: u64) -> Result<Vec<Job>, Failure> {
    let (input, output) = (folder.join("in"), folder.join("out"));
    chain::samples::generate(&input, images as u32, || false)?;
    std::fs::create_dir_all(&output)?;
    let mut names: Vec<_> =
        std::fs::read_dir(&input)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
    names.sort();
    Ok(names.into_iter().map(|name| Job { source: input.join(&name), target: output.join(&name) }).collect())
}

/// One batch.
struct Run {
    /// Of each image, with what came of it; the last one's with the batch's end.
    ms: Vec<f64>,
    trims: f64,
    frees: f64,
    held_kib: f64,
    peak_kib: f64,
    giving_back: f64,
    taking: f64,
}

fn on_device<B: Backend>(
    bench: &Bench,
    rows: &mut Vec<Row>,
    on: &str,
    jobs: &[Job],
    open: impl Fn() -> Result<Costed<B>, BackendError>,
) -> Result<(), Failure> {
    if !bench.wants(on) {
        return Ok(());
    }
    let runs = bench.scaled(RUNS);
    let mut by_policy: [Vec<Run>; 4] = Default::default();
    for round in 0..runs {
        for (known, run) in by_policy.iter_mut().zip(side_by_side(round as usize, jobs, &open)?) {
            known.push(run);
        }
        let last = by_policy.each_ref().map(|runs| runs.last().map_or(0.0, Run::total).round());
        eprintln!("{on}: round {} of {runs}: {last:?} ms", round + 1);
    }
    let [every_execution, on_finish, watermark, never] = &by_policy;
    for ((policy, _), runs) in POLICIES.iter().zip(&by_policy) {
        let figure = |of: fn(&Run) -> f64| median(runs.iter().map(of).collect());
        let row = |what: &str, value, unit| Row::new(format!("{on}.{policy}{what}"), value, unit);
        rows.push(row("", typical(runs), "ms"));
        rows.push(row(".trims", figure(|run| run.trims), "trims"));
        rows.push(row(".frees", figure(|run| run.frees), "frees"));
        rows.push(row(".held", figure(|run| run.held_kib), "KiB"));
        rows.push(row(".peak", figure(|run| run.peak_kib), "KiB"));
        rows.push(row(".giving_back", figure(|run| run.giving_back * 100.0), "%"));
        rows.push(row(".taking", figure(|run| run.taking * 100.0), "%"));
    }
    // The rows of the device that has a driver have the plain names.
    let plain = if on == "chain.vulkan" { "chain" } else { on };
    let mut beside = |(id, own, most): (&str, &[Run], Option<f64>), (of, others): (&'static str, &[Run])| {
        let ratio = ratio_by_image(own, others);
        let row = Row::part(format!("{plain}.{id}"), ratio, of);
        rows.push(most.into_iter().fold(row, Row::at_most));
        // How far the batches are apart: the least and the greatest of the ratios of the middle half.
        let mut ratios: Vec<f64> = own.iter().zip(others).map(|(own, of)| own.total() / of.total()).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios[ratios.len() / 4], ratios[ratios.len() - 1 - ratios.len() / 4]);
        rows.push(Row::part(format!("{plain}.{id}.low"), low, of));
        rows.push(Row::part(format!("{plain}.{id}.high"), high, of));
    };
    beside(("on_finish_vs_every_execution", on_finish, None), ("every_execution", every_execution));
    beside(("watermark_vs_never", watermark, Some(1.02)), ("never", never));
    let held = |runs: &[Run]| median(runs.iter().map(|run| run.held_kib).collect());
    let (own, of) = (held(watermark), held(on_finish));
    let row = Row::new(format!("{plain}.watermark_held"), own, "KiB").against("on_finish", of);
    rows.push(row.at_most(1.1 * of));
    Ok(())
}

impl Run {
    fn total(&self) -> f64 {
        self.ms.iter().sum()
    }
}

/// What a batch takes where nothing disturbs it: the sum of each image's median.
fn typical(runs: &[Run]) -> f64 {
    let images = runs.first().map_or(0, |run| run.ms.len());
    (0..images).map(|image| median(runs.iter().map(|run| run.ms[image]).collect())).sum()
}

/// What the one takes as a part of what the other takes: of each image the median of its pairs, which were run one soon after
/// the other, weighted by what the image takes.
fn ratio_by_image(own: &[Run], others: &[Run]) -> f64 {
    let images = others.first().map_or(0, |run| run.ms.len());
    let (mut sum, mut weights) = (0.0, 0.0);
    for image in 0..images {
        let weight = median(others.iter().map(|run| run.ms[image]).collect());
        let pairs = own.iter().zip(others).map(|(own, other)| own.ms[image] / other.ms[image]);
        sum += weight * median(pairs.collect());
        weights += weight;
    }
    sum / weights
}

/// One batch under each policy, in turns image by image.
fn side_by_side<B: Backend>(
    round: usize,
    jobs: &[Job],
    open: &impl Fn() -> Result<Costed<B>, BackendError>,
) -> Result<Vec<Run>, Failure> {
    let mut batches = Vec::new();
    for (seat, (_, policy)) in seats(POLICIES.len(), round % POLICIES.len()).into_iter().zip(POLICIES) {
        batches.push((open()?, seat, policy));
    }
    std::thread::scope(|threads| {
        let running: Vec<_> = batches
            .into_iter()
            // An error crosses threads as its text.
            .map(|(backend, seat, policy)| {
                threads.spawn(move || run(backend, &seat, policy, jobs).map_err(|error| error.to_string()))
            })
            .collect();
        let ended = running.into_iter().map(|thread| thread.join().expect("a batch does not panic"));
        ended.collect::<Result<Vec<Run>, String>>().map_err(Failure::from)
    })
}

fn run<B: Backend>(
    backend: Costed<B>,
    seat: &Arc<Seat>,
    policy: TrimPolicy,
    jobs: &[Job],
) -> Result<Run, Failure> {
    let tally = backend.tally();
    let manager = Manager::open_with(backend, ManagerOptions::builder().trim(policy).build())?;
    let mut nodes = chain::chain::nodes(&manager, 1 << 20)?;
    let first: Box<dyn Node> = Box::new(InTurn { seat: seat.clone(), node: nodes.remove(0) });
    nodes.insert(0, first);
    let ledger = Arc::new(Ledger::new(nodes.iter().map(|node| node.name())));
    let (taken, given) = (tally.allocating(), tally.giving_back());
    let ended = Batch {
        manager: &manager,
        nodes: &nodes,
        weights: &Arc::default(),
        ledger: &ledger,
        cancel: &Cancel::default(),
        progress: &Progress::Silent,
        fail_fast: true,
        pause_after: None,
    }
    .run(jobs);
    let ms = seat.leave();
    if ended.tally.done != jobs.len() {
        let failures: Vec<String> =
            ended.tally.failures.iter().map(|failure| failure.error.to_string()).collect();
        return Err(format!("{} of {} images: {failures:?}", ended.tally.done, jobs.len()).into());
    }
    let memory = manager.memory();
    let seconds = ms.iter().sum::<f64>() / 1e3;
    let run = Run {
        ms,
        trims: memory.trims as f64,
        frees: tally.frees() as f64,
        held_kib: memory.reserved.bytes as f64 / 1024.0,
        peak_kib: memory.peak_reserved_bytes as f64 / 1024.0,
        giving_back: (tally.giving_back() - given) / seconds,
        taking: (tally.allocating() - taken) / seconds,
    };
    drop(nodes);
    if !manager.close()?.is_clean() {
        return Err("something was left when the manager closed".into());
    }
    Ok(run)
}
