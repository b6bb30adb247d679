#pragma once

#include "ampd/v1/auth_service.grpc.pb.h"
#include "server/rpc/call.h"
#include "server/tokens/token_store.h"

namespace ampd::server {

// ampd.v1.AuthService over the store of tokens. Thread-safe.
class AuthService final : public v1::AuthService::CallbackService {
 public:
  AuthService(const CallEnvironment* environment, TokenStore* tokens) : environment_(environment), tokens_(tokens) {}

  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext*, const v1::WhoAmIRequest*, v1::Caller*) override;
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext*, const v1::CreateTokenRequest*,
                                        v1::CreateTokenResponse*) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext*, const v1::ListTokensRequest*,
                                       v1::ListTokensResponse*) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext*, const v1::RevokeTokenRequest*,
                                        v1::RevokeTokenResponse*) override;

 private:
  const CallEnvironment* const environment_;
  TokenStore* const tokens_;
};

}  // namespace ampd::server
