//! Pages as texts with placeholders for measured values.

/// A text in which `{{name}}` stands for a measured value. Values are passed in the order of the
/// slots, so a page that compiles fills them all.
pub(crate) struct Template<const SLOTS: usize> {
    text: &'static str,
    slots: [&'static str; SLOTS],
}

impl<const SLOTS: usize> Template<SLOTS> {
    /// Creates a template with these slots.
    pub const fn new(text: &'static str, slots: [&'static str; SLOTS]) -> Template<SLOTS> {
        Template { text, slots }
    }

    /// Returns the text with these values in its slots.
    pub fn fill(&self, values: [String; SLOTS]) -> String {
        let mut out = String::new();
        let mut rest = self.text;
        while let Some((before, behind)) = rest.split_once("{{") {
            out += before;
            let (name, behind) = behind.split_once("}}").unwrap_or((behind, ""));
            let slot = self.slots.iter().position(|slot| *slot == name);
            out += slot.map_or("", |slot| &values[slot]);
            rest = behind;
        }
        out + rest
    }

    /// Returns the faults: slots in the text that are not listed, and listed ones that are not in
    /// it.
    #[cfg(test)]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let parts = self.text.split("{{").skip(1);
        let names: Vec<&str> = parts
            .map(|part| part.split_once("}}").map_or(part, |part| part.0))
            .collect();
        for name in &names {
            if !self.slots.contains(name) {
                faults.push(format!("{name} is not listed"));
            }
        }
        for slot in self.slots {
            if !names.contains(&slot) {
                faults.push(format!("{slot} is not in the text"));
            }
        }
        faults
    }
}

/// Formats a row of a table.
pub(crate) fn row<Cell: AsRef<str>>(cells: impl IntoIterator<Item = Cell>) -> String {
    let mut out = String::from("|");
    for cell in cells {
        match cell.as_ref() {
            "" => out += " |",
            cell => out += &format!(" {cell} |"),
        }
    }
    out
}

/// Joins the rows of a table.
pub(crate) fn rows(rows: impl IntoIterator<Item = String>) -> String {
    rows.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_wherever_they_stand() {
        let template = Template::new("{{a}} of {{b}}, {{a}}\n", ["a", "b"]);
        assert_eq!(template.faults(), [""; 0]);
        let filled = template.fill(["1 {{b}}".into(), "2".into()]);
        assert_eq!(filled, "1 {{b}} of 2, 1 {{b}}\n");
    }

    #[test]
    fn what_is_not_listed_and_what_is_not_there_is_named() {
        let template = Template::new("{{a}} and {{b", ["a", "c"]);
        let faults = ["b is not listed", "c is not in the text"];
        assert_eq!(template.faults(), faults);
    }

    #[test]
    fn rows_are_cells_between_bars() {
        let table = rows([row(["a", ""]), row(["1", "2"])]);
        assert_eq!(table, "| a | |\n| 1 | 2 |");
    }
}
