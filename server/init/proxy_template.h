#pragma once

namespace ampd::server {

// The configuration of HAProxy before a server, as docker/haproxy/haproxy.cfg has it.
extern const char kProxyTemplate[];

}  // namespace ampd::server
