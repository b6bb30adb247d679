#include "server/init/proxy_template.h"

namespace ampd::server {

extern const char kProxyTemplate[] =
    R"cfg(# HAProxy before ampd-server: the proxy terminates TLS, takes the certificates of clients, and limits connections,
# headers and rates. It reaches the server over a Unix socket, as the server's own user.
#
#   AMPD_PROXY_BIND       address to listen on, such as *:7443
#   AMPD_PROXY_CERT       file with the proxy's certificate and its key (ampd-server init: tls/proxy.pem)
#   AMPD_PROXY_CLIENT_CA  file with the CA certificates for those of clients and workers (tls/ca.pem)
#   AMPD_PROXY_SOCKET     the server's --proxy-socket
#
# With these variables set, check: haproxy -c -f haproxy.cfg; start: haproxy -W -db -f haproxy.cfg. To read certificates
# again: kill -USR2 the process that was started.

global
    log stderr format raw local0 info
    maxconn 4000
    ssl-default-bind-options ssl-min-ver TLSv1.3
    tune.http.maxhdr 64
    tune.bufsize 16384
    tune.h2.max-concurrent-streams 1000

defaults
    mode http
    log global
    option dontlognull
    # Who called what: address, time, common name of the certificate, method, status, bytes, milliseconds, and how it
    # ended. A connection that fails is logged with its error instead of a call; "Success" then means broken HTTP/2.
    log-format "%ci:%cp [%t] %{+Q}[ssl_c_s_dn(cn)] %HM %HU %ST %B %Ta %ts"
    error-log-format "%ci:%cp [%t] %{+Q}[ssl_c_s_dn(cn)] %{+Q}[fc_err_str]"
    # Ends the streams of clients that are gone at once; otherwise those that wait in silence would live on for an hour.
    option abortonclose
    timeout connect 5s
    timeout http-request 5s
    timeout http-keep-alive 10m
    # For the TLS handshake, and for clients that do not take their answers. A client that waits for the server, and a
    # connection between two calls, are not cut off.
    timeout client 10s
    # Watches and workers' connections live as long as jobs. A log that is followed may be silent for long; ampctl then
    # connects again.
    timeout server 1h

frontend ampd
    bind "$AMPD_PROXY_BIND" ssl crt "$AMPD_PROXY_CERT" ca-file "$AMPD_PROXY_CLIENT_CA" verify optional alpn h2
    # One address (IPv6: one network of 64 bits) may have 500 connections, 300 new ones in 10 s, and 20,000 calls in 10 s.
    stick-table type ipv6 size 100k expire 1m store conn_cur,conn_rate(10s),http_req_rate(10s)
    tcp-request connection track-sc0 src,ipmask(32,64)
    tcp-request connection reject if { sc_conn_cur(0) gt 500 }
    tcp-request connection reject if { sc_conn_rate(0) gt 300 }
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20000 }
    # Streams that the server answers to everybody are for callers with certificates only.
    http-request deny if { path /grpc.health.v1.Health/Watch } !{ ssl_c_used }
    http-request deny if { path_beg /grpc.reflection. } !{ ssl_c_used }
    # What says who calls comes from here alone.
    http-request del-header x-ampd- -m beg
    http-request set-header x-ampd-client-cert %[ssl_c_der,base64] if { ssl_c_used }
    http-request set-header x-forwarded-for %[src]
    # For a call with more than 16 KiB of metadata, the server closes the connection, with the calls of others on it. HTTP/2
    # counts 32 bytes more for each of the 64 headers.
    http-request deny deny_status 413 if { req.hdrs,length gt 12288 } || { path,length gt 256 }
    default_backend server

backend server
    server ampd "unix@$AMPD_PROXY_SOCKET" proto h2
)cfg";

}  // namespace ampd::server
