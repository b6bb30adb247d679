#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/auth_service.pb.h"
#include "client/api/job_client.h"

namespace ampd::client {

// These functions call AuthService through `client`, with the deadline and the errors of the client's own calls.
absl::StatusOr<v1::Caller> WhoAmI(JobClient* client);
absl::StatusOr<v1::CreateTokenResponse> CreateToken(JobClient* client, const v1::CreateTokenRequest& request);
// Returns all tokens, sorted by name. Reads all of the server's pages.
absl::StatusOr<std::vector<v1::Token>> ListTokens(JobClient* client);
absl::Status RevokeToken(JobClient* client, const std::string& name);
// Returns the newest entries of the audit log, sorted from oldest to newest.
absl::StatusOr<v1::ListAuditEntriesResponse> ListAuditEntries(JobClient* client,
                                                              const v1::ListAuditEntriesRequest& request);

}  // namespace ampd::client
