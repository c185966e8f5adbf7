//! What systemd passes on, and what it wants to know. All of it does nothing where systemd has not started the process.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

/// Sockets that were opened for this process, by their names (`FileDescriptorName=` of the socket unit).
#[derive(Debug, Default)]
pub struct Sockets(Vec<(String, TcpListener)>);

impl Sockets {
    /// Those of the environment.
    ///
    /// # Errors
    ///
    /// If one of them cannot be used.
    #[cfg(unix)]
    pub fn of_environment() -> io::Result<Self> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').filter(|name| !name.is_empty());
        let mut passed = listenfd::ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            let Some(listener) = passed.take_tcp_listener(index)? else {
                continue;
            };
            listener.set_nonblocking(true)?;
            let name = names.next().unwrap_or_default().to_owned();
            sockets.push((name, listener));
        }
        Ok(Self(sockets))
    }

    /// Those of the environment: none.
    ///
    /// # Errors
    ///
    /// Never.
    #[cfg(not(unix))]
    pub fn of_environment() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// The one of this name.
    #[must_use]
    pub fn take(&mut self, name: &str) -> Option<TcpListener> {
        let index = self.0.iter().position(|(its, _)| its == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// The name of one that was not taken.
    #[must_use]
    pub fn left(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_str())
    }
}

/// It serves, or does again.
pub fn ready(limits: usize) {
    #[cfg(unix)]
    tell(&[
        sd_notify::NotifyState::Ready,
        sd_notify::NotifyState::Status(&format!("serving {limits} limits")),
    ]);
    #[cfg(not(unix))]
    let _ = limits;
}

/// The file is read again.
pub fn reloading() {
    #[cfg(unix)]
    if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
        tell(&[sd_notify::NotifyState::Reloading, now]);
    }
}

/// It ends what is under way, which takes so long at most.
pub fn stopping(last: Duration) {
    #[cfg(unix)]
    tell(&[
        sd_notify::NotifyState::Stopping,
        sd_notify::NotifyState::ExtendTimeoutUsec(
            u32::try_from((last + Duration::from_secs(5)).as_micros()).unwrap_or(u32::MAX),
        ),
    ]);
    #[cfg(not(unix))]
    let _ = last;
}

/// Says that it lives, as often as is wanted, for ever.
pub async fn watchdog() {
    #[cfg(unix)]
    if let Some(within) = sd_notify::watchdog_enabled() {
        let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            tell(&[sd_notify::NotifyState::Watchdog]);
        }
    }
    std::future::pending().await
}

#[cfg(unix)]
fn tell(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}
