#include "client/api/auth.h"

#include <grpcpp/grpcpp.h>

#include <iterator>
#include <utility>

#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/grpc/grpc_deadline.h"
#include "base/status_macros.h"
#include "client/api/end_of_call.h"
#include "client/api/job_client_stubs.h"

namespace ampd::client {
namespace {

template <typename Request, typename Response>
absl::StatusOr<Response> CallAuth(JobClient* client,
                                  grpc::Status (v1::AuthService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                                Response*),
                                  const Request& request) {
  v1::AuthService::Stub stub(client->stubs().channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(client->call_deadline()));
  Response response;
  AMPD_RETURN_IF_ERROR(EndOfCall((stub.*method)(&context, request, &response)));
  return response;
}

}  // namespace

absl::StatusOr<v1::Caller> WhoAmI(JobClient* client) {
  return CallAuth(client, &v1::AuthService::Stub::WhoAmI, v1::WhoAmIRequest());
}

absl::StatusOr<v1::CreateTokenResponse> CreateToken(JobClient* client, const v1::CreateTokenRequest& request) {
  return CallAuth(client, &v1::AuthService::Stub::CreateToken, request);
}

absl::StatusOr<std::vector<v1::Token>> ListTokens(JobClient* client) {
  std::vector<v1::Token> tokens;
  v1::ListTokensRequest request;
  do {
    AMPD_ASSIGN_OR_RETURN(v1::ListTokensResponse page, CallAuth(client, &v1::AuthService::Stub::ListTokens, request));
    std::move(page.mutable_tokens()->begin(), page.mutable_tokens()->end(), std::back_inserter(tokens));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return tokens;
}

absl::Status RevokeToken(JobClient* client, const std::string& name) {
  v1::RevokeTokenRequest request;
  request.set_name(name);
  return CallAuth(client, &v1::AuthService::Stub::RevokeToken, request).status();
}

absl::StatusOr<v1::ListAuditEntriesResponse> ListAuditEntries(JobClient* client,
                                                              const v1::ListAuditEntriesRequest& request) {
  return CallAuth(client, &v1::AuthService::Stub::ListAuditEntries, request);
}

}  // namespace ampd::client
