//! Limits by plan: the plan of an API key is read from a database, and may change while the program runs.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::{Router, routing::get};
use plimsoll_engine::{Claims, ConfigError, Limits};
use tokio::net::TcpListener;

const LIMITS: &str = "
limits:
  per_key:
    rate: 10/min
    key: claim:account
    tiers: { by: claim:plan, pro: 100/min, internal: unlimited }
routes:
  - { match: /**, limits: [per_key] }
";

/// Stands for a pool of connections to a database.
#[derive(Clone, Default)]
pub(crate) struct Accounts(Arc<RwLock<HashMap<String, (String, String)>>>);

impl Accounts {
    pub(crate) fn set(&self, api_key: &str, account: &str, plan: &str) {
        let mut rows = self.0.write().expect("no writer panics");
        rows.insert(api_key.to_owned(), (account.to_owned(), plan.to_owned()));
    }

    /// `SELECT account, plan FROM api_keys WHERE key = $1`
    async fn find(&self, api_key: &str) -> Option<(String, String)> {
        self.0
            .read()
            .expect("no writer panics")
            .get(api_key)
            .cloned()
    }
}

/// Before the limits: who is it, and on which plan?
async fn identify(State(accounts): State<Accounts>, mut request: Request, next: Next) -> Response {
    let api_key = request
        .headers()
        .get("x-api-key")
        .and_then(|it| it.to_str().ok());
    if let Some((account, plan)) = accounts.find(api_key.unwrap_or_default()).await {
        let claims = Claims::from([("account", account), ("plan", plan)]);
        request.extensions_mut().insert(claims);
    }
    next.run(request).await
}

pub(crate) fn app(accounts: Accounts) -> Result<Router, ConfigError> {
    let limits = Limits::from_yaml(LIMITS)?;
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limits.layer())
        // Layers that are added later come first.
        .layer(from_fn_with_state(accounts, identify)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let accounts = Accounts::default();
    accounts.set("key-of-anna", "anna", "pro");
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app(accounts)?).await?;
    Ok(())
}
