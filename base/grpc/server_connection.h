#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ampd {

// How a client or a worker reaches a server of ampd.
struct ServerConnection {
  std::string address;  // HOST:PORT, or unix:/PATH of the server's socket.
  std::string token;    // Goes with every call, as `authorization: Bearer TOKEN`; empty: none.
};

// Whether the address is a Unix socket or of this host's loopback, so that nobody else can read what is sent there.
bool IsLocalAddress(const std::string& address);

// INVALID_ARGUMENT if the token is not one word of printable ASCII (BAD_TOKEN), or if it would travel to another host
// in the clear (TOKEN_IN_THE_CLEAR).
absl::Status CheckConnection(const ServerConnection& connection);

// Makes a channel to the server. Every call over it carries the token. REQUIRES: CheckConnection returned OK.
std::shared_ptr<grpc::Channel> OpenChannel(const ServerConnection& connection, const grpc::ChannelArguments& arguments);

// Returns the first line of a file, which is the token. INVALID_ARGUMENT (BAD_TOKEN_FILE) if the file cannot be read or
// its first line is empty.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Returns the token of a process: that of the file `path` if it is not empty, otherwise that of the environment
// variable AMPD_TOKEN, otherwise none. Errors are those of ReadTokenFile.
absl::StatusOr<std::string> TokenFromFileOrEnvironment(const std::string& path);

}  // namespace ampd
