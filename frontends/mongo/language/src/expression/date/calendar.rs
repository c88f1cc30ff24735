//! The Gregorian calendar over all dates that 64 bits of milliseconds can say.

/// Milliseconds of a day.
pub(super) const DAY: i64 = 86_400_000;

/// A moment as a calendar and a clock show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

impl Civil {
    /// What clocks show so many milliseconds after 1970 began.
    pub(super) fn from_millis(millis: i64) -> Self {
        let (days, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        Self {
            year,
            month,
            day,
            hour: rest / 3_600_000,
            minute: rest / 60_000 % 60,
            second: rest / 1000 % 60,
            millisecond: rest % 1000,
        }
    }

    /// The reverse; parts beyond their usual range count on. None beyond the range of dates.
    pub(super) fn to_millis(self) -> Option<i64> {
        let days = days_before(self.year, self.month, self.day)?;
        let seconds = self
            .hour
            .checked_mul(3600)?
            .checked_add(self.minute.checked_mul(60)?)?
            .checked_add(self.second)?;
        let millis = i128::from(days) * i128::from(DAY)
            + i128::from(seconds) * 1000
            + i128::from(self.millisecond);
        i64::try_from(millis).ok()
    }

    pub(super) fn days(self) -> i64 {
        days_before(self.year, self.month, self.day).unwrap_or(0)
    }

    /// From 1 on.
    pub(super) fn day_of_year(self) -> i64 {
        self.days() - days_before(self.year, 1, 1).unwrap_or(0) + 1
    }

    /// From Sunday, which is 1, to Saturday.
    pub(super) fn day_of_week(self) -> i64 {
        (self.days() + 4).rem_euclid(7) + 1
    }

    /// From Monday, which is 1, to Sunday.
    pub(super) fn iso_day_of_week(self) -> i64 {
        (self.days() + 3).rem_euclid(7) + 1
    }

    /// The week of the year, of which each begins on Sunday; days before the first are in week 0.
    pub(super) fn week(self) -> i64 {
        (self.day_of_year() - self.day_of_week() + 7) / 7
    }

    /// The year and week of ISO 8601: weeks begin on Monday, and belong to the year that has their
    /// Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let thursday = self.days() - self.iso_day_of_week() + 4;
        let (year, _, _) = date_of(thursday);
        let first = days_before(year, 1, 1).unwrap_or(0);
        (year, (thursday - first) / 7 + 1)
    }
}

/// The day of an ISO year, week and day of the week, any of which may count beyond its range.
pub(super) fn from_iso_week(year: i64, week: i64, day: i64) -> Option<(i64, i64, i64)> {
    // The fourth of January is always in the first week.
    let fourth = days_before(year, 1, 4)?;
    let monday = fourth - (fourth + 3).rem_euclid(7);
    let days = monday
        .checked_add((week - 1).checked_mul(7)?)?
        .checked_add(day - 1)?;
    Some(date_of(days))
}

/// How many days a month has.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970 to a day. Years are taken to begin in March, so that leap days come last; months
/// beyond the year count into other years.
pub(super) fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = month.checked_sub(3)?;
    let year = year.checked_add(month.div_euclid(12))?;
    let month = month.rem_euclid(12);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    era.checked_mul(146_097)?
        .checked_add(day_of_era - 719_468)?
        .checked_add(day.checked_sub(1)?)
}

/// The day so many days after 1970 began.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400 + i64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::{Civil, date_of, days_before, from_iso_week};

    #[test]
    fn goes_both_ways() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_before(year, month, day), Some(days));
        }
        for millis in [0, -1, i64::MIN, i64::MAX, 951_782_400_000] {
            assert_eq!(Civil::from_millis(millis).to_millis(), Some(millis));
        }
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(days_before(2000, 2, 29), Some(11016));
        assert_eq!(days_before(1999, 14, 29), Some(11016));
    }

    #[test]
    fn counts_weeks() {
        // Year, month, day; then week, ISO year, ISO week, ISO day.
        for (year, month, day, expected) in [
            (2021, 1, 1, (0, 2020, 53, 5)),
            (2021, 1, 3, (1, 2020, 53, 7)),
            (2021, 1, 4, (1, 2021, 1, 1)),
            (2018, 12, 31, (52, 2019, 1, 1)),
            (2024, 6, 15, (23, 2024, 24, 6)),
        ] {
            let civil = Civil {
                year,
                month,
                day,
                ..Civil::from_millis(0)
            };
            let (iso_year, iso_week) = civil.iso_week();
            let iso_day = civil.iso_day_of_week();
            assert_eq!((civil.week(), iso_year, iso_week, iso_day), expected);
            assert_eq!(
                from_iso_week(iso_year, iso_week, iso_day),
                Some((year, month, day))
            );
        }
    }
}
