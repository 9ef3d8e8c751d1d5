//! Quantities of resources, as Kubernetes writes them: `500m`, `1.5`, `64Mi`, `2e3`.
//!
//! Amounts are exact to 10⁻⁹. As in Kubernetes, smaller parts are rounded up, and amounts are limited to 2⁶³-1.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::str::FromStr;

use super::text::{QUOTE, limited};

/// An amount of a resource, and the notation in which it is shown. Comparisons ignore the notation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    /// In units of 10⁻⁹.
    nanos: i128,
    notation: Notation,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Notation {
    /// `500m`, `2k`.
    #[default]
    Decimal,
    /// `64Mi`.
    Binary,
    /// `2e3`.
    Exponent,
}

const UNIT: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * UNIT;

/// The decimal suffixes, with the exponent of each.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The binary suffixes: the first stands for 1024, the next for its square, and so on.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// More digits than this, in units of 10⁻⁹, are more than [`LARGEST`].
const MOST_DIGITS: i64 = 29;

/// Digits after these cannot count.
const KEPT: usize = 36;

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoQuantity(String);

impl fmt::Display for NoQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no quantity: expected a number, with a suffix such as m, k, Mi or e3 if needed",
            self.0
        )
    }
}

impl std::error::Error for NoQuantity {}

impl Quantity {
    /// A whole number.
    pub const fn whole(amount: i64) -> Self {
        Self { nanos: amount as i128 * UNIT, notation: Notation::Decimal }
    }

