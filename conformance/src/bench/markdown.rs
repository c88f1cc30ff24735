//! The measured rows as a table for a document, with the machine above it.

use crate::bench::figures::{Measured, Section, shown};
use crate::bench::machine::Machine;

const HEAD: &str = "\
| Workload | Server | per second | p50, p99, p99.9 ms | CPU s per million | MB \
| ours beside it: throughput, CPU |
|---|---|---:|---:|---:|---:|---:|
";

/// A table of all workloads, each with our server first.
pub(crate) fn table(machine: &Machine, sections: &[Section]) -> String {
    let mut text = format!("`{}`: {}\n\n{HEAD}", machine.command, machine.described());
    for section in sections {
        for (place, row) in section.measured.iter().enumerate() {
            let workload = match place {
                0 => format!("{}: {}", section.suite, section.name),
                _ => String::new(),
            };
            let ours = section.measured.first().filter(|_| place > 0);
            text.push_str(&line(&workload, row, ours));
        }
    }
    text
}

fn line(workload: &str, row: &Measured, ours: Option<&Measured>) -> String {
    let beside = ours.map_or(String::new(), |ours| {
        let throughput = ours.per_second / row.per_second;
        let processor = ours.processor_us / row.processor_us;
        format!("{}, {}", shown(throughput), shown(processor))
    });
    let [half, most, all] = row.latencies_ms;
    format!(
        "| {workload} | {} | {:.0} | {half:.2}, {most:.2}, {all:.2} | {:.1} | {:.0} | {beside} |\n",
        row.subject, row.per_second, row.processor_us, row.memory_mb
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_row_and_ours_none_beside_itself() {
        let row = |subject, per_second, processor_us| Measured {
            subject,
            per_second,
            latencies_ms: [1.0, 2.0, 3.0],
            processor_us,
            memory_mb: 33.4,
        };
        let sections = [Section {
            suite: "mongo",
            name: "find".to_owned(),
            measured: vec![row("tessera", 50.0, 4.0), row("echo", 100.0, 2.0)],
            figures: Vec::new(),
        }];
        let machine = Machine::here();
        let text = table(&machine, &sections);
        let rows = "\
            | mongo: find | tessera | 50 | 1.00, 2.00, 3.00 | 4.0 | 33 |  |\n\
            |  | echo | 100 | 1.00, 2.00, 3.00 | 2.0 | 33 | 0.50, 2.00 |\n";
        assert!(text.ends_with(rows), "{text}");
        assert!(text.contains(&machine.described()));
    }
}
