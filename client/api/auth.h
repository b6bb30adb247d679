#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/auth_service.pb.h"
#include "client/api/job_client.h"

namespace ampd::client {

// The calls of AuthService, with the deadlines and errors of JobClient.
absl::StatusOr<v1::Caller> WhoAmI(JobClient* client);
absl::StatusOr<v1::CreateTokenResponse> CreateToken(JobClient* client, const v1::CreateTokenRequest& request);
// All tokens, by name. Reads all pages of the server.
absl::StatusOr<std::vector<v1::Token>> ListTokens(JobClient* client);
absl::Status RevokeToken(JobClient* client, const std::string& name);
// The newest entries of the audit log, the oldest first.
absl::StatusOr<v1::ListAuditEntriesResponse> ListAuditEntries(JobClient* client,
                                                              const v1::ListAuditEntriesRequest& request);

}  // namespace ampd::client
