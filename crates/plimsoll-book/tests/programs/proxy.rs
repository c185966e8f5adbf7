//! `docs/howto/behind-a-proxy.md`, behind a real nginx.

use std::process::Command;

use crate::server::{Dir, Running, client, free_port, get, serve, status};

#[path = "../../examples/behind_nginx.rs"]
#[expect(
    dead_code,
    reason = "an example has a `main`, which is not called here"
)]
mod behind_nginx;

#[tokio::test]
async fn each_client_behind_nginx_has_its_own_limit() {
    let app = serve(behind_nginx::app()).await;
    let (port, dir) = (free_port().await, Dir::new("nginx"));
    let at = dir.0.display();
    // One process, so that none is left behind.
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log stderr; events {{}}
        http {{
            access_log off;
            client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;
            server {{
                listen 127.0.0.1:{port};
                # The tests are on this machine, which is trusted. So this stands for a client at another address: what nginx
                # appends for it.
                location / {{ proxy_pass http://{app}; proxy_set_header X-Forwarded-For \"$http_x_forwarded_for, 192.0.2.9\"; }}
                location /other {{ proxy_pass http://{app}/; proxy_set_header X-Forwarded-For \"$http_x_forwarded_for, 192.0.2.10\"; }}
            }}
        }}"
    );
    let file = dir.0.join("nginx.conf");
    std::fs::write(&file, config).expect("a file");
    let mut nginx = Command::new("nginx");
    let Some(nginx) = Running::start(nginx.arg("-c").arg(&file).arg("-p").arg(&dir.0)) else {
        return;
    };
    nginx.listens(port).await;

    let (client, proxy) = (client(), ([127, 0, 0, 1], port).into());
    let mut granted = 0;
    for forged in 0..100 {
        let forged = format!("203.0.113.{forged}");
        let request = get(&client, proxy, "/").header("x-forwarded-for", forged);
        granted += usize::from(status(request).await == 200);
    }
    // Ten at once, and what comes back meanwhile: whoever forges the field gains nothing.
    assert!((10..100).contains(&granted), "{granted} of 100");
    assert_eq!(status(get(&client, proxy, "/other")).await, 200);
}
