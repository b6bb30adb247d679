#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace ampd::agent {

// Makes a gRPC channel to the server, host:port. The channel detects a dead server and reconnects soon. Each channel
// has its own connection, so traffic on one does not delay another.
std::shared_ptr<grpc::Channel> MakeServerChannel(const std::string& server);

}  // namespace ampd::agent
