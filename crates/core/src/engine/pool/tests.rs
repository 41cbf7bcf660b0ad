//! Tests of the pool's books: figures, pages, and a model of random requests.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn capabilities(sub_allocation: bool) -> Capabilities {
    Capabilities {
        queues: 1,
        max_block_bytes: 64 * MIB,
        max_binding_bytes: 64 * MIB,
        max_groups: [u32::MAX; 3],
        max_blocks: 32,
        alignment: 256,
        sub_allocation,
        reusable_recordings: true,
        abandons_on_loss: false,
        loss_is_sticky: false,
        unified_memory: true,
    }
}

fn acquire(pool: &mut Pool, bytes: u64) -> Result<Grant, NoRoom> {
    if let Some(grant) = pool.take_cached(bytes) {
        return Ok(grant);
    }
    let growth = pool.plan_growth(bytes, Fit::Roomy)?;
    Ok(pool.commit(growth, NativeBlock::of_nothing()))
}

fn release(pool: &mut Pool, grant: Grant) {
    pool.retire(&grant);
    pool.reclaim(grant);
}

fn trim(pool: &mut Pool, keep: u64) -> u64 {
    let leaving = pool.take_unused(keep);
    let bytes = leaving.iter().map(|block| block.bytes).sum();
    for block in leaving {
        assert!(Arc::into_inner(block.native).is_some(), "an unused block has one owner");
        pool.freed(block.bytes, false);
    }
    bytes
}

#[test]
fn powers_of_two_are_granted_exactly() {
    let mut pool = Pool::new(&capabilities(true), Some(64 * MIB));
    let halves = [acquire(&mut pool, 32 * MIB).unwrap(), acquire(&mut pool, 32 * MIB).unwrap()];
    assert_eq!(pool.report().live.bytes, 64 * MIB);
    assert!(matches!(acquire(&mut pool, 1), Err(NoRoom::Budget)));
    for half in halves {
        release(&mut pool, half);
    }
    assert_eq!(pool.report().largest_free_bytes, 32 * MIB);
}

#[test]
fn small_grants_share_a_page_and_the_limit_of_blocks_is_kept() {
    let mut pool = Pool::new(&capabilities(true), None);
    let grants: Vec<Grant> = (0..10_000).map(|_| acquire(&mut pool, 200).unwrap()).collect();
    assert_eq!(pool.report().live.blocks, (10_000 * 256_u64).div_ceil(MIB));
    let large: Vec<Grant> = (0..29).map(|_| acquire(&mut pool, MIB).unwrap()).collect();
    assert!(matches!(acquire(&mut pool, MIB), Err(NoRoom::Blocks)));
    for grant in grants.into_iter().chain(large) {
        release(&mut pool, grant);
    }
    assert_eq!(pool.report().live, Usage::default());
    assert_eq!(trim(&mut pool, 0), pool.report().peak_reserved_bytes);
    assert_eq!(pool.report().reserved, Usage::default());
}

#[test]
fn a_block_as_large_as_its_request_serves_it_whatever_its_size() {
    for units in 1..=1024 {
        let mut pool = Pool::new(&capabilities(true), None);
        let growth = pool.plan_growth(units * 256, Fit::Exact).unwrap();
        assert_eq!(growth.bytes, units * 256);
        let grant = pool.commit(growth, NativeBlock::of_nothing());
        assert_eq!((grant.bytes, grant.offset), (units * 256, 0));
        release(&mut pool, grant);
        assert_eq!(trim(&mut pool, 0), units * 256);
    }
}

#[test]
fn a_refused_growth_leaves_no_trace() {
    let mut pool = Pool::new(&capabilities(true), Some(MIB));
    let before = pool.report();
    let growth = pool.plan_growth(MIB, Fit::Roomy).unwrap();
    assert_eq!(pool.reserved().bytes, MIB, "set aside while the driver is asked");
    pool.rollback(&growth);
    let after = pool.report();
    assert_eq!(after, before);
}

#[test]
fn a_page_is_granted_to_its_last_unit() {
    let mut pool = Pool::new(&Capabilities { max_blocks: 1, ..capabilities(true) }, None);
    let grants: Vec<Grant> = std::iter::from_fn(|| acquire(&mut pool, 1).ok()).collect();
    assert_eq!(grants.len() as u64, PAGE_BYTES / 256);
    assert_eq!(pool.report().largest_free_bytes, 0);
    for grant in grants {
        release(&mut pool, grant);
    }
    assert_eq!(pool.report().largest_free_bytes, PAGE_BYTES);
    trim(&mut pool, 0);
}

