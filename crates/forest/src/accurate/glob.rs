//! Globs of keys, with the meaning of Go's `path.Match` (section 5 of Accurate's contract).
//!
//! `*` stands for any characters except `/`, `?` for one of them, `[a-z]` and `[^a-z]` for one of a class, and `\` takes the
//! special meaning from the next character. A pattern matches a whole text. The library of globs that this crate uses elsewhere
//! also knows `**` and `{a,b}`, and its classes begin with `!`, so it would read some patterns differently.

use std::{fmt, mem};

const NOTHING_ESCAPED: &str = "no character follows the last '\\'";
const BAD_CLASS: &str = "a class of characters ([...]) is empty, incomplete, or has a '-' without both ends";

/// A pattern is not valid: where Go answers `ErrBadPattern`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern {
    /// Where it is in the list.
    pub index: usize,
    pattern: Box<str>,
    reason: &'static str,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for BadPattern {}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Glob(Vec<Chunk>);

/// A part of a pattern: perhaps a star, and then one token for each character.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Chunk {
    star: bool,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(char),
    /// Any character except `/`.
    Any,
    /// A character in one of these ranges, or in none of them. It may be `/`.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::Any => c != '/',
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

impl Chunk {
    /// What remains of `text` after the tokens.
    fn rest<'a>(&self, text: &'a str) -> Option<&'a str> {
        let mut rest = text.chars();
        let matches = self.tokens.iter().all(|token| rest.next().is_some_and(|c| token.matches(c)));
        matches.then_some(rest.as_str())
    }
}

impl Glob {
    /// Reads a pattern, or says what is wrong with it.
    fn parse(pattern: &str) -> Result<Self, &'static str> {
        let mut chunks = Vec::new();
        let mut last = Chunk::default();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '*' if last.tokens.is_empty() => last.star = true,
                '*' => chunks.push(mem::replace(&mut last, Chunk { star: true, tokens: Vec::new() })),
                '?' => last.tokens.push(Token::Any),
                '\\' => last.tokens.push(Token::Literal(rest.next().ok_or(NOTHING_ESCAPED)?)),
                '[' => last.tokens.push(class(&mut rest).ok_or(BAD_CLASS)?),
                c => last.tokens.push(Token::Literal(c)),
            }
        }
        chunks.push(last);
        Ok(Self(chunks))
    }

    /// As in Go, a star takes the fewest characters with which the tokens after it match, and this is not revised when a later
    /// part does not match.
    fn matches(&self, text: &str) -> bool {
        let mut text = text;
        for (at, chunk) in self.0.iter().enumerate() {
            let is_last = at + 1 == self.0.len();
            if chunk.star && chunk.tokens.is_empty() {
                return !text.contains('/');
            }
            let fits = |start: usize| {
                let rest = chunk.rest(text.get(start..)?)?;
                (!is_last || rest.is_empty()).then_some(rest)
            };
            let starts = text.char_indices().map(|(at, c)| (at, c != '/')).chain([(text.len(), true)]);
            let mut found = None;
            for (start, may_skip) in starts {
                found = fits(start);
                if found.is_some() || !chunk.star || !may_skip {
                    break;
                }
            }
            let Some(rest) = found else { return false };
            text = rest;
        }
        text.is_empty()
    }
}

/// The rest of a class after its `[`.
fn class(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let negated = rest.as_str().starts_with('^');
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.as_str().starts_with(']') {
            rest.next();
            return Some(Token::Class { negated, ranges });
        }
        let first = member(rest)?;
        let mut last = first;
        if rest.as_str().starts_with('-') {
            rest.next();
            last = member(rest)?;
        }
        ranges.push((first, last));
    }
}

/// One end of a range in a class.
fn member(rest: &mut std::str::Chars<'_>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        c => Some(c),
    }
    .filter(|_| !rest.as_str().is_empty())
}

/// A list of patterns for keys. A key matches if one of them matches all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Glob>);

