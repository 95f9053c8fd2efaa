//! Paths: as parsed by syn, and in the arguments of macros and attributes, which syn leaves as
//! tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// It begins with `::`, that is, with the name of another crate.
    pub rooted: bool,
    pub segments: Vec<String>,
}

impl Path {
    /// The path without its generic arguments.
    pub fn of(path: &syn::Path) -> Self {
        Self {
            rooted: path.leading_colon.is_some(),
            segments: path.segments.iter().map(|s| word(&s.ident)).collect(),
        }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.segments.join("::"))
    }
}

/// Every path in the tokens, with its line. With `strings`, strings count too if they read as a
/// path of several segments, as in `#[serde(with = "crate::text")]`.
pub fn paths(tokens: TokenStream, strings: bool) -> Vec<(Path, usize)> {
    let mut found = Vec::new();
    walk(tokens, strings, &mut found);
    found
}

fn walk(tokens: TokenStream, strings: bool, found: &mut Vec<(Path, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                // `pub(super)` is not a dependency.
                let restricts = group.delimiter() == Delimiter::Parenthesis
                    && at > 0
                    && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "pub");
                if !restricts {
                    walk(group.stream(), strings, found);
                }
                at += 1;
            }
            TokenTree::Literal(literal) => {
                if strings && let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    let line = literal.span().start().line;
                    if text.value().contains("::")
                        && let Ok(path) = syn::parse_str::<syn::Path>(&text.value())
                    {
                        found.push((Path::of(&path), line));
                    }
                }
                at += 1;
            }
            TokenTree::Punct(_) => at += 1,
            TokenTree::Ident(first) => {
                let line = first.span().start().line;
                let mut segments = vec![word(first)];
                let begin = at;
                at += 1;
                while is_colons(&tokens, at)
                    && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                {
                    segments.push(word(next));
                    at += 3;
                }
                let before = begin.checked_sub(1).map(|before| &tokens[before]);
                let after =
                    |mark| matches!(before, Some(TokenTree::Punct(p)) if p.as_char() == mark);
                // A method or field, a lifetime, or a macro variable; but `$crate` is the crate.
                if after('.') && !is_range(&tokens, begin) || after('\'') {
                    continue;
                }
                if after('$') && segments[0] != "crate" {
                    continue;
                }
                let rooted = begin >= 2 && is_colons(&tokens, begin - 2);
                found.push((Path { rooted, segments }, line));
            }
        }
    }
}

/// The identifier without the prefix of a raw one.
pub fn word(ident: &proc_macro2::Ident) -> String {
    let word = ident.to_string();
    word.strip_prefix("r#").unwrap_or(&word).to_owned()
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

/// Whether it follows two dots: `0..limit`.
fn is_range(tokens: &[TokenTree], begin: usize) -> bool {
    begin >= 2
        && tokens[begin - 2..begin]
            .iter()
            .all(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == '.'))
}
