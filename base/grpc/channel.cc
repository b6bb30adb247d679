#include "base/grpc/channel.h"

#include <grpcpp/support/client_interceptor.h>

#include <string>
#include <utility>
#include <vector>

#include "base/grpc/grpc_target.h"
#include "base/grpc/tls_credentials.h"
#include "base/trace_context.h"

namespace ampd {
namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Returns the metadata that every call on a connection carries.
Metadata MetadataOf(const ServerConnection& connection) {
  Metadata metadata;
  if (!connection.token.empty()) {
    metadata.emplace_back("authorization", "Bearer " + connection.token);
  }
  if (!connection.traceparent.empty()) {
    metadata.emplace_back(kTraceparent, connection.traceparent);
  }
  return metadata;
}

// Adds metadata to each call. An interceptor can do this for every kind of call, and also over a channel without TLS,
// where gRPC refuses call credentials.
class MetadataInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit MetadataInterceptor(const Metadata& metadata) : metadata_(metadata) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert(metadata_.begin(), metadata_.end());
    }
    methods->Proceed();
  }

 private:
  const Metadata metadata_;
};

class MetadataInterceptors final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit MetadataInterceptors(Metadata metadata) : metadata_(std::move(metadata)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new MetadataInterceptor(metadata_);  // gRPC deletes it.
  }

 private:
  const Metadata metadata_;
};

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const ServerConnection& connection,
                                           const grpc::ChannelArguments& arguments) {
  // Connect to the server directly, even if the environment names an HTTP proxy. Such a proxy is meant for web pages,
  // and would receive the token.
  grpc::ChannelArguments direct = arguments;
  direct.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (Metadata metadata = MetadataOf(connection); !metadata.empty()) {
    interceptors.push_back(std::make_unique<MetadataInterceptors>(std::move(metadata)));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      GrpcTarget(connection.address),
      connection.tls.empty() ? grpc::InsecureChannelCredentials() : ClientTlsCredentials(connection.tls), direct,
      std::move(interceptors));
}

}  // namespace ampd
