#include "client/render/token_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/api/tenants.h"
#include "client/render/csv.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

absl::Time WhenOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

// Returns when the token expires: "in 29d", "expired 2h ago", "never".
std::string ExpiryText(const v1::Token& token, absl::Time now) {
  if (!token.has_expire_time()) {
    return "never";
  }
  const absl::Time end = WhenOf(token.expire_time());
  return end > now ? "in " + FormatSpan(end - now) : "expired " + FormatSpan(now - end) + " ago";
}

std::string TenantText(const v1::Token& token) {
  return token.tenant() == kAllTenants ? "all" : OrNothing(token.tenant());
}

}  // namespace

std::string RoleText(v1::Role role) { return absl::AsciiStrToLower(v1::Role_Name(role)); }

v1::Role ParseRole(const std::string& text) {
  v1::Role role = v1::ROLE_UNSPECIFIED;
  return v1::Role_Parse(absl::AsciiStrToUpper(text), &role) ? role : v1::ROLE_UNSPECIFIED;
}

std::vector<std::string> RoleWords() {
  std::vector<std::string> words;
  for (int role = v1::ROLE_UNSPECIFIED + 1; v1::Role_IsValid(role); ++role) {
    words.push_back(RoleText(static_cast<v1::Role>(role)));
  }
  return words;
}

std::vector<std::string> TokenHeadings(bool wide) {
  std::vector<std::string> headings = {"NAME", "ROLE", "TENANT", "WORKER", "CREATED", "EXPIRES"};
  if (wide) {
    headings.push_back("CREATED BY");
  }
  return headings;
}

std::vector<std::string> TokenRow(const v1::Token& token, bool wide, absl::Time now) {
  std::vector<std::string> row = {OrNothing(token.name()),
                                  RoleText(token.role()),
                                  TenantText(token),
                                  OrNothing(token.worker()),
                                  FormatSpan(now - WhenOf(token.create_time())) + " ago",
                                  ExpiryText(token, now)};
  if (wide) {
    row.push_back(OrNothing(token.created_by()));
  }
  return row;
}

std::vector<std::string> TokenCsvHeadings() {
  return {"name", "role", "worker", "create_time", "expire_time", "created_by", "tenant"};
}

std::vector<std::string> TokenCsvRow(const v1::Token& token) {
  return {Printable(token.name()),
          RoleText(token.role()),
          Printable(token.worker()),
          CsvTime(token.has_create_time(), token.create_time()),
          CsvTime(token.has_expire_time(), token.expire_time()),
          Printable(token.created_by()),
          Printable(token.tenant())};
}

std::vector<std::string> AuditHeadings(bool wide) {
  std::vector<std::string> headings = {"TIME", "CALLER", "METHOD", "OBJECT", "RESULT"};
  if (wide) {
    headings.push_back("FROM");
  }
  return headings;
}

std::vector<std::string> AuditRow(const v1::AuditEntry& entry, bool wide, absl::TimeZone zone) {
  const std::string method = entry.method().substr(entry.method().rfind('/') + 1);
  const std::string result = entry.reason().empty() ? entry.code() : entry.reason();
  const std::string left_out =
      entry.num_left_out() == 0 ? ""
                                : absl::StrCat("  (", entry.num_left_out(), " earlier failed calls were not logged)");
  std::vector<std::string> row = {FormatTimestamp(WhenOf(entry.time()), zone), OrNothing(entry.caller()),
                                  OrNothing(method), OrNothing(entry.object()), OrNothing(result + left_out)};
  if (wide) {
    row.push_back(OrNothing(entry.address()));
  }
  return row;
}

std::vector<std::string> AuditCsvHeadings() {
  return {"time", "caller", "address", "method", "object", "code", "reason", "num_left_out"};
}

std::vector<std::string> AuditCsvRow(const v1::AuditEntry& entry) {
  return {CsvTime(entry.has_time(), entry.time()),
          Printable(entry.caller()),
          Printable(entry.address()),
          Printable(entry.method()),
          Printable(entry.object()),
          Printable(entry.code()),
          Printable(entry.reason()),
          absl::StrCat(entry.num_left_out())};
}

}  // namespace ampd::client
