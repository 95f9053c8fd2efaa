//! Builds the text of a cue: escaped, with tags properly closed.

/// Styles that all three formats have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Italic,
    Bold,
    Underlined,
}

impl Look {
    const ALL: [Look; 3] = [Look::Italic, Look::Bold, Look::Underlined];

    /// Returns the style for the name of a tag, in any case.
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

/// The text of a cue being built.
///
/// Tags are written only directly before and after a character to which they apply, so they are
/// nested, closed and not empty, whatever the file contains. Blanks are written only between
/// characters, so there are no empty lines.
#[derive(Default)]
pub struct Markup {
    text: String,
    /// Indexed by [`Look`].
    wanted: [bool; 3],
    /// The outermost tag comes first.
    open: Vec<Look>,
    /// Blanks after the last character: spaces, or one line feed.
    blanks: String,
    /// Whether there is any visible character.
    seen: bool,
    /// The cue's position.
    settings: &'static str,
}

impl Markup {
    /// Sets or clears a style for the following text.
    pub fn set(&mut self, look: Look, on: bool) {
        self.wanted[look as usize] = on;
    }

    /// Clears all styles for the following text.
    pub fn plain(&mut self) {
        self.wanted = [false; 3];
    }

    /// Sets the cue's position as WebVTT cue settings. The first position counts, as in ASS.
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
            // The end-of-file character of DOS (a control character), and byte order marks inside
            // joined files.
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

    /// Closes the tags that are no longer wanted, and those inside them.
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

    /// Returns the settings and text of the cue. The text is empty if nothing is visible.
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
