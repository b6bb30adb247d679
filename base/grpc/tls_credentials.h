#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "base/tls/tls_files.h"

namespace ampd {

// The functions below make credentials for TLS 1.2 or later. The files are read again once a second, so certificates
// can be replaced while connections are open. New connections use the new certificates after two seconds at most; files
// that do not fit together, such as a key of another certificate, are ignored (LiveTlsFiles). REQUIRES: CheckTlsFiles
// returned OK for the files.

// Makes the credentials of a server that accepts only clients whose certificate was issued by a CA in `files.ca`.
// `on_client`, unless null, is called with the common name of each accepted client. It must be quick. gRPC's threads
// call it, even after the server has ended if a connection is still open.
std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(
    const TlsFiles& files, std::function<void(const std::string& common_name)> on_client = nullptr);
// Makes the credentials of a client that verifies the server's certificate and host name, and presents its own
// certificate if it has one.
std::shared_ptr<grpc::ChannelCredentials> ClientTlsCredentials(const TlsFiles& files);

}  // namespace ampd
