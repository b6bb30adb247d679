#include "server/rpc/auth_service.h"

#include "base/status_macros.h"

namespace ampd::server {
namespace {

v1::Role Shown(Role role) {
  switch (role) {
    case Role::kViewer:
      return v1::VIEWER;
    case Role::kSubmitter:
      return v1::SUBMITTER;
    case Role::kOperator:
      return v1::OPERATOR;
    case Role::kAdmin:
      return v1::ADMIN;
    case Role::kAgent:
      return v1::AGENT;
  }
  return v1::ROLE_UNSPECIFIED;
}

}  // namespace

grpc::ServerUnaryReactor* AuthService::WhoAmI(grpc::CallbackServerContext* context, const v1::WhoAmIRequest* request,
                                              v1::Caller* response) {
  return ServeUnary(*environment_, context, "ampd.v1.AuthService/WhoAmI", *request,
                    [this, context, response](const FinishCall& finish) {
                      const absl::StatusOr<Identity> identity = environment_->guard->IdentityOf(*context);
                      if (!identity.ok()) {
                        finish(identity.status());
                        return;
                      }
                      response->set_name(identity->name);
                      for (const Role role : identity->roles) {
                        response->add_roles(Shown(role));
                      }
                      if (absl::StatusOr<v1::Token> token = environment_->guard->TokenOf(*context); token.ok()) {
                        *response->mutable_token() = *std::move(token);
                      }
                      finish(absl::OkStatus());
                    });
}

grpc::ServerUnaryReactor* AuthService::CreateToken(grpc::CallbackServerContext* context,
                                                   const v1::CreateTokenRequest* request,
                                                   v1::CreateTokenResponse* response) {
  return ServeBlocking(*environment_, context, "ampd.v1.AuthService/CreateToken", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(const Identity identity, environment_->guard->IdentityOf(*context));
                         AMPD_ASSIGN_OR_RETURN(*response, tokens_->Create(*request, identity.name));
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* AuthService::ListTokens(grpc::CallbackServerContext* context,
                                                  const v1::ListTokensRequest* request,
                                                  v1::ListTokensResponse* response) {
  return ServeBlocking(*environment_, context, "ampd.v1.AuthService/ListTokens", *request, [=, this]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(*response, tokens_->List(*request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AuthService::RevokeToken(grpc::CallbackServerContext* context,
                                                   const v1::RevokeTokenRequest* request,
                                                   v1::RevokeTokenResponse* /*response*/) {
  return ServeBlocking(*environment_, context, "ampd.v1.AuthService/RevokeToken", *request,
                       [this, request] { return tokens_->Revoke(request->name()); });
}

grpc::ServerUnaryReactor* AuthService::ListAuditEntries(grpc::CallbackServerContext* context,
                                                        const v1::ListAuditEntriesRequest* request,
                                                        v1::ListAuditEntriesResponse* response) {
  return ServeBlocking(*environment_, context, "ampd.v1.AuthService/ListAuditEntries", *request,
                       [=, this]() -> absl::Status {
                         if (log_ != nullptr) {
                           AMPD_ASSIGN_OR_RETURN(*response, log_->List(*request));
                         }
                         return absl::OkStatus();
                       });
}

}  // namespace ampd::server
