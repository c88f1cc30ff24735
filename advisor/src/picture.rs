//! The spread as a picture: for each candidate one bar for each physical partition.
//!
//! The SVG needs nothing else: no font, no script, no style from outside. It is dark where the
//! reader's system is.

use std::fmt::Write as _;

use crate::report::{Candidate, PartitionShare, Report};
use crate::units::{counted, grouped, percent, rate};

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
const HEADER: f64 = 74.0;
/// Height of one candidate, and of the bars in it.
const BLOCK: f64 = 206.0;
const BARS: f64 = 110.0;
/// Where in a block the bars stand on.
const BASE: f64 = 174.0;
/// With more bars than this, shares and numbers would run into each other.
const LABELLED: usize = 14;
/// A bar this much above the even share is drawn as hot.
const HOT: f64 = 1.25;

const STYLE: &str = "\
:root { color-scheme: light dark; }
svg { --ground: #ffffff; --ink: #1d2733; --faint: #66758a; --rule: #d8dfe8;
      --bar: #4a86c5; --hot: #d9773a; --key: #a33a1f; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #12171e; --ink: #e6ebf2; --faint: #93a1b3; --rule: #313b48;
        --bar: #5b9bd8; --hot: #e08a4c; --key: #f5c28f; }
}
.ground { fill: var(--ground); }
text { fill: var(--ink); font: 13px system-ui, sans-serif; }
.title { font-size: 17px; font-weight: 600; }
.name { font-size: 15px; font-weight: 600; }
.faint { fill: var(--faint); font-size: 12px; }
.middle { text-anchor: middle; paint-order: stroke; stroke: var(--ground); stroke-width: 4px; }
.bar { fill: var(--bar); }
.hot { fill: var(--hot); }
.key { fill: var(--key); }
.rule { stroke: var(--rule); }
.even { stroke: var(--ink); stroke-dasharray: 4 4; stroke-opacity: .6; }
";

/// Draws the report.
pub(crate) fn svg(report: &Report) -> String {
    let height = HEADER + BLOCK * report.candidates.len() as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"title\">\n<title id=\"title\">Spread over {} by partition key</title>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        counted(
            report.physical_partitions as u64,
            "physical partition",
            "physical partitions"
        ),
    );
    text(&mut svg, (MARGIN, 32.0), "title", "Which partition key?");
    let subtitle = format!(
        "{} from {} on {}, {} RU/s",
        counted(report.records, "record", "records"),
        report.source,
        counted(report.physical_partitions as u64, "partition", "partitions"),
        grouped(u64::from(report.throughput)),
    );
    text(&mut svg, (MARGIN, 52.0), "faint", &subtitle);
    // One scale for all, so that candidates can be compared.
    let shares = report
        .candidates
        .iter()
        .filter_map(Candidate::hottest_partition);
    let highest = shares
        .map(|hottest| hottest.share.request_units)
        .fold(0.0, f64::max);
    for (position, candidate) in report.candidates.iter().enumerate() {
        let top = HEADER + BLOCK * position as f64;
        block(&mut svg, candidate, top, highest.max(f64::MIN_POSITIVE));
    }
    svg.push_str("</svg>\n");
    svg
}

fn block(svg: &mut String, candidate: &Candidate, top: f64, highest: f64) {
    text(svg, (MARGIN, top + 20.0), "name", &candidate.title());
    let about = if candidate.distinct.is_exact {
        ""
    } else {
        "about "
    };
    let line = format!(
        "{about}{}; first throttled at {} RU/s",
        counted(candidate.distinct.count, "value", "values"),
        rate(candidate.throttling.first_at)
    );
    text(svg, (MARGIN, top + 38.0), "faint", &line);
    let base = top + BASE;
    let count = candidate.partitions.len().max(1);
    let step = (WIDTH - 2.0 * MARGIN) / count as f64;
    let even = 1.0 / count as f64;
    let scale = BARS / highest;
    for (position, partition) in candidate.partitions.iter().enumerate() {
        let left = MARGIN + step * position as f64;
        let is_hot = partition.share.request_units > HOT * even;
        let place = Place {
            left,
            base,
            step,
            scale,
        };
        bar(
            svg,
            &place,
            if is_hot { "bar hot" } else { "bar" },
            partition,
        );
        hottest_key(svg, &place, candidate, partition);
    }
    line_at(svg, "rule", base);
    line_at(svg, "even", base - even * scale);
    if count <= LABELLED {
        labels(svg, candidate, (base, step, scale));
    }
}

/// Shares and numbers of the partitions, over everything else.
fn labels(svg: &mut String, candidate: &Candidate, (base, step, scale): (f64, f64, f64)) {
    for (position, partition) in candidate.partitions.iter().enumerate() {
        let middle = MARGIN + step * (position as f64 + 0.5);
        let share = partition.share.request_units;
        let above = base - share * scale - 6.0;
        text(svg, (middle, above), "faint middle", &percent(share));
        let number = partition.partition.to_string();
        text(svg, (middle, base + 16.0), "faint middle", &number);
    }
}

/// Where a bar goes.
struct Place {
    left: f64,
    base: f64,
    step: f64,
    scale: f64,
}

fn bar(svg: &mut String, place: &Place, class: &str, partition: &PartitionShare) {
    let words = format!(
        "partition {}: {} of request units, {} of bytes",
        partition.partition,
        percent(partition.share.request_units),
        percent(partition.share.bytes)
    );
    rectangle(svg, place, class, (partition.share.request_units, &words));
}

/// The part of a bar that one key alone makes.
fn hottest_key(svg: &mut String, place: &Place, candidate: &Candidate, at: &PartitionShare) {
    let hottest = candidate.hottest.first();
    if let Some(key) = hottest.filter(|key| key.partition == at.partition as usize) {
        let share = key.share.request_units;
        let words = format!("the hottest key {}: {}", key.key, percent(share));
        rectangle(svg, place, "key", (share, &words));
    }
}

fn rectangle(svg: &mut String, place: &Place, class: &str, (share, words): (f64, &str)) {
    let gap = (place.step * 0.15).min(6.0);
    let height = share * place.scale;
    let _written = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\">\
         <title>{}</title></rect>",
        place.left + gap / 2.0,
        place.base - height,
        place.step - gap,
        height,
        escaped(words)
    );
}

fn line_at(svg: &mut String, class: &str, y: f64) {
    let right = WIDTH - MARGIN;
    let _written = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{MARGIN}\" x2=\"{right}\" y1=\"{y:.2}\" y2=\"{y:.2}\"/>"
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, words: &str) {
    let words = escaped(words);
    let _written = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\">{words}</text>"
    );
}

/// Words as XML holds them: its own signs replaced, and what it may not hold left out.
fn escaped(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ if character.is_control() || "\u{fffe}\u{ffff}".contains(character) => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_out() {
        assert_eq!(
            escaped("<a b=\"c\">&\u{1}</a>"),
            "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}&lt;/a&gt;"
        );
    }
}
