//! Memory of this process that is resident, as the kernel counts it.

/// Bytes of this process that are in memory, page by page; none where the system does not say.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// KiB by which the process grows in `rounds` calls of `round`, after as many as a hundredth of that.
pub fn growth_kib(rounds: u64, mut round: impl FnMut(u64)) -> Option<f64> {
    for at in 0..rounds / 100 {
        round(at);
    }
    let before = resident()?;
    for at in 0..rounds {
        round(at);
    }
    Some(resident()?.saturating_sub(before) as f64 / 1024.0)
}
