#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "base/grpc/server_connection.h"

namespace ampd::agent {

// Makes a gRPC channel to the server. The channel detects a dead server and reconnects soon. Each channel
// has its own connection, so traffic on one does not delay another.
std::shared_ptr<grpc::Channel> MakeServerChannel(const ServerConnection& server);

}  // namespace ampd::agent
