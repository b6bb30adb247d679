#include "base/grpc/server_connection.h"

#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_target.h"
#include "base/io/file.h"

namespace ampd {
namespace {

constexpr int64_t kMaxTokenFileBytes = 64 << 10;

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

bool IsOneWord(const std::string& token) {
  return std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
}

absl::Status BadTokenFile(const std::string& path, const std::string& why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_TOKEN_FILE",
               absl::StrCat("cannot read a token from ", path, ": ", why));
}

}  // namespace

bool IsLocalAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return address.starts_with("unix:") || host == "localhost" || host == "::1" || host == "[::1]" ||
         host.starts_with("127.");
}

absl::Status CheckConnection(const ServerConnection& connection) {
  if (!IsOneWord(connection.token)) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TOKEN",
                 "the token must be one word, as ampctl auth token create printed it");
  }
  if (!connection.token.empty() && !IsLocalAddress(connection.address)) {
    return Error(
        absl::StatusCode::kInvalidArgument, "TOKEN_IN_THE_CLEAR",
        absl::StrCat("the token is not sent to ", connection.address,
                     ", because others could read it on the way; a token goes to addresses of this host only"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> OpenChannel(const ServerConnection& connection,
                                           const grpc::ChannelArguments& arguments) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!connection.token.empty()) {
    interceptors.push_back(std::make_unique<TokenInterceptors>(connection.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      GrpcTarget(connection.address), grpc::InsecureChannelCredentials(), arguments, std::move(interceptors));
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxTokenFileBytes);
  if (!text.ok()) {
    return BadTokenFile(path, std::string(text.status().message()));
  }
  std::string token(absl::StripAsciiWhitespace(text->substr(0, text->find('\n'))));
  return token.empty() ? BadTokenFile(path, "its first line is empty") : absl::StatusOr<std::string>(std::move(token));
}

absl::StatusOr<std::string> TokenFromFileOrEnvironment(const std::string& path) {
  if (!path.empty()) {
    return ReadTokenFile(path);
  }
  const char* const token = std::getenv("AMPD_TOKEN");
  return std::string(token == nullptr ? "" : token);
}

}  // namespace ampd
