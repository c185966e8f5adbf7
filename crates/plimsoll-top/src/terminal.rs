//! Runs the display in a terminal.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::app::{App, Connection};
use crate::draw::render;
use crate::endpoint::Endpoint;
use crate::feed::{Feed, FeedEvent, View};

/// The time-out for a key, after which events of the server are read.
const LOOK: Duration = Duration::from_millis(50);

/// Whether to use colours: not if `NO_COLOR` is set, nor on a terminal of the type `dumb`.
#[must_use]
pub fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    !refused && !dumb
}

/// Shows a server until the user quits, and restores the terminal.
///
/// # Errors
///
/// If there is no terminal.
pub fn run(endpoint: Endpoint, coloured: bool) -> io::Result<()> {
    let app = App::new(endpoint.to_string());
    let feed = Feed::start(endpoint)?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(app, feed, coloured, &mut terminal);
    ratatui::restore();
    shown
}

fn show(
    mut app: App,
    mut feed: Feed,
    coloured: bool,
    terminal: &mut DefaultTerminal,
) -> io::Result<()> {
    let mut is_old = true;
    loop {
        if is_old {
            terminal.draw(|frame| render(&app, coloured, frame))?;
        }
        is_old = event::poll(LOOK)?;
        if is_old
            && let Event::Key(key) = event::read()?
            && !app.press(key)
        {
            return Ok(());
        }
        feed.set_view(View {
            search: app.search().to_owned(),
            open: app.open().map(str::to_owned),
            paused: *app.connection() == Connection::Paused,
        });
        while let Some(event) = feed.next(Duration::ZERO) {
            is_old = true;
            match event {
                FeedEvent::Tick(tick) => app.tick(*tick),
                FeedEvent::Keys(limit, keys) => app.keys(limit, keys),
                FeedEvent::Disconnected(why) => app.disconnect(why.to_string()),
            }
        }
    }
}
