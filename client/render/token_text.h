#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/auth_service.pb.h"

// Functions that show tokens and entries of the audit log as rows of a table, and roles as words.
namespace ampd::client {

// Returns the role as users write it: "submitter".
std::string RoleText(v1::Role role);
// Returns the role with this name; ROLE_UNSPECIFIED if no role has it.
v1::Role ParseRole(const std::string& text);
// Returns the names of all roles, in the order of v1::Role.
std::vector<std::string> RoleWords();

// The headings and rows of `auth token list`. `wide` adds who created the token.
std::vector<std::string> TokenHeadings(bool wide);
std::vector<std::string> TokenRow(const v1::Token& token, bool wide, absl::Time now);

// The headings and rows of `auth token list -o csv`.
std::vector<std::string> TokenCsvHeadings();
std::vector<std::string> TokenCsvRow(const v1::Token& token);

// The headings and rows of `audit`. `wide` adds where the call came from.
std::vector<std::string> AuditHeadings(bool wide);
std::vector<std::string> AuditRow(const v1::AuditEntry& entry, bool wide, absl::TimeZone zone);

// The headings and rows of `audit -o csv`.
std::vector<std::string> AuditCsvHeadings();
std::vector<std::string> AuditCsvRow(const v1::AuditEntry& entry);

}  // namespace ampd::client
