#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>

namespace ampd::server {

// Limits how much of the server one client can use: the size of messages and metadata, streams, pings, idle
// connections, threads and memory. `memory_limit_bytes`: limit of the whole server; 0: none.
void SetConnectionLimits(grpc::ServerBuilder* builder, int64_t memory_limit_bytes);

}  // namespace ampd::server
