//! Socket activation and notifications of systemd. They have no effect if systemd did not start the process.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

/// The sockets that systemd passed to this process, by name (`FileDescriptorName=` of the socket unit).
#[derive(Debug, Default)]
pub struct Sockets(Vec<(String, TcpListener)>);

impl Sockets {
    /// Takes the sockets from the environment.
    ///
    /// # Errors
    ///
    /// If a socket cannot be used.
    #[cfg(unix)]
    pub fn from_env() -> io::Result<Self> {
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

    /// Returns no sockets: there is no socket activation on this platform.
    ///
    /// # Errors
    ///
    /// Never.
    #[cfg(not(unix))]
    pub fn from_env() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Removes and returns the socket with this name.
    #[must_use]
    pub fn take(&mut self, name: &str) -> Option<TcpListener> {
        let index = self.0.iter().position(|(its, _)| its == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// The name of a socket that was not taken.
    #[must_use]
    pub fn unused(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_str())
    }
}

/// Notifies that the process is ready, after its start or a reload.
pub fn ready(limits: usize) {
    #[cfg(unix)]
    notify(&[
        sd_notify::NotifyState::Ready,
        sd_notify::NotifyState::Status(&format!("serving {limits} limits")),
    ]);
    #[cfg(not(unix))]
    let _ = limits;
}

/// Notifies that the process reloads its file.
pub fn reloading() {
    #[cfg(unix)]
    if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
        notify(&[sd_notify::NotifyState::Reloading, now]);
    }
}

/// Notifies that the process shuts down, which takes at most `last`.
pub fn stopping(last: Duration) {
    #[cfg(unix)]
    notify(&[
        sd_notify::NotifyState::Stopping,
        sd_notify::NotifyState::ExtendTimeoutUsec(
            u32::try_from((last + Duration::from_secs(5)).as_micros()).unwrap_or(u32::MAX),
        ),
    ]);
    #[cfg(not(unix))]
    let _ = last;
}

/// Sends watchdog notifications at the interval that systemd expects, forever.
pub async fn watchdog() {
    #[cfg(unix)]
    if let Some(within) = sd_notify::watchdog_enabled() {
        let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }
    std::future::pending().await
}

#[cfg(unix)]
fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}
