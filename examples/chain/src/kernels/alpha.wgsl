// Alpha: multiplying colours by it after loading, and dividing them by it before saving. The host forms are in
// `alpha.rs`.

struct Parameters { pixels: u32 }

@group(0) @binding(0) var<storage, read_write> picture: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> parameters: Parameters;

// Pixels of a workgroup.
const WORKGROUP = 256u;

// The pixel of an invocation: workgroups are numbered through x and y.
fn place(id: vec3<u32>, groups: vec3<u32>) -> u32 {
    return id.y * groups.x * WORKGROUP + id.x;
}

@compute @workgroup_size(WORKGROUP)
fn premultiply(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = place(id, groups);
    if at < parameters.pixels {
        let pixel = picture[at];
        picture[at] = vec4(pixel.rgb * pixel.a, pixel.a);
    }
}

@compute @workgroup_size(WORKGROUP)
fn unpremultiply(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = place(id, groups);
    if at < parameters.pixels {
        let pixel = picture[at];
        let alpha = clamp(pixel.a, 0.0, 1.0);
        if alpha * 255.0 < 0.5 {
            picture[at] = vec4(0.0);
        } else {
            picture[at] = vec4(clamp(pixel.rgb / alpha, vec3(0.0), vec3(1.0)), alpha);
        }
    }
}
