#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"

namespace ampd::client {

// A fake auth service that keeps tokens in memory and accepts every caller. Thread-safe.
class FakeAuth final : public v1::AuthService::Service {
 public:
  // Returns the value of the metadata `authorization` in the last call of WhoAmI; empty if the call had none.
  std::string authorization() {
    absl::MutexLock lock(&mutex_);
    return authorization_;
  }
  v1::CreateTokenRequest last_create() {
    absl::MutexLock lock(&mutex_);
    return last_create_;
  }

  v1::ListAuditEntriesRequest last_audit() {
    absl::MutexLock lock(&mutex_);
    return last_audit_;
  }

  // From now on, callers have no names, as on a server without access control.
  void KnowNobody() {
    absl::MutexLock lock(&mutex_);
    no_name_ = true;
  }

  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*, v1::Caller* caller) override {
    absl::MutexLock lock(&mutex_);
    const auto found = context->client_metadata().find("authorization");
    authorization_ =
        found == context->client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
    if (no_name_) {
      caller->add_roles(v1::ADMIN);
      return grpc::Status::OK;
    }
    caller->set_name("token:gpus");
    caller->add_roles(v1::AGENT);
    v1::Caller::Membership* const membership = caller->add_memberships();
    membership->set_role(v1::AGENT);
    membership->set_tenant("vision");
    caller->mutable_token()->set_name("gpus");
    caller->mutable_token()->set_worker("gpu-*");
    return grpc::Status::OK;
  }

  grpc::Status CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest* request,
                           v1::CreateTokenResponse* response) override {
    absl::MutexLock lock(&mutex_);
    last_create_ = *request;
    v1::Token& token = tokens_[request->name()];
    token.set_name(request->name());
    token.set_role(request->role());
    token.set_worker(request->worker());
    token.set_tenant(request->tenant());
    token.mutable_create_time()->set_seconds(1'700'000'000);
    token.set_created_by("user:root");
    *response->mutable_token() = token;
    response->set_secret("ampd_secret");
    return grpc::Status::OK;
  }

  grpc::Status ListTokens(grpc::ServerContext*, const v1::ListTokensRequest*,
                          v1::ListTokensResponse* response) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, token] : tokens_) {
      *response->add_tokens() = token;
    }
    return grpc::Status::OK;
  }

  grpc::Status ListAuditEntries(grpc::ServerContext*, const v1::ListAuditEntriesRequest* request,
                                v1::ListAuditEntriesResponse* response) override {
    absl::MutexLock lock(&mutex_);
    last_audit_ = *request;
    if (request->caller() == "nobody") {
      return grpc::Status::OK;
    }
    v1::AuditEntry& entry = *response->add_entries();
    entry.mutable_time()->set_seconds(1'700'000'000);
    entry.set_caller("token:ci");
    entry.set_address("10.0.0.7");
    entry.set_method("ampd.v1.JobService/CancelJob");
    entry.set_object("j-aaaa");
    entry.set_code("PERMISSION_DENIED");
    entry.set_reason("NOT_YOUR_JOB");
    entry.set_num_left_out(3);
    return grpc::Status::OK;
  }

  grpc::Status RevokeToken(grpc::ServerContext*, const v1::RevokeTokenRequest* request,
                           v1::RevokeTokenResponse*) override {
    absl::MutexLock lock(&mutex_);
    return tokens_.contains(request->name())
               ? grpc::Status::OK
               : ToGrpcStatus(Error(absl::StatusCode::kNotFound, "TOKEN_NOT_FOUND", "there is no such token"));
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, v1::Token> tokens_;
  v1::CreateTokenRequest last_create_;
  v1::ListAuditEntriesRequest last_audit_;
  std::string authorization_;
  bool no_name_ = false;
};

}  // namespace ampd::client
