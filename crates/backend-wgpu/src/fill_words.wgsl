// Repeats a pattern of words: WebGPU fills with zeros only.

struct Parameters {
    // Words into the bound range, and how many.
    first: u32,
    count: u32,
    // Words of the pattern that were written before, and how many it has.
    skipped: u32,
    period: u32,
    pattern: array<u32, 64>,
}

@group(0) @binding(0) var<storage, read_write> output: array<u32>;
@group(0) @binding(1) var<storage, read> parameters: Parameters;

@compute @workgroup_size(64)
fn fill_words(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let stride = groups.x * 64u;
    // Kept inside the pattern by subtraction: a division a word would take most of the time.
    let step = stride % parameters.period;
    var place = (parameters.skipped + id.x) % parameters.period;
    for (var at = id.x; at < parameters.count; at += stride) {
        output[parameters.first + at] = parameters.pattern[place];
        place += step;
        if place >= parameters.period {
            place -= parameters.period;
        }
    }
}