#[test]
fn the_largest_sizes_do_not_overflow() {
    let limits = Capabilities { max_block_bytes: u64::MAX - u64::MAX % 256, ..capabilities(true) };
    let mut pool = Pool::new(&limits, None);
    for bytes in [limits.max_block_bytes, u64::MAX / 2 + 2, u64::MAX / 2, 1 << 63, (1 << 63) + 1] {
        let first = pool.plan_growth(bytes, Fit::Roomy).unwrap();
        assert!(first.bytes >= bytes && first.bytes <= limits.max_block_bytes);
        assert!(pool.plan_growth(limits.max_block_bytes, Fit::Roomy).is_err());
        pool.rollback(&first);
    }
}

#[test]
fn an_exact_growth_is_of_the_size_asked_for() {
    let mut pool = Pool::new(&capabilities(true), None);
    for bytes in [1, 1000, 120_000, SMALL_BYTES, 9 * MIB + 1] {
        let growth = pool.plan_growth(bytes, Fit::Exact).unwrap();
        assert_eq!(growth.bytes, bytes.next_multiple_of(256));
        let grant = pool.commit(growth, NativeBlock::of_nothing());
        assert_eq!(grant.bytes, bytes.next_multiple_of(256));
        release(&mut pool, grant);
    }
    trim(&mut pool, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(u64),
    Retire(usize),
    Reclaim(usize),
    Trim(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..600_000).prop_map(Step::Acquire),
        1 => (1_u64..16 * MIB).prop_map(Step::Acquire),
        3 => any::<usize>().prop_map(Step::Retire),
        3 => any::<usize>().prop_map(Step::Reclaim),
        1 => (0..8 * MIB).prop_map(Step::Trim),
    ]
}

proptest! {
    #[test]
    fn accounting_is_exact_and_grants_never_overlap(
        sub_allocation: bool,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let budget = 48 * MIB;
        let mut pool = Pool::new(&capabilities(sub_allocation), Some(budget));
        let mut live: Vec<Grant> = Vec::new();
        let mut retired: Vec<Grant> = Vec::new();
        for step in steps {
            match step {
                Step::Acquire(bytes) => {
                    let before = pool.report();
                    match acquire(&mut pool, bytes) {
                        Ok(grant) => {
                            prop_assert!(grant.bytes >= bytes);
                            prop_assert_eq!(grant.offset % 256, 0);
                            for other in live.iter().chain(&retired) {
                                let apart = !Arc::ptr_eq(&grant.native, &other.native)
                                    || grant.offset + grant.bytes <= other.offset
                                    || other.offset + other.bytes <= grant.offset;
                                prop_assert!(apart, "two grants share bytes");
                            }
                            live.push(grant);
                        }
                        Err(_) => prop_assert_eq!(pool.report(), before, "a failure changes nothing"),
                    }
                }
                Step::Retire(at) if !live.is_empty() => {
                    let grant = live.swap_remove(at % live.len());
                    pool.retire(&grant);
                    retired.push(grant);
                }
                Step::Reclaim(at) if !retired.is_empty() => {
                    let grant = retired.swap_remove(at % retired.len());
                    pool.reclaim(grant);
                }
                Step::Trim(keep) => {
                    let before = pool.reserved().bytes;
                    let bytes = trim(&mut pool, keep);
                    prop_assert_eq!(before - pool.reserved().bytes, bytes);
                }
                Step::Retire(_) | Step::Reclaim(_) => {}
            }
            let report = pool.report();
            prop_assert_eq!(report.reserved, report.live + report.retired + report.cached);
            prop_assert_eq!(report.live.bytes, live.iter().map(|grant| grant.bytes).sum::<u64>());
            prop_assert_eq!(report.retired.bytes, retired.iter().map(|grant| grant.bytes).sum::<u64>());
            prop_assert!(report.reserved.bytes <= budget);
            prop_assert!(report.reserved.blocks <= 32);
        }
        for grant in live {
            release(&mut pool, grant);
        }
        for grant in retired {
            pool.reclaim(grant);
        }
        trim(&mut pool, 0);
        let report = pool.report();
        prop_assert_eq!(report.reserved, Usage::default());
        prop_assert_eq!(report.allocations, report.frees);
    }
}
