#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "base/tls/tls_files.h"

namespace ampd {

// Both kinds of credentials are for TLS 1.2 or later. The files are read again once a second, so certificates can be
// replaced while connections live. New connections use the new ones after two seconds at most; files that do not fit
// together are ignored (LiveTlsFiles). REQUIRES: CheckTlsFiles returned OK for the files.

// Credentials of a server that accepts only clients with a certificate that a CA in the file has issued. `on_client`,
// which may be null, is called with the common name of each client that it accepts: on gRPC's threads, as long as
// connections live, which may be longer than the server. It must be quick.
std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(
    const TlsFiles& files, std::function<void(const std::string& common_name)> on_client = nullptr);
// Credentials of a client that checks the server's certificate and host name, and shows its own certificate if it has
// one.
std::shared_ptr<grpc::ChannelCredentials> ClientTlsCredentials(const TlsFiles& files);

}  // namespace ampd
