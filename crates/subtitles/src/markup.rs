//! The text of a cue as it is made: escaped, with tags that are closed where they should be.

/// What text can look like in all three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Italic,
    Bold,
    Underlined,
}

impl Look {
    const ALL: [Look; 3] = [Look::Italic, Look::Bold, Look::Underlined];

    /// By the name of its tag, in any case.
    pub fn of_tag(name: &str) -> Option<Look> {
        Look::ALL
            .into_iter()
            .find(|look| name.eq_ignore_ascii_case(look.tag()))
    }

    fn tag(self) -> &'static str {
        match self {
            Look::Italic => "i",
            Look::Bold => "b",
            Look::Underlined => "u",
        }
    }
}

/// The text of a cue as it is made.
///
/// Tags are written only before and after a character that shows them, so that they are nested, closed, and not
/// empty, whatever the file has. Blanks are written only between characters, so that there are no empty lines.
#[derive(Default)]
pub struct Markup {
    text: String,
    /// By [`Look`].
    wanted: [bool; 3],
    /// The outermost first.
    open: Vec<Look>,
    /// Blanks after the last character: spaces, or one line's end.
    blanks: String,
    /// Whether anything can be seen.
    seen: bool,
    /// Where it is shown.
    settings: &'static str,
}

impl Markup {
    /// From here on the text looks so, or no longer.
    pub fn set(&mut self, look: Look, on: bool) {
        self.wanted[look as usize] = on;
    }

    /// From here on the text looks as it is.
    pub fn plain(&mut self) {
        self.wanted = [false; 3];
    }

    /// Where the cue is shown, as WebVTT cue settings; the first place is kept, as in ASS.
    pub fn place(&mut self, settings: &'static str) {
        if self.settings.is_empty() {
            self.settings = settings;
        }
    }

    /// Adds a character.
    pub fn push(&mut self, char: char) {
        match char {
            '\n' => {
                self.blanks.clear();
                if !self.text.is_empty() {
                    self.blanks.push('\n');
                }
            }
            ' ' | '\t' => {
                if !self.text.is_empty() && self.blanks != "\n" {
                    self.blanks.push(char);
                }
            }
            // The end of a file of DOS, and marks in the middle of a file that was made of several.
            '\u{feff}' => {}
            _ if char.is_control() => {}
            _ => self.visible(char),
        }
    }

    fn visible(&mut self, char: char) {
        self.close();
        self.text.push_str(&self.blanks);
        self.blanks.clear();
        for look in Look::ALL {
            if self.wanted[look as usize] && !self.open.contains(&look) {
                self.open.push(look);
                self.tag("<", look);
            }
        }
        self.seen |= !char.is_whitespace();
        match char {
            '&' => self.text.push_str("&amp;"),
            '<' => self.text.push_str("&lt;"),
            '>' => self.text.push_str("&gt;"),
            _ => self.text.push(char),
        }
    }

    /// Closes the tags that are no longer wanted, and those within them.
    fn close(&mut self) {
        let wanted = |look: &Look| self.wanted[*look as usize];
        let keep = self.open.iter().take_while(|look| wanted(look)).count();
        while self.open.len() > keep
            && let Some(look) = self.open.pop()
        {
            self.tag("</", look);
        }
    }

    fn tag(&mut self, begin: &str, look: Look) {
        self.text.push_str(begin);
        self.text.push_str(look.tag());
        self.text.push('>');
    }

    /// The settings and the text of the cue; empty if nothing can be seen.
    pub fn finish(mut self) -> (String, String) {
        self.plain();
        self.close();
        if !self.seen {
            self.text.clear();
        }
        (self.settings.to_owned(), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(markup: &mut Markup, text: &str) {
        text.chars().for_each(|char| markup.push(char));
    }

    #[test]
    fn tags_are_nested_and_closed() {
        let mut markup = Markup::default();
        markup.set(Look::Italic, true);
        add(&mut markup, "a ");
        markup.set(Look::Bold, true);
        add(&mut markup, "b");
        markup.set(Look::Italic, false);
        add(&mut markup, " c\n");
        assert_eq!(markup.finish().1, "<i>a <b>b</b></i> <b>c</b>");
    }

    #[test]
    fn there_are_no_empty_tags_and_lines() {
        let mut markup = Markup::default();
        add(&mut markup, " \n\n a \n");
        markup.set(Look::Italic, true);
        add(&mut markup, " \n ");
        markup.set(Look::Italic, false);
        add(&mut markup, "\tb\u{1a}\n\n");
        assert_eq!(markup.finish().1, "a\nb");
    }

    #[test]
    fn spaces_that_do_not_break_are_no_text() {
        let mut markup = Markup::default();
        markup.set(Look::Italic, true);
        add(&mut markup, "\u{a0}\n\u{a0}");
        assert_eq!(markup.finish().1, "");
    }

    #[test]
    fn text_is_escaped() {
        let mut markup = Markup::default();
        add(&mut markup, "a<b --> &c");
        assert_eq!(markup.finish().1, "a&lt;b --&gt; &amp;c");
    }
}