impl Keys {
    /// Parses the patterns.
    ///
    /// # Errors
    /// The first invalid pattern.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, BadPattern> {
        let parse = |(index, pattern): (usize, S)| {
            let pattern = pattern.as_ref();
            Glob::parse(pattern).map_err(|reason| BadPattern { index, pattern: pattern.into(), reason })
        };
        patterns.into_iter().enumerate().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one of the patterns matches the whole key.
    pub fn matches(&self, key: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(key))
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, text, and what Go answers; `None` is an error.
    const CASES: [(&str, &str, Option<bool>); 62] = [
        ("abc", "abc", Some(true)),
        ("*", "abc", Some(true)),
        ("*c", "abc", Some(true)),
        ("a*", "a", Some(true)),
        ("a*", "abc", Some(true)),
        ("a*", "ab/c", Some(false)),
        ("a*/b", "abc/b", Some(true)),
        ("a*/b", "a/c/b", Some(false)),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", Some(true)),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/f", Some(true)),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", Some(false)),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", Some(false)),
        ("a*b?c*x", "abxbbxdbxebxczzx", Some(true)),
        ("a*b?c*x", "abxbbxdbxebxczzy", Some(false)),
        ("ab[c]", "abc", Some(true)),
        ("ab[b-d]", "abc", Some(true)),
        ("ab[e-g]", "abc", Some(false)),
        ("ab[^c]", "abc", Some(false)),
        ("ab[^b-d]", "abc", Some(false)),
        ("ab[^e-g]", "abc", Some(true)),
        ("a\\*b", "a*b", Some(true)),
        ("a\\*b", "ab", Some(false)),
        ("a?b", "a☺b", Some(true)),
        ("a[^a]b", "a☺b", Some(true)),
        ("a???b", "a☺b", Some(false)),
        ("a[^a][^a][^a]b", "a☺b", Some(false)),
        ("[a-ζ]*", "α", Some(true)),
        ("*[a-ζ]", "A", Some(false)),
        ("a?b", "a/b", Some(false)),
        ("a*b", "a/b", Some(false)),
        ("[\\]a]", "]", Some(true)),
        ("[\\-]", "-", Some(true)),
        ("[x\\-]", "x", Some(true)),
        ("[x\\-]", "-", Some(true)),
        ("[x\\-]", "z", Some(false)),
        ("[\\-x]", "x", Some(true)),
        ("[\\-x]", "-", Some(true)),
        ("[\\-x]", "a", Some(false)),
        ("[]a]", "]", None),
        ("[-]", "-", None),
        ("[x-]", "x", None),
        ("[x-]", "-", None),
        ("[x-]", "z", None),
        ("[-x]", "x", None),
        ("[-x]", "-", None),
        ("[-x]", "a", None),
        ("\\", "a", None),
        ("[a-b-c]", "a", None),
        ("[", "a", None),
        ("[^", "a", None),
        ("[^bc", "a", None),
        ("a[", "a", None),
        ("a[", "ab", None),
        ("a[", "x", None),
        ("a/b[", "x", None),
        ("*x", "xxx", Some(true)),
        // Beside Go's own cases: what the contract says of keys, and what other dialects of globs read differently.
        ("*kubernetes.io/*", "app.kubernetes.io/name", Some(true)),
        ("*", "a/b", Some(false)),
        ("**", "a/b", Some(false)),
        ("{a,b}", "a", Some(false)),
        ("[!a]", "!", Some(true)),
        ("", "", Some(true)),
    ];

    #[test]
    fn globs_mean_what_they_mean_in_go() {
        for (pattern, text, wanted) in CASES {
            let found = Keys::new([pattern]).map(|keys| keys.matches(text)).ok();
            assert_eq!(found, wanted, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn one_pattern_of_a_list_is_enough_and_the_first_bad_one_is_named() {
        let keys = Keys::new(["team", "*.example.com/*"]).unwrap();
        assert!(keys.matches("team") && keys.matches("a.example.com/b") && !keys.matches("teams"));
        assert!(Keys::new([""; 0]).unwrap().is_empty() && !keys.is_empty());
        let error = |patterns: [&str; 3]| {
            let bad = Keys::new(patterns).unwrap_err();
            format!("{}: {bad}", bad.index)
        };
        assert_eq!(
            error(["a", "[", "\\"]),
            "1: \"[\": a class of characters ([...]) is empty, incomplete, or has a '-' without both ends"
        );
        assert_eq!(error(["a", "\\", "["]), "1: \"\\\\\": no character follows the last '\\'");
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
            let judged = texts.iter().map(|text| Keys::new([text]).is_err());
            let found = judged.fold((0, 0xcbf2_9ce4_8422_2325_u64), |(number, hash), is_bad| {
                (number + usize::from(is_bad), (hash ^ u64::from(is_bad)).wrapping_mul(0x0100_0000_01b3))
            });
            assert_eq!(found, expected, "of {} texts", texts.len());
            texts = texts.iter().flat_map(|text| CHARACTERS.map(|it| format!("{text}{it}"))).collect();
        }
    }
}
