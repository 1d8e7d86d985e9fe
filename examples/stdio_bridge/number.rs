use serde_json::value::RawValue;

use crate::text;

/// A number by its value, to all its digits: `7`, `7.0` and `70e-1` are equal.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Number {
    is_negative: bool,
    /// Without zeros at either end; none of zero.
    digits: String,
    exponent: i64,
}

impl Number {
    /// A JSON number.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self { is_negative: false, digits: String::new(), exponent: 0 });
        }
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        let exponent = exponent.checked_add(zeros)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Some(Self { is_negative, digits: significant.to_owned(), exponent })
    }

    /// One that the bridge has given out, as an id or as a progress token: a number, or a string that spells it.
    pub(crate) fn given_out(raw: &RawValue) -> Option<u64> {
        let number = match text::lossy(raw) {
            Some(text) => Self::read(text.trim()),
            None => Self::read(raw.get()),
        };
        number?.whole()
    }

    /// The value of one that is not negative and has no fraction.
    pub(crate) fn whole(&self) -> Option<u64> {
        const MOST_DIGITS: u32 = 20;

        if self.digits.is_empty() {
            return Some(0);
        }
        let zeros = u32::try_from(self.exponent).ok().filter(|zeros| *zeros < MOST_DIGITS && !self.is_negative)?;
        self.digits.parse::<u64>().ok()?.checked_mul(10_u64.pow(zeros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_equal_as_numbers_to_all_their_digits() {
        for (json, number) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("7.000", Some(7)),
            ("7e0", Some(7)),
            ("7E+0", Some(7)),
            ("70e-1", Some(7)),
            ("0.7e1", Some(7)),
            ("0.007e3", Some(7)),
            (r#""7""#, Some(7)),
            (r#""7.0""#, Some(7)),
            (r#"" 7 ""#, Some(7)),
            (r#""\u0037""#, Some(7)),
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("0e999", Some(0)),
            ("700", Some(700)),
            ("7e2", Some(700)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1844674407370955161.5e1", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("7.5", None),
            ("7.00000000000000000000000000001", None),
            ("-7", None),
            ("1e20", None),
            ("1e99999999999999999999", None),
            ("null", None),
            ("true", None),
            ("[7]", None),
            (r#""a""#, None),
            (r#""""#, None),
            (r#""\ud83d""#, None),
        ] {
            assert_eq!(Number::given_out(&RawValue::from_string(json.to_owned()).unwrap()), number, "{json}");
        }
    }
}
