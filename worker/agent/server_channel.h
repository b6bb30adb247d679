#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace ampd::agent {

// A channel to the server, host:port, that finds a dead peer and comes back soon. Each has a connection of its own:
// what goes through one does not delay another.
std::shared_ptr<grpc::Channel> MakeServerChannel(const std::string& server);

}  // namespace ampd::agent
