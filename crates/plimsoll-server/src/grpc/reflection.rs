//! `grpc.reflection`: describes the services of the port and their messages.

use axum::Router;
use tonic_reflection::server::Builder;

use super::descriptors;

/// Serves both versions of the service, because most clients try the older one first.
pub(super) fn router() -> Router {
    let set = || Builder::configure().register_file_descriptor_set(descriptors::all());
    let mut router = Router::new();
    // The set is constant, and a test checks that it builds.
    if let Ok(service) = set().build_v1() {
        router = router.route_service("/grpc.reflection.v1.ServerReflection/{method}", service);
    }
    if let Ok(service) = set().build_v1alpha() {
        router = router.route_service(
            "/grpc.reflection.v1alpha.ServerReflection/{method}",
            service,
        );
    }
    router
}
