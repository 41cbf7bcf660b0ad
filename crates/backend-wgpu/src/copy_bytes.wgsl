// Copies of any bytes, a word at a time: WebGPU copies whole words only. Each invocation owns whole words of the target, so
// that bytes beside the range keep what they have, and no two invocations touch one word.

struct Parameters {
    // Bytes into the bound ranges, and how many.
    from_byte: u32,
    to_byte: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(2) var<storage, read> parameters: Parameters;

@compute @workgroup_size(64)
fn copy_bytes(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let begin = parameters.to_byte;
    let end = begin + parameters.count;
    for (var word = begin / 4u + id.x; word * 4u < end; word += groups.x * 64u) {
        var value = output[word];
        for (var byte = 0u; byte < 4u; byte++) {
            let at = word * 4u + byte;
            if at >= begin && at < end {
                let place = parameters.from_byte + (at - begin);
                let bits = extractBits(input[place / 4u], (place % 4u) * 8u, 8u);
                value = insertBits(value, bits, byte * 8u, 8u);
            }
        }
        output[word] = value;
    }
}
