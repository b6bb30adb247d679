#include "base/grpc/channel.h"

#include <grpcpp/support/client_interceptor.h>

#include <string>
#include <utility>
#include <vector>

#include "base/grpc/grpc_target.h"
#include "base/grpc/tls_credentials.h"

namespace ampd {
namespace {

// Adds the token to the metadata of a call. An interceptor does so for every kind of call, and over a channel without
// TLS, for which gRPC refuses call credentials.
class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(std::string authorization) : authorization_(std::move(authorization)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", authorization_);
    }
    methods->Proceed();
  }

 private:
  const std::string authorization_;
};

class TokenInterceptors final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptors(const std::string& token) : authorization_("Bearer " + token) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new TokenInterceptor(authorization_);  // gRPC deletes it.
  }

 private:
  const std::string authorization_;
};

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const ServerConnection& connection,
                                           const grpc::ChannelArguments& arguments) {
  // Connects to the server itself, whatever proxy the environment names: that one is for the web, and would get the
  // token.
  grpc::ChannelArguments direct = arguments;
  direct.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!connection.token.empty()) {
    interceptors.push_back(std::make_unique<TokenInterceptors>(connection.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      GrpcTarget(connection.address),
      connection.tls.empty() ? grpc::InsecureChannelCredentials() : ClientTlsCredentials(connection.tls), direct,
      std::move(interceptors));
}

}  // namespace ampd
