//! The measured rows as a picture: for each workload a bar for each server.

use std::fmt::Write as _;

use crate::bench::figures::{Measured, Section};

const WIDTH: u32 = 860;
const BAR_LEFT: u32 = 250;
const BAR_WIDTH: f64 = 380.0;
const BAR: u32 = 16;
const TITLE: u32 = 26;
const GAP: u32 = 12;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}\
.tessera{fill:#2a6fdb}.other{fill:#9aa7b8}svg{background:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}svg{background:#161a20}\
.other{fill:#5b6675}.tessera{fill:#5b98f0}}";

/// A picture that needs nothing else, dark or light as the reader's system is.
pub(crate) fn chart(sections: &[Section]) -> String {
    let sections: Vec<&Section> = sections
        .iter()
        .filter(|section| !section.measured.is_empty())
        .collect();
    let (mut body, mut top) = (String::new(), GAP);
    for section in sections {
        top += TITLE;
        let name = escaped(&format!("{}: {}", section.suite, section.name));
        put(
            &mut body,
            &format!(
                "<text class=\"title\" x=\"{GAP}\" y=\"{}\">{name}</text>\n",
                top - 8
            ),
        );
        let fastest = section.measured.iter().map(|row| row.per_second);
        let fastest = fastest.fold(1.0, f64::max);
        for row in &section.measured {
            put(&mut body, &bar(row, fastest, top));
            top += BAR + 4;
        }
        top += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" \
         height=\"{top}\">\n<style>{STYLE}</style>\n{body}</svg>\n"
    )
}

fn bar(row: &Measured, fastest: f64, top: u32) -> String {
    let width = BAR_WIDTH * row.per_second / fastest;
    let class = match row.subject {
        "tessera" => "tessera",
        _ => "other",
    };
    let (baseline, end) = (top + BAR - 4, f64::from(BAR_LEFT) + width + 8.0);
    format!(
        "<text x=\"{}\" y=\"{baseline}\">{}</text>\
         <rect class=\"{class}\" x=\"{BAR_LEFT}\" y=\"{top}\" width=\"{width:.1}\" \
         height=\"{BAR}\"/>\
         <text x=\"{end:.1}\" y=\"{baseline}\">{:.0}/s, {:.1} µs CPU</text>\n",
        GAP * 3,
        escaped(row.subject),
        row.per_second,
        row.processor_us
    )
}

fn put(body: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _written = body.write_str(text).is_ok();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_bar_and_the_fastest_the_longest() {
        let row = |subject, per_second| Measured {
            subject,
            per_second,
            latencies_ms: [1.0; 3],
            processor_us: 2.0,
            memory_mb: 3.0,
        };
        let picture = chart(&[Section {
            suite: "mongo",
            name: "a < b".to_owned(),
            measured: vec![row("tessera", 50.0), row("echo", 100.0)],
            figures: Vec::new(),
        }]);
        assert_eq!(picture.matches("<rect").count(), 2);
        assert!(picture.contains("width=\"190.0\"") && picture.contains("width=\"380.0\""));
        assert!(picture.contains("mongo: a &lt; b"));
        assert!(picture.ends_with("</svg>\n"));
    }
}
