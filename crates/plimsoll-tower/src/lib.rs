//! Limits for tower services: axum, hyper, tonic, clients.
