//! Numbers as people read them.

/// With a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate, without digits that nobody needs.
pub(crate) fn rate(per_second: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are not negative, and saturate"
    )]
    let whole = per_second.round() as u64;
    grouped(whole)
}

/// A share of one, in percent.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 0.01 {
        "under 0.01 %".to_owned()
    } else if percent < 1.0 {
        format!("{percent:.2} %")
    } else if percent < 99.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A gigabyte, as the limits of the service count it.
pub(crate) const GB: u64 = 1 << 30;

/// A size.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(GB, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// `count` of something, in the singular for one.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        for (number, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), expected);
        }
        for (share, expected) in [
            (0.0, "0 %"),
            (0.000_05, "under 0.01 %"),
            (0.001, "0.10 %"),
            (0.254, "25.4 %"),
            (1.0, "100 %"),
            (0.999_9, "100 %"),
        ] {
            assert_eq!(percent(share), expected);
        }
        for (bytes, expected) in [
            (12, "12 bytes"),
            (1_536, "1.5 KB"),
            (3 << 20, "3.0 MB"),
            (20 * GB, "20.0 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(rate(38_119.6), "38,120");
        assert_eq!(counted(1, "value", "values"), "1 value");
        assert_eq!(counted(2_000, "value", "values"), "2,000 values");
    }
}
