//! `plimsoll serve`, over real sockets.

mod age;
mod browser;
mod clients;
mod envoy;
mod exact;
mod frames;
mod grpc;
mod hostile;
mod http;
mod http1;
mod leases;
mod many;
#[cfg(feature = "otlp")]
mod otlp;
mod packaging;
mod page;
mod quota;
#[cfg(feature = "redis")]
mod redis_server;
mod reload;
mod resp;
mod snapshots;
mod soak;
#[cfg(feature = "redis")]
mod store_metrics;
mod wire;

use std::net::SocketAddr;

use plimsoll_server::{Server, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server of its own, on ports that the system chose.
struct Running {
    http: SocketAddr,
    resp: SocketAddr,
    grpc: SocketAddr,
    admin: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Running {
    async fn start(file: Option<&str>, token: Option<&str>) -> Self {
        Self::changed(|settings| {
            settings.token = token.map(str::to_owned);
            settings.file = file.map(Into::into);
        })
        .await
    }

    async fn changed(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::with(settings).await
    }

    /// With these settings, on ports that the system chose.
    async fn with(settings: Settings) -> Self {
        Self::at(settings, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// The same, at this address for gRPC.
    async fn at(mut settings: Settings, grpc: SocketAddr) -> Self {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        (settings.http, settings.resp) = (any, any);
        (settings.grpc, settings.admin) = (Some(grpc), any);
        let server = Server::start(settings)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let [Some(http), Some(resp), Some(grpc), Some(admin)] = server.addresses() else {
            panic!("all ports are open")
        };
        let (stop, stopped) = oneshot::channel();
        let done = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self {
            http,
            resp,
            grpc,
            admin,
            stop,
            done,
        }
    }

    /// Ends it in order.
    async fn stop(self) {
        let _ = self.stop.send(());
        self.done.await.expect("it works");
    }
}
