#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "base/grpc/server_connection.h"

namespace ampd {

// Makes a channel to the server, on which every call carries the connection's token and traceparent. REQUIRES: the
// connection comes from ConnectionTo, or its address is local.
std::shared_ptr<grpc::Channel> OpenChannel(const ServerConnection& connection, const grpc::ChannelArguments& arguments);

}  // namespace ampd
