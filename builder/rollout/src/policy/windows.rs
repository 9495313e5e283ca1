//! When machines may be drained and rebooted. Pure.
//!
//! A window begins on each of its days at the wall-clock time of its zone, and ends at the next time that
//! its clock shows `to`. A time that the clock skips counts as the moment after; of one that it shows
//! twice, the first counts.

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _};

use mosb_api::cluster_settings::{Day, Window};

/// How many days a window is looked for: each of its days comes once a week, and the day that it began may
/// be the day before.
const DAYS: i32 = 9;

/// Whether machines may be drained and rebooted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Opening {
    Open,
    /// From then on; none if that is beyond all calendars.
    From(Option<Timestamp>),
}

impl Opening {
    pub fn of(windows: &[Window], now: Timestamp) -> Self {
        if windows.is_empty() {
            return Self::Open;
        }
        let spans = windows.iter().flat_map(|window| spans(window, now));
        let mut next: Option<Timestamp> = None;
        for (start, end) in spans {
            if start <= now && now < end {
                return Self::Open;
            }
            if start > now && start < end {
                next = next.into_iter().chain([start]).min();
            }
        }
        Self::From(next)
    }
}

/// When a window begins and ends, from yesterday on.
fn spans(window: &Window, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let today = now.to_zoned(window.zone.zone().clone()).date();
    let dates = (-1..DAYS).filter_map(move |days| today.checked_add(days.days()).ok());
    dates.filter_map(|date| span(window, date))
}

/// The window that begins on this date.
fn span(window: &Window, date: Date) -> Option<(Timestamp, Timestamp)> {
    if !window.days.is_empty() && !window.days.contains(&Day::from(date.weekday())) {
        return None;
    }
    let end = if window.to > window.from { date } else { date.tomorrow().ok()? };
    let at = |date: Date, time| {
        let zoned = window.zone.zone().to_ambiguous_zoned(date.to_datetime(time)).compatible();
        zoned.ok().map(|zoned| zoned.timestamp())
    };
    Some((at(date, window.from)?, at(end, window.to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Window {
        serde_json::from_str(text).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_is_open_at_these_moments() {
        const NIGHT: &str =
            r#"{"days": ["Mon"], "from": "22:00", "to": "04:00", "zone": "Europe/Berlin"}"#;
        const SPRING: &str = r#"{"from": "01:30", "to": "03:30", "zone": "Europe/Berlin"}"#;
        const SKIPPED: &str = r#"{"from": "02:15", "to": "02:45", "zone": "Europe/Berlin"}"#;
        const TWICE: &str = r#"{"from": "02:00", "to": "02:30", "zone": "Europe/Berlin"}"#;
        for (what, window_text, now, want) in [
            ("each moment of all days", "{}", "2026-02-03T12:00:00Z", None),
            ("before it", NIGHT, "2026-01-05T20:59:59Z", Some("2026-01-05T21:00:00Z")),
            ("its begin", NIGHT, "2026-01-05T21:00:00Z", None),
            ("past midnight", NIGHT, "2026-01-06T02:59:59Z", None),
            ("its end", NIGHT, "2026-01-06T03:00:00Z", Some("2026-01-12T21:00:00Z")),
            (
                "the same hour of another day",
                NIGHT,
                "2026-01-07T22:00:00Z",
                Some("2026-01-12T21:00:00Z"),
            ),
            ("in summer", NIGHT, "2026-07-06T20:00:00Z", None),
            // On 2026-03-29, 02:00 is followed by 03:00.
            ("the hour before the skipped one", SPRING, "2026-03-29T00:30:00Z", None),
            ("the hour after it", SPRING, "2026-03-29T01:29:59Z", None),
            ("one hour less", SPRING, "2026-03-29T01:30:00Z", Some("2026-03-29T23:30:00Z")),
            ("all of it is skipped", SKIPPED, "2026-03-29T01:14:59Z", Some("2026-03-29T01:15:00Z")),
            ("and is the hour after", SKIPPED, "2026-03-29T01:20:00Z", None),
            // On 2026-10-25, 03:00 is followed by 02:00.
            ("the first of two", TWICE, "2026-10-25T00:10:00Z", None),
            ("the second of two", TWICE, "2026-10-25T01:10:00Z", Some("2026-10-26T01:00:00Z")),
            (
                "the day of the zone",
                r#"{"days": ["Sun"], "from": "08:00", "to": "09:00", "zone": "Pacific/Kiritimati"}"#,
                "2026-01-03T18:30:00Z",
                None,
            ),
        ] {
            let want = want.map_or(Opening::Open, |next| Opening::From(Some(at(next))));
            assert_eq!(Opening::of(&[window(window_text)], at(now)), want, "{what}");
        }
    }

    #[test]
    fn the_first_of_several_windows_counts() {
        let windows = [
            window(r#"{"days": ["Sat", "Sun"]}"#),
            window(r#"{"days": ["Wed"], "from": "01:00", "to": "02:00"}"#),
        ];
        let opening = |now: &str| Opening::of(&windows, at(now));
        assert_eq!(Opening::of(&[], at("2026-01-06T00:00:00Z")), Opening::Open);
        assert_eq!(
            opening("2026-01-06T00:00:00Z"),
            Opening::From(Some(at("2026-01-07T01:00:00Z")))
        );
        assert_eq!(opening("2026-01-07T01:00:00Z"), Opening::Open);
        assert_eq!(
            opening("2026-01-07T02:00:00Z"),
            Opening::From(Some(at("2026-01-10T00:00:00Z")))
        );
        assert_eq!(opening("2026-01-10T23:59:59Z"), Opening::Open);
        assert_eq!(opening("2026-01-11T00:00:00Z"), Opening::Open);
    }
}
