//! Label selectors in the syntax of Kubernetes: accepts exactly what the API server accepts.
//!
//! Three differences are intended: of two equalities on one key the last counts, as in HNC; a text with a NUL is refused, which
//! the API server treats as the end of the text; and a selector has at most [`LONGEST`] bytes and [`MOST`] requirements, each with
//! at most as many values, because it is evaluated for every namespace below. The parser reads a text once, and stops at the limit.

use std::collections::HashMap;

/// The most requirements of a selector, values of one requirement, and namespaces in `treeSelect`.
pub const MOST: usize = 256;

/// The most bytes of a selector.
pub const LONGEST: usize = 8 * 1024;

/// The most bytes of a text that a message repeats.
const SHOWN: usize = 256;

/// A text in a message: quoted, and cut if it is long.
pub(crate) fn shortened(text: &str) -> String {
    if text.len() <= SHOWN {
        return format!("{text:?}");
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{:?}… ({} bytes)", &text[..end], text.len())
}

/// Requirements on the labels of a destination; all must hold.
///
/// This is the text of the requirements, which is read at each evaluation: users decide how many selectors are in memory, so one
/// takes no more than its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Box<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Requirement<'a> {
    key: &'a str,
    demand: Demand<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand<'a> {
    Exists,
    DoesNotExist,
    Equals(&'a str),
    In(Values<'a>),
    NotIn(Values<'a>),
    GreaterThan(i64),
    LessThan(i64),
}

/// Values with commas between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Values<'a>(&'a str);

impl Values<'_> {
    fn contain(self, value: &str) -> bool {
        self.0.split(',').any(|it| it.trim_matches(is_blank) == value)
    }
}

impl Selector {
    /// Parses a selector; a blank text gives `None`.
    ///
    /// Of two equalities on one key the last counts, as in HNC; all other requirements must hold together.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.chars().all(is_blank) {
            return Ok(None);
        }
        let mut parser = Parser { tokens: Tokens(text), text };
        let mut requirements: Vec<&str> = Vec::new();
        let mut equalities: HashMap<&str, usize> = HashMap::new();
        for _ in 0..MOST {
            let begin = parser.tokens.0;
            let requirement = parser.requirement()?;
            let written = &begin[..begin.len() - parser.tokens.0.len()];
            let at = match requirement.demand {
                Demand::Equals(_) => *equalities.entry(requirement.key).or_insert(requirements.len()),
                _ => requirements.len(),
            };
            match requirements.get_mut(at) {
                Some(replaced) => *replaced = written,
                None => requirements.push(written),
            }
            match parser.next() {
                None if text.len() > LONGEST => {
                    return Err(format!(
                        "a selector has at most {LONGEST} bytes, and {} has more",
                        shortened(text)
                    ));
                }
                None => return Ok(Some(Self(requirements.join(",").into()))),
                Some(Token::Comma) => {}
                Some(other) => return Err(parser.unexpected(&other, "a comma or the end")),
            }
        }
        Err(format!("a selector has at most {MOST} requirements, and {} has more", shortened(text)))
    }

    /// Whether labels match; `label` looks one up.
    pub(crate) fn matches(&self, label: &dyn Fn(&str) -> Option<String>) -> bool {
        let mut parser = Parser { tokens: Tokens(&self.0), text: &self.0 };
        loop {
            // It was parsed before, so this is no error.
            let Ok(requirement) = parser.requirement() else { return false };
            if !requirement.demand.is_met_by(label(requirement.key).as_deref()) {
                return false;
            }
            if parser.next().is_none() {
                return true;
            }
        }
    }
}

impl Demand<'_> {
    fn is_met_by(self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Equals(wanted) => value == Some(wanted),
            Self::In(wanted) => value.is_some_and(|value| wanted.contain(value)),
            Self::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contain(value)),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < bound),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    /// A run of `=`, `!`, `<` and `>`.
    Sign(&'a str),
}

