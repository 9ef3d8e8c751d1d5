//! Which texts are valid patterns of keys in Accurate's configuration: those of Go's `path.Match`.
//!
//! `*` stands for any characters but `/`, `?` for one, `[a-z]` and `[^a-z]` for one of a class, and `\` takes the next character as
//! it is. There is no `**` and no `{a,b}`.

use std::iter::Peekable;
use std::str::Chars;

/// Checks the text of a pattern.
///
/// # Errors
/// What is wrong with it, where Go's `path.Match` answers `ErrBadPattern`.
pub fn validate_glob(pattern: &str) -> Result<(), String> {
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' if rest.next().is_none() => return Err("no character follows the last '\\'".to_owned()),
            '[' => class(&mut rest).ok_or(
                "a class of characters ([...]) is empty, incomplete, or has a '-' without both ends",
            )?,
            _ => {}
        }
    }
    Ok(())
}

/// Reads a class after its `[`: at least one character or range, then `]`.
fn class(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    rest.next_if_eq(&'^');
    loop {
        member(rest)?;
        if rest.next_if_eq(&'-').is_some() {
            member(rest)?;
        }
        if rest.next_if_eq(&']').is_some() {
            return Some(());
        }
    }
}

/// Reads one character of a class, and `\` before it.
fn member(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        character => Some(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of Go 1.26.
    #[test]
    fn malformed_patterns_are_those_of_go() {
        for (pattern, is_valid) in [
            ("", true),
            ("**", true),
            ("*kubernetes.io/*", true),
            ("a]", true),
            ("{a,b}", true),
            (r"\*", true),
            ("é[é-ü]", true),
            (r"[\]a]", true),
            (r"[\-]", true),
            ("[^^]", true),
            ("[a^]", true),
            ("[*", false),
            ("a*[", false),
            ("[]a]", false),
            ("[-]", false),
            ("[x-]", false),
            ("[-x]", false),
            ("[a-b-c]", false),
            ("[a-b-]", false),
            ("[", false),
            ("[^", false),
            ("[^bc", false),
            ("a[", false),
            ("[a", false),
            (r"\", false),
            (r"a\", false),
            (r"[\", false),
            (r"[a\", false),
            ("[a-", false),
            (r"[a-\", false),
            ("[]", false),
            ("[^]", false),
        ] {
            assert_eq!(validate_glob(pattern).is_ok(), is_valid, "{pattern:?}");
        }
    }

    /// All texts of up to six of the characters that have a meaning, and `a`: which of them Go 1.26 calls malformed, as their number
    /// and a hash (FNV-1a) over one byte for each text.
    #[test]
    fn every_short_text_is_judged_as_by_go() {
        const CHARACTERS: [char; 8] = ['a', '*', '?', '[', ']', '^', '-', '\\'];
        const GO: [(usize, u64); 7] = [
            (0, 0xaf63_bd4c_8601_b7df),
            (2, 0x9c19_1607_aaca_d115),
            (20, 0x2875_e2fa_f902_558d),
            (196, 0x4238_cca9_2f05_d9f5),
            (1791, 0x2bae_250b_68d7_4c0c),
            (15811, 0x7688_2463_1603_e6c4),
            (136_310, 0x9720_f680_9e0b_f435),
        ];
        let mut texts = vec![String::new()];
        for expected in GO {
            let judged = texts.iter().map(|text| validate_glob(text).is_err());
            let found = judged.fold((0, 0xcbf2_9ce4_8422_2325_u64), |(number, hash), is_bad| {
                (number + usize::from(is_bad), (hash ^ u64::from(is_bad)).wrapping_mul(0x0100_0000_01b3))
            });
            assert_eq!(found, expected, "of {} texts", texts.len());
            texts = texts.iter().flat_map(|text| CHARACTERS.map(|it| format!("{text}{it}"))).collect();
        }
    }
}
