//! `grpc.reflection`: which services there are, and what their messages look like.

use axum::Router;
use tonic_reflection::server::Builder;

use super::descriptors;

/// Both versions: most clients ask for the older one first.
pub(super) fn router() -> Router {
    let set = || Builder::configure().register_file_descriptor_set(descriptors::all());
    let mut router = Router::new();
    // A set that does not fit together is a mistake of this program, which a test would have found.
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
