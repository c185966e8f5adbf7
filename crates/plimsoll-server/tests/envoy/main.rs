//! A real Envoy in front of a small service, which asks `plimsoll serve`. `PLIMSOLL_ENVOY` says where its program is; without it
//! everything here is skipped, and says so.

mod proxy;
mod rls;
