//! Envoy's rate-limit service, asked as Envoy asks it, and as it cannot ask.

mod bounds;
mod compat;
mod native;
mod reference;
mod reloading;
#[cfg(feature = "redis")]
mod shared;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_server::{EnvoySettings, Settings};
use prost::Message;
use tonic::Status;

use crate::Running;
use crate::grpc::Client;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<Override>,
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Override {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) unit_multiplier: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(int32, tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) headers: Vec<Entry>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) raw_body: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    pub(crate) metadata: Option<prost_types::Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) unit_multiplier: Option<u32>,
}

pub(crate) const OK: i32 = 1;
pub(crate) const OVER: i32 = 2;
pub(crate) const DAY: i32 = 4;

pub(crate) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// `a=b,c=d`.
pub(crate) fn descriptor(text: &str) -> Descriptor {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let entry = |part: &str| {
        let (key, value) = part.split_once('=').expect("a key and a value");
        Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    Descriptor {
        entries: parts.map(entry).collect(),
        ..Descriptor::default()
    }
}

impl Descriptor {
    pub(crate) fn hits(mut self, hits: u64) -> Self {
        self.hits_addend = Some(hits);
        self
    }

    pub(crate) fn negative(mut self) -> Self {
        self.is_negative_hits = true;
        self
    }

    pub(crate) fn own(mut self, requests_per_unit: u32, unit: i32, times: Option<u32>) -> Self {
        self.limit = Some(Override {
            requests_per_unit,
            unit,
            unit_multiplier: times,
        });
        self
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|header| header.key == name)
            .map(|header| header.value.as_str())
    }

    /// The codes of all descriptors.
    pub(crate) fn codes(&self) -> Vec<i32> {
        self.statuses.iter().map(|status| status.code).collect()
    }

    pub(crate) fn remaining(&self) -> Vec<u32> {
        let statuses = self.statuses.iter();
        statuses.map(|status| status.limit_remaining).collect()
    }

    /// What stands at this path of the metadata, as text.
    pub(crate) fn said(&self, path: &[&str]) -> Option<String> {
        use prost_types::value::Kind;
        let mut map = self.metadata.as_ref()?;
        let (last, above) = path.split_last()?;
        for name in above {
            match map.fields.get(*name)?.kind.as_ref()? {
                Kind::StructValue(below) => map = below,
                _ => return None,
            }
        }
        match map.fields.get(*last)?.kind.as_ref()? {
            Kind::StringValue(text) => Some(text.clone()),
            Kind::NumberValue(number) => Some(number.to_string()),
            other => Some(format!("{other:?}")),
        }
    }
}

/// A directory of its own, gone with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plimsoll-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        let dir = Self(path);
        for (name, text) in files {
            dir.write(name, text);
        }
        dir
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with a configuration of the reference server, and a client of it.
pub(crate) struct Served {
    pub(crate) server: Running,
    pub(crate) client: Client,
    pub(crate) dir: Dir,
}

impl Served {
    pub(crate) async fn new(text: &str) -> Self {
        Self::with(&[("config.yaml", text)], |_| {}).await
    }

    pub(crate) async fn with(files: &[(&str, &str)], set: impl FnOnce(&mut EnvoySettings)) -> Self {
        let dir = Dir::new(files);
        let mut settings = Settings::default();
        settings.envoy.config = vec![dir.0.clone()];
        set(&mut settings.envoy);
        let server = Running::with(settings).await;
        Self {
            client: Client::new(&server).await,
            server,
            dir,
        }
    }

    pub(crate) async fn ask(&mut self, descriptors: Vec<Descriptor>) -> Answer {
        self.try_ask("d", descriptors, 0).await.expect("an answer")
    }

    pub(crate) async fn try_ask(
        &mut self,
        domain: &str,
        descriptors: Vec<Descriptor>,
        hits_addend: u32,
    ) -> Result<Answer, Status> {
        let request = Request {
            domain: domain.to_owned(),
            descriptors,
            hits_addend,
        };
        self.client.call(METHOD, request).await
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}
