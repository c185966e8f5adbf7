#!/bin/bash
# The gateway beside nginx before the same server: each proxy has one core, the server and the load have the other.
# Prints requests a second, the 99th percentile and the processor time that the proxy took for a request, interleaved, and the ratios of
# the medians. Of these only the processor time means something where others use the machine.
#
#   benches/gateway.sh [ROUNDS] [SECONDS]      needs nginx and wrk, two cores, and nobody else on them
#   GATEWAY=path benches/gateway.sh            a gateway that is built already: a program that takes a file
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-5}
if [ -z "${GATEWAY:-}" ]; then
    cargo build --release --quiet -p plimsoll-gateway --example gateway
    GATEWAY=${CARGO_TARGET_DIR:-target}/release/examples/gateway
fi
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

cat > "$dir/server.conf" <<CONF
worker_processes 1; daemon off; pid $dir/server.pid; error_log $dir/server.log;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; client_body_temp_path $dir/a; proxy_temp_path $dir/b; fastcgi_temp_path $dir/c; uwsgi_temp_path $dir/d; scgi_temp_path $dir/e;
  server { listen 127.0.0.1:18100 backlog=4096; location / { return 200 "hello, world\n"; } } }
CONF
cat > "$dir/nginx.conf" <<CONF
worker_processes 1; daemon off; pid $dir/nginx.pid; error_log $dir/nginx.log;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; client_body_temp_path $dir/f; proxy_temp_path $dir/g; fastcgi_temp_path $dir/h; uwsgi_temp_path $dir/i; scgi_temp_path $dir/j;
  limit_req_zone \$binary_remote_addr zone=rate:10m rate=1000000r/s; limit_conn_zone \$server_name zone=slots:10m;
  upstream app { server 127.0.0.1:18100; keepalive 256; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:18101 backlog=4096; server_name all; location / {
    limit_req zone=rate burst=1000 nodelay; limit_conn slots 1000;
    proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host \$host;
    proxy_set_header X-Forwarded-For \$remote_addr; proxy_set_header X-Forwarded-Proto \$scheme; } } }
CONF
cat > "$dir/plimsoll.yaml" <<CONF
gateway:
  listen: 127.0.0.1:18102
  workers: 1
  upstreams: { app: { to: "http://127.0.0.1:18100", keep: 256 } }
limits:
  rate: { rate: 1M/s, burst: 1000, key: client }
  slots: { concurrency: 1000 }
routes: [{ match: /**, limits: [rate, slots] }]
CONF
taskset -c 1 nginx -c "$dir/server.conf" & pids+=($!)
taskset -c 0 nginx -c "$dir/nginx.conf" & pids+=($!)
taskset -c 0 "$GATEWAY" "$dir/plimsoll.yaml" & pids+=($!)
for port in 18100 18101 18102; do
    for _ in $(seq 100); do curl -fs -o "$dir/body" "http://127.0.0.1:$port/" && break; sleep 0.1; done
    grep -q "hello, world" "$dir/body" || { echo "nothing answers on $port" >&2; exit 1; }
done

# The processor time of a process and its children, in ticks of 10 ms.
cpu() { cat $(for pid in $1 $(pgrep -P "$1"); do echo "/proc/$pid/stat"; done) | awk '{ sub(/.*\) /, ""); sum += $12 + $13 } END { print sum }'; }
# Requests a second, the 99th percentile in microseconds, and processor time for a request in microseconds.
load() {
    local before=$(cpu "$3")
    taskset -c 1 wrk -t1 -c"$2" -d"${seconds}s" --latency "http://127.0.0.1:$1/" > "$dir/wrk"
    grep -q "Non-2xx" "$dir/wrk" && { cat "$dir/wrk" >&2; exit 1; }
    awk '/99%/ { v = $2 + 0; if ($2 ~ /ms$/) v *= 1000; else if ($2 !~ /us$/) v *= 1000000; p = v } /requests in/ { n = $1 } /Requests\/sec/ { r = $2 } END { print r, p, t * 10000 / n }' t=$(($(cpu "$3") - before)) "$dir/wrk"
}
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
printf '%-12s %-8s %12s %12s %14s\n' proxy clients requests/s "p99 µs" "µs of its core"
for clients in 16 64; do
    for round in $(seq "$rounds"); do
        for proxy in nginx:18101:${pids[1]} plimsoll:18102:${pids[2]}; do
            IFS=: read -r name port pid <<< "$proxy"
            read -r rate p99 time < <(load "$port" "$clients" "$pid")
            printf '%-12s %-8s %12s %12s %14s\n' "$name" "$clients" "$rate" "$p99" "$time"
            for what in rate p99 time; do echo "${!what}" >> "$dir/$name.$clients.$what"; done
        done
    done
    for what in rate p99 time; do
        ours=$(median < "$dir/plimsoll.$clients.$what") theirs=$(median < "$dir/nginx.$clients.$what")
        awk -v c="$clients" -v w="$what" -v a="$ours" -v b="$theirs" 'BEGIN { printf "%s clients, %s: %.2f of nginx\n", c, w, a / b }'
    done
done