/// The white space between two words; other white space makes a word invalid.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// The rest of a text, token by token.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let is_sign = |c: char| matches!(c, '=' | '!' | '<' | '>');
        let rest = self.0.trim_start_matches(is_blank);
        let run = |ends: &dyn Fn(char) -> bool| rest.find(ends).unwrap_or(rest.len());
        let (token, length) = match rest.chars().next()? {
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            // A negation is a token of its own, so that `!a` and `a!=b` differ.
            '!' if !rest.starts_with("!=") => (Token::Sign("!"), 1),
            first if is_sign(first) => {
                let length = run(&|c| !is_sign(c));
                (Token::Sign(&rest[..length]), length)
            }
            _ => {
                let length = run(&|c| is_sign(c) || matches!(c, ',' | '(' | ')') || is_blank(c));
                (Token::Word(&rest[..length]), length)
            }
        };
        self.0 = &rest[length..];
        Some(token)
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    text: &'a str,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.tokens.next()
    }

    fn peek(&self) -> Option<Token<'a>> {
        Tokens(self.tokens.0).next()
    }

    fn requirement(&mut self) -> Result<Requirement<'a>, String> {
        if self.peek() == Some(Token::Sign("!")) {
            self.next();
            return Ok(Requirement { key: self.key()?, demand: Demand::DoesNotExist });
        }
        let key = self.key()?;
        let demand = match self.peek() {
            None | Some(Token::Comma) => return Ok(Requirement { key, demand: Demand::Exists }),
            Some(Token::Sign(sign)) => self.comparison(sign)?,
            Some(Token::Word(word @ ("in" | "notin"))) => {
                let is_in = word == "in";
                self.next();
                let values = self.list()?;
                if is_in { Demand::In(values) } else { Demand::NotIn(values) }
            }
            Some(other) => return Err(self.unexpected(&other, "=, ==, !=, in, notin, >, < or a comma")),
        };
        Ok(Requirement { key, demand })
    }

    fn comparison(&mut self, sign: &str) -> Result<Demand<'a>, String> {
        self.next();
        let value = match self.peek() {
            Some(Token::Word(word)) => word,
            None | Some(Token::Comma) => "",
            Some(other) => return Err(self.unexpected(&other, "a value")),
        };
        if !value.is_empty() {
            self.next();
        }
        // A number is a label value, so it has no sign.
        let number = || {
            let number = self.value(value)?.parse();
            number.map_err(|_| {
                format!("{value:?} after {sign:?} is no whole number in {}", shortened(self.text))
            })
        };
        match sign {
            "=" | "==" => Ok(Demand::Equals(self.value(value)?)),
            "!=" => Ok(Demand::NotIn(Values(self.value(value)?))),
            ">" => Ok(Demand::GreaterThan(number()?)),
            "<" => Ok(Demand::LessThan(number()?)),
            _ => Err(format!("{} is no operator in {}", shortened(sign), shortened(self.text))),
        }
    }

    /// Values in parentheses; between two commas, a missing value is the empty one.
    fn list(&mut self) -> Result<Values<'a>, String> {
        match self.next() {
            Some(Token::Open) => {}
            Some(other) => return Err(self.unexpected(&other, "an opening parenthesis")),
            None => {
                return Err(format!(
                    "values in parentheses are missing at the end of {}",
                    shortened(self.text)
                ));
            }
        }
        let begin = self.tokens.0;
        for _ in 0..MOST {
            let value = match self.peek() {
                Some(Token::Word(word)) => {
                    self.next();
                    word
                }
                _ => "",
            };
            self.value(value)?;
            let values = &begin[..begin.len() - self.tokens.0.len()];
            match self.next() {
                Some(Token::Comma) => {}
                Some(Token::Close) => return Ok(Values(values)),
                Some(other) => return Err(self.unexpected(&other, "a comma or a closing parenthesis")),
                None => return Err(format!("a closing parenthesis is missing in {}", shortened(self.text))),
            }
        }
        Err(format!(
            "a list in parentheses has at most {MOST} values, and one in {} has more",
            shortened(self.text)
        ))
    }

    fn key(&mut self) -> Result<&'a str, String> {
        match self.next() {
            Some(Token::Word(word)) if is_qualified_name(word) => Ok(word),
            Some(Token::Word(word)) => {
                Err(format!("{} is no key of a label in {}", shortened(word), shortened(self.text)))
            }
            Some(other) => Err(self.unexpected(&other, "the key of a label")),
            None => Err(format!("the key of a label is missing at the end of {}", shortened(self.text))),
        }
    }

    fn value(&self, word: &'a str) -> Result<&'a str, String> {
        if word.is_empty() || is_name(word) {
            Ok(word)
        } else {
            Err(format!("{} is no value of a label in {}", shortened(word), shortened(self.text)))
        }
    }

    fn unexpected(&self, token: &Token<'_>, expected: &str) -> String {
        let found = match token {
            Token::Word(text) | Token::Sign(text) => text,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
        };
        format!("{} stands where {expected} is expected in {}", shortened(found), shortened(self.text))
    }
}

/// A name, or a DNS subdomain, a slash and a name.
fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => {
            let is_part = |part: &str| {
                let ends = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
                let bytes = part.as_bytes();
                let inner = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-';
                ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
            };
            prefix.len() <= 253 && prefix.split('.').all(is_part) && is_name(name)
        }
    }
}

/// The common syntax of a value and of the name in a key.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    (1..=63).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}