    /// Whether it is less than zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % UNIT == 0
    }

    /// Rounded up to thousandths, as the API server does it with limits of a `ResourceQuota`.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        const STEP: i128 = UNIT / 1000;
        Self {
            nanos: self.nanos.div_euclid(STEP) * STEP
                + if self.nanos.rem_euclid(STEP) > 0 { STEP } else { 0 },
            ..self
        }
    }

    /// This amount in hundredths of `whole`, rounded down; 100 of nothing.
    pub fn percent_of(self, whole: Self) -> i64 {
        if whole.nanos <= 0 {
            return 100;
        }
        i64::try_from(self.nanos.saturating_mul(100) / whole.nanos).unwrap_or(i64::MAX)
    }

    /// The amount as the nearest floating-point number, for metrics and rough comparisons.
    #[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / UNIT as f64
    }

    fn limited(nanos: i128, notation: Notation) -> Self {
        Self { nanos: nanos.clamp(-LARGEST, LARGEST), notation }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The sum has the notation of the first summand that is not zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self::limited(self.nanos + other.nanos, notation)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self::limited(self.nanos - other.nanos, notation)
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl FromStr for Quantity {
    type Err = NoQuantity;

    fn from_str(text: &str) -> Result<Self, NoQuantity> {
        parse(text).ok_or_else(|| NoQuantity(limited(text, QUOTE).into_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (negative, digits) = match number.strip_prefix(['+', '-']) {
        Some(rest) => (number.starts_with('-'), rest),
        None => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|it| it.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let (factor, exponent, notation) = scale(suffix)?;
    let nanos = scaled(whole, fraction, factor, exponent);
    Some(Quantity::limited(if negative { -nanos } else { nanos }, notation))
}

/// The factor and the decimal exponent for which a suffix stands.
fn scale(suffix: &str) -> Option<(i128, i32, Notation)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((1, *exponent, Notation::Decimal));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1 << (10 * (at + 1)), 0, Notation::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // The API server refuses exponents beyond 32 bits.
    Some((1, exponent.parse().ok()?, Notation::Exponent))
}

/// The amount in units of 10⁻⁹, rounded up; too large numbers give more than [`LARGEST`].
fn scaled(whole: &str, fraction: &str, factor: i128, exponent: i32) -> i128 {
    let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
    let digits: Vec<u8> = digits.collect();
    if digits.is_empty() {
        return 0;
    }
    // The value is `digits` * 10^power units of 10⁻⁹.
    let fraction = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let power = i64::from(exponent).saturating_add(9).saturating_sub(fraction);
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    if length.saturating_add(power) > MOST_DIGITS {
        return LARGEST;
    }
    let kept = &digits[..digits.len().min(KEPT)];
    let dropped = &digits[kept.len()..];
    let mut power = power + i64::try_from(dropped.len()).unwrap_or(i64::MAX);
    let mut mantissa = kept.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    let mut rest = dropped.iter().any(|digit| *digit != b'0');
    // With a binary suffix, 18 digits are exact.
    while power < 0 && mantissa.checked_mul(factor).is_none() {
        rest |= mantissa % 10 != 0;
        mantissa /= 10;
        power += 1;
    }
    let Some(product) = mantissa.checked_mul(factor) else { return LARGEST };
    if power >= 0 {
        let factor = u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
        return factor.and_then(|it| product.checked_mul(it)).unwrap_or(LARGEST);
    }
    let Some(divisor) = u32::try_from(-power).ok().and_then(|power| 10_i128.checked_pow(power)) else {
        // Less than one unit.
        return 1;
    };
    product / divisor + i128::from(product % divisor != 0 || rest)
}

/// The shortest exact form, as Kubernetes writes it.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nanos.abs() < 1024 * UNIT;
        match self.notation {
            Notation::Binary if self.is_whole() && !is_small => binary(self.nanos / UNIT, f),
            Notation::Exponent => {
                let (mantissa, exponent) = decimal(self.nanos);
                if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") }
            }
            _ => {
                let (mantissa, exponent) = decimal(self.nanos);
                let suffix = DECIMAL.iter().find(|(_, known)| *known == exponent).map_or("", |it| it.0);
                write!(f, "{mantissa}{suffix}")
            }
        }
    }
}

fn binary(mut amount: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffix = "";
    for next in BINARY {
        if amount % 1024 != 0 {
            break;
        }
        amount /= 1024;
        suffix = next;
    }
    write!(f, "{amount}{suffix}")
}

/// The mantissa, and the greatest exponent of the decimal suffixes for which it is whole.
fn decimal(mut amount: i128) -> (i128, i32) {
    if amount == 0 {
        return (0, 0);
    }
    let mut exponent = -9;
    while exponent < 18 && amount % 1000 == 0 {
        amount /= 1000;
        exponent += 3;
    }
    (amount, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn limits_are_rounded_up_to_thousandths() {
        for (given, rounded) in
            [("1n", "1m"), ("1m", "1m"), ("1000001u", "1001m"), ("2", "2"), ("0", "0"), ("-1u", "0")]
        {
            assert_eq!(quantity(given).in_thousandths().to_string(), rounded, "{given}");
        }
    }

    #[test]
    fn quantities_are_shown_as_kubernetes_shows_them() {
        for (given, shown) in [
            ("0", "0"),
            ("5", "5"),
            ("+5", "5"),
            ("-5", "-5"),
            ("1.5", "1500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1000000", "1M"),
            ("0.0001", "100u"),
            ("0.00000000001", "1n"),
            ("1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("1Ki", "1Ki"),
            ("1024", "1024"),
            ("1023Mi", "1023Mi"),
            ("1024Mi", "1Gi"),
            ("1500Ki", "1500Ki"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("0.3Mi", "314572800m"),
            ("2e3", "2e3"),
            ("2E3", "2e3"),
            ("2e2", "200"),
            ("2e4", "20e3"),
            ("1e-3", "1e-3"),
            ("100m", "100m"),
            ("2000m", "2"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("1e100", "9223372036854775807"),
            ("16Ei", "9223372036854775807"),
            ("1.000000000000000000000000000001Ki", "1024000000001n"),
            ("9223372036854775806.123456789", "9223372036854775806123456789n"),
            ("0e100", "0"),
            ("1e-100", "1e-9"),
        ] {
            assert_eq!(quantity(given).to_string(), shown, "{given}");
        }
    }

    #[test]
    fn other_texts_are_no_quantities() {
        for text in [
            "", " ", ".", "-", "five", "5 ", " 5", "5x", "5ki", "5K", "5e", "5e1.5", "1.2.3", "--5", "1_000",
            "5mi", "Ki",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_sum_is_shown_like_its_first_summand() {
        for (one, other, sum) in [
            ("1Gi", "1", "1073741825"),
            ("1Gi", "1Gi", "2Gi"),
            ("0", "1Gi", "1Gi"),
            ("1", "500m", "1500m"),
            ("2e3", "1k", "3e3"),
            ("9223372036854775807", "1", "9223372036854775807"),
        ] {
            assert_eq!((quantity(one) + quantity(other)).to_string(), sum, "{one} + {other}");
        }
        assert_eq!((quantity("1") - quantity("1500m")).to_string(), "-500m");
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same_amount(nanos in -LARGEST..=LARGEST, notation in 0_usize..3) {
            let notation = [Notation::Decimal, Notation::Binary, Notation::Exponent][notation];
            let shown = Quantity { nanos, notation };
            proptest::prop_assert_eq!(quantity(&shown.to_string()), shown);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.eEmkKMGTPinu]{0,60}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
