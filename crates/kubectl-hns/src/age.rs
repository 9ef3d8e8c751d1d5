//! The age of an object in the short form of kubectl.

/// Formats seconds as kubectl does: `90s`, `3m5s`, `5h`, `2d3h`, `400d`, `2y1d`.
pub(crate) fn short(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    match seconds {
        // Clocks differ; slightly in the future counts as now.
        ..-1 => "<invalid>".into(),
        -1..0 => "0s".into(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, (large, large_name): (i64, &str), (small, small_name): (i64, &str)) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_the_form_of_kubectl() {
        for (seconds, wanted) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (90, "90s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (34_560_000, "400d"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(short(seconds), wanted, "{seconds}");
        }
    }
}
