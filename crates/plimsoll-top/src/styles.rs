//! The styles of the display.

use ratatui::style::{Color, Modifier, Style};

/// Styles in the colours of the terminal, which suit its background, or without colours.
#[derive(Clone, Copy)]
pub(crate) struct Styles(bool);

impl Styles {
    pub(crate) const fn new(coloured: bool) -> Self {
        Self(coloured)
    }

    fn of(self, colour: Color) -> Style {
        match self.0 {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(crate) fn granted(self) -> Style {
        self.of(Color::Blue)
    }

    pub(crate) fn refused(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn waiting(self) -> Style {
        self.of(Color::Yellow)
    }

    pub(crate) fn shadow(self) -> Style {
        self.of(Color::Magenta)
    }

    pub(crate) fn good(self) -> Style {
        self.of(Color::Green)
    }

    /// The style of less important text.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}
