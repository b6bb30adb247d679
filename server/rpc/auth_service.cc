#include "server/rpc/auth_service.h"

#include <map>
#include <set>
#include <string>

#include "base/api/tenants.h"
#include "base/status_macros.h"
#include "server/access/identity.h"

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
    case Role::kScraper:
      return v1::SCRAPER;
  }
  return v1::ROLE_UNSPECIFIED;
}

void AddRoles(const std::map<Role, Tenants>& roles, v1::Caller* caller) {
  for (const auto& [role, tenants] : roles) {
    caller->add_roles(Shown(role));
    for (const std::string& tenant :
         tenants.all() ? std::set<std::string>{std::string(kAllTenants)} : tenants.names()) {
      v1::Caller::Membership* const membership = caller->add_memberships();
      membership->set_role(Shown(role));
      membership->set_tenant(tenant);
    }
  }
}

// Returns the request with its tenant filled in.
v1::CreateTokenRequest Completed(v1::CreateTokenRequest request) {
  for (const Role role :
       {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent, Role::kScraper}) {
    if (request.tenant().empty() && request.role() == Shown(role)) {
      const Tenants usual = UsualTenants(role);
      request.set_tenant(std::string(usual.all() ? kAllTenants : kDefaultTenant));
    }
  }
  return request;
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
                      AddRoles(identity->roles, response);
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
                         AMPD_ASSIGN_OR_RETURN(*response, tokens_->Create(Completed(*request), identity.name));
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
