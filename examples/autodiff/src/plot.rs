//! A picture of a run, as SVG: device memory and loss over the steps.

use std::fmt::Write;

use crate::training::Sample;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 60.0;
/// Points of a line, at most.
const POINTS: usize = 400;

/// One line of the picture.
struct Line {
    name: &'static str,
    colour: &'static str,
    value: fn(&Sample) -> f64,
}

const PANELS: [(&str, &[Line]); 2] = [
    (
        "device memory (KiB)",
        &[
            Line {
                name: "reserved",
                colour: "#888888",
                value: |sample| sample.reserved_bytes as f64 / 1024.0,
            },
            Line { name: "live", colour: "#2e7d64", value: |sample| sample.live_bytes as f64 / 1024.0 },
        ],
    ),
    ("loss", &[Line { name: "loss", colour: "#b5532a", value: |sample| f64::from(sample.loss) }]),
];

/// Draws a run on `device`.
pub fn draw(device: &str, samples: &[Sample]) -> String {
    let height = (HEIGHT + MARGIN) * PANELS.len() as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\">{} steps on {}</text>\n",
        WIDTH + 2.0 * MARGIN,
        samples.len(),
        device.replace('&', "&amp;").replace('<', "&lt;"),
    );
    for (at, (title, lines)) in PANELS.iter().enumerate() {
        panel(&mut svg, samples, title, lines, MARGIN + (HEIGHT + MARGIN) * at as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, samples: &[Sample], title: &str, lines: &[Line], top: f64) {
    let values = lines.iter().flat_map(|line| samples.iter().map(line.value));
    let highest = values.fold(f64::MIN_POSITIVE, f64::max);
    let bottom = top + HEIGHT;
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.1}\">{title}, up to {highest:.3}</text>\n\
         <path d=\"M{MARGIN} {top:.1} V{bottom:.1} H{:.1}\" stroke=\"#222\" fill=\"none\"/>",
        top - 6.0,
        MARGIN + WIDTH,
    );
    let every = samples.len().div_ceil(POINTS).max(1);
    for (at, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (step, sample) in samples.iter().enumerate().step_by(every) {
            let x = MARGIN + WIDTH * step as f64 / samples.len().max(1) as f64;
            let y = bottom - HEIGHT * (line.value)(sample) / highest;
            let _ = write!(path, "{}{x:.1} {y:.1} ", if path.is_empty() { "M" } else { "L" });
        }
        let _ = writeln!(svg, "<path d=\"{}\" stroke=\"{}\" fill=\"none\"/>", path.trim_end(), line.colour);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
            MARGIN + WIDTH - 80.0,
            top + 16.0 * (at + 1) as f64,
            line.colour,
            line.name
        );
    }
}
