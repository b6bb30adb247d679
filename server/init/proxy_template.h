#pragma once

namespace ampd::server {

// The configuration for a HAProxy in front of a server, with the same content as docker/haproxy/haproxy.cfg.
extern const char kProxyTemplate[];

}  // namespace ampd::server
