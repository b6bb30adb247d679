#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/grpc/channel.h"
#include "base/grpc/grpc_status.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {

// A server that requires a token for calls over loopback. The user of this test is admin on its Unix socket.
class TokenServer {
 public:
  // `adjust` changes the server's configuration; may be null.
  explicit TokenServer(const std::function<void(ServerConfig*)>& adjust = nullptr)
      : server_([adjust](ServerConfig* config) {
          config->trusts_loopback = false;
          if (adjust) {
            adjust(config);
          }
        }) {
    admin_.Connect("unix:" + server_.socket());
  }

  TestServer& loopback() { return server_; }
  ServerAccess& admin() { return admin_; }

  std::unique_ptr<v1::AuthService::Stub> Auth(const std::string& token = "") {
    return v1::AuthService::NewStub(OpenChannel({.address = server_.address(), .token = token, .tls = {}}, {}));
  }

  // Creates a token over the socket and returns its secret.
  std::string Create(const std::string& name, v1::Role role, const std::string& worker = "",
                     absl::Duration expires = absl::InfiniteDuration(), const std::string& tenant = "") {
    v1::CreateTokenRequest request;
    request.set_tenant(tenant);
    request.set_name(name);
    request.set_role(role);
    request.set_worker(worker);
    if (expires != absl::InfiniteDuration()) {
      const absl::Time end = absl::Now() + expires;
      request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(end));
      request.mutable_expire_time()->set_nanos(
          static_cast<int32_t>(absl::ToInt64Nanoseconds(end - absl::FromUnixSeconds(absl::ToUnixSeconds(end)))));
    }
    v1::CreateTokenResponse response;
    const grpc::Status status =
        v1::AuthService::Stub(admin_.NewChannel()).CreateToken(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.secret();
  }

  absl::Status Revoke(const std::string& name) {
    v1::RevokeTokenRequest request;
    request.set_name(name);
    v1::RevokeTokenResponse response;
    return FromGrpcStatus(v1::AuthService::Stub(admin_.NewChannel()).RevokeToken(Context().get(), request, &response));
  }

  // Returns a connection that sends the token with every call.
  std::unique_ptr<ServerAccess> With(const std::string& token) {
    auto access = std::make_unique<ServerAccess>();
    access->Connect({.address = server_.address(), .token = token, .tls = {}});
    return access;
  }

 private:
  TestServer server_;
  ServerAccess admin_;
};

}  // namespace ampd::server
