//! A bar chart of a report, as SVG: for each row its value, and its limit or baseline as a mark, both as parts of the
//! larger one.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::report::{Report, Row};

const WIDTH: usize = 760;
const LINE: usize = 26;
const LEFT: usize = 240;
const BARS: f64 = 360.0;

/// The chart.
pub fn draw(report: &Report) -> String {
    let height = LINE * (report.rows.len() + 2);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"18\" fill=\"#555\">{}: bars are values, marks are limits</text>\n",
        escaped(&report.machine)
    );
    for (at, row) in report.rows.iter().enumerate() {
        bar(&mut svg, row, LINE * (at + 1) + 8);
    }
    let devices: BTreeSet<&str> = report.rows.iter().filter_map(|row| row.device.as_deref()).collect();
    if !devices.is_empty() {
        let devices = devices.into_iter().collect::<Vec<_>>().join("; ");
        let y = height - 10;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{y}\" fill=\"#555\">on {}</text>", escaped(&devices));
    }
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, row: &Row, y: usize) {
    let mark = row.limit_as_value().or(row.baseline_value);
    let full = row.value.max(mark.unwrap_or(0.0)).max(f64::MIN_POSITIVE);
    let length = BARS * row.value / full;
    let colour = if row.is_kept() == Some(false) { "#c0392b" } else { "#2e7d64" };
    let text = y + 14;
    let _ = writeln!(svg, "<text x=\"8\" y=\"{text}\">{}</text>", escaped(&row.id));
    let _ =
        writeln!(svg, "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"18\" fill=\"{colour}\"/>");
    if let Some(mark) = mark {
        let x = LEFT as f64 + BARS * mark / full;
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y}\" width=\"2\" height=\"18\" fill=\"#222\"/>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{text}\">{:.2} {}</text>",
        LEFT + BARS as usize + 12,
        row.value,
        escaped(row.unit)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_the_devices_of_its_rows() {
        let mut row = Row::new("a.b", 1.0, "ns");
        row.device = Some("softly, in software".to_owned());
        let svg = draw(&Report { machine: "m".to_owned(), rows: vec![row.clone(), row] });
        assert_eq!(svg.matches("on softly, in software<").count(), 1);
    }

    #[test]
    fn a_chart_has_a_bar_and_a_mark_for_each_row() {
        let rows =
            vec![Row::new("a.fast", 10.0, "ns").at_most(100.0), Row::new("a.slow", 3.0, "ns").at_most(1.0)];
        let svg = draw(&Report { machine: "m & n".to_owned(), rows });
        assert_eq!(svg.matches("height=\"18\"").count(), 4);
        assert_eq!((svg.matches("#c0392b").count(), svg.matches("m &amp; n").count()), (1, 1));
    }
}
