#pragma once

#include "ampd/v1/auth_service.grpc.pb.h"
#include "server/audit/audit_log.h"
#include "server/rpc/calls/call.h"
#include "server/tokens/token_store.h"

namespace ampd::server {

// Implements ampd.v1.AuthService with the token store and the audit log. Thread-safe.
class AuthService final : public v1::AuthService::CallbackService {
 public:
  // `log` may be null; lists of audit entries are then empty.
  AuthService(const CallEnvironment* environment, TokenStore* tokens, AuditLog* log)
      : environment_(environment), tokens_(tokens), log_(log) {}

  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext*, const v1::WhoAmIRequest*, v1::Caller*) override;
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext*, const v1::CreateTokenRequest*,
                                        v1::CreateTokenResponse*) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext*, const v1::ListTokensRequest*,
                                       v1::ListTokensResponse*) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext*, const v1::RevokeTokenRequest*,
                                        v1::RevokeTokenResponse*) override;
  grpc::ServerUnaryReactor* ListAuditEntries(grpc::CallbackServerContext*, const v1::ListAuditEntriesRequest*,
                                             v1::ListAuditEntriesResponse*) override;

 private:
  const CallEnvironment* const environment_;
  TokenStore* const tokens_;
  AuditLog* const log_;
};

}  // namespace ampd::server
