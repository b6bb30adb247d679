#include "server/tokens/token_store.h"

#include <google/protobuf/util/time_util.h>

#include <cctype>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/api/page_size.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kSchema[] = R"sql(
BEGIN IMMEDIATE;
CREATE TABLE tokens(name BLOB PRIMARY KEY NOT NULL, sha256 BLOB UNIQUE NOT NULL, content BLOB NOT NULL);
PRAGMA user_version=1;
COMMIT;
)sql";

// The prefix of all secrets, by which people and scanners for leaked secrets recognize them.
constexpr char kSecretPrefix[] = "ampd_";
constexpr int kSecretLength = 52;  // Random characters, of 5 bits each.
constexpr size_t kMaxNameLength = 63;
constexpr size_t kMaxWorkerLength = 128;
constexpr int kMaxPage = 1000;

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixMicros(TimeUtil::TimestampToMicroseconds(time));
}

absl::Status MalformedToken() {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "the store is damaged: a token's row is malformed");
}

bool IsTokenName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || name.size() > kMaxNameLength || !is_letter(name.front())) {
    return false;
  }
  for (const char c : name) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '-') {
      return false;
    }
  }
  return true;
}

bool IsWorkerPattern(std::string_view pattern) {
  for (const char c : pattern) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
        std::string_view("-_.*").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !pattern.empty() && pattern.size() <= kMaxWorkerLength;
}

absl::Status CheckRequest(const v1::CreateTokenRequest& request, absl::Time now) {
  std::vector<FieldViolation> violations;
  if (!IsTokenName(request.name())) {
    violations.push_back({"name", absl::StrCat("is \"", Shortened(request.name(), kMaxNameLength),
                                               "\"; must have 1 to 63 lower-case letters, digits and hyphens, and "
                                               "begin with a letter")});
  }
  if (request.role() == v1::ROLE_UNSPECIFIED || !v1::Role_IsValid(request.role())) {
    violations.push_back({"role", "must be VIEWER, SUBMITTER, OPERATOR, ADMIN, AGENT or SCRAPER"});
  }
  if (request.role() != v1::AGENT && !request.worker().empty()) {
    violations.push_back({"worker", "may be set only for the token of an agent"});
  }
  if (request.role() == v1::AGENT && !IsWorkerPattern(request.worker())) {
    violations.push_back(
        {"worker",
         "must be set for the token of an agent: the worker's name, 1 to 128 letters, digits, '-', '_' and "
         "'.', in which '*' stands for any characters"});
  }
  if (!request.tenant().empty() && request.tenant() != kAllTenants &&
      !CheckTenantName("tenant", request.tenant()).ok()) {
    violations.push_back({"tenant",
                          "must be \"*\" for all tenants, or have 1 to 63 lower-case letters, digits and hyphens, and "
                          "begin with a letter"});
  }
  if (request.role() == v1::ADMIN && !request.tenant().empty() && request.tenant() != kAllTenants) {
    violations.push_back({"tenant", "must be \"*\" for the token of an admin, who is one of all tenants"});
  }
  if (request.has_expire_time() && TimeOf(request.expire_time()) <= now) {
    violations.push_back({"expire_time", "must be in the future"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

bool TokenStore::IsSecret(std::string_view text) { return text.starts_with(kSecretPrefix); }

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(const Options& options) {
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(options.path, /*create=*/true));
  AMPD_RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"));
  std::unique_ptr<TokenStore> store(new TokenStore(options, std::move(database)));
  AMPD_RETURN_IF_ERROR(store->CreateSchema());
  AMPD_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status TokenStore::CreateSchema() {
  const absl::MutexLock lock(&change_mutex_);
  AMPD_ASSIGN_OR_RETURN(SqliteStatement version, database_.Prepare("PRAGMA user_version"));
  AMPD_RETURN_IF_ERROR(version.Step().status());
  const int64_t found = version.Int(0);
  version.Reset();
  if (found > kTokenSchema) {
    return NewerSchema("the store of tokens", found, kTokenSchema);
  }
  if (found < kTokenSchema) {
    AMPD_RETURN_IF_ERROR(database_.Execute(kSchema));
  }
  AMPD_ASSIGN_OR_RETURN(put_, database_.Prepare("INSERT INTO tokens(name, sha256, content) VALUES(?1,?2,?3)"));
  AMPD_ASSIGN_OR_RETURN(remove_, database_.Prepare("DELETE FROM tokens WHERE name=?1"));
  return absl::OkStatus();
}

absl::Status TokenStore::Load() {
  const absl::MutexLock change_lock(&change_mutex_);
  const absl::MutexLock lock(&mutex_);
  AMPD_ASSIGN_OR_RETURN(SqliteStatement all, database_.Prepare("SELECT sha256, content FROM tokens"));
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, all.Step());
    if (!has_row) {
      return absl::OkStatus();
    }
    Entry entry;
    entry.sha256 = std::string(all.Bytes(0));
    const std::string_view content = all.Bytes(1);
    if (!entry.token.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
      return MalformedToken();
    }
    name_by_sha256_[entry.sha256] = entry.token.name();
    by_name_[entry.token.name()] = std::move(entry);
  }
}

absl::StatusOr<int64_t> CountTokens(SqliteDatabase& database) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement all, database.Prepare("SELECT content FROM tokens"));
  for (int64_t count = 0;; ++count) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, all.Step());
    if (!has_row) {
      return count;
    }
    const std::string_view content = all.Bytes(0);
    if (v1::Token token; !token.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
      return MalformedToken();
    }
  }
}

absl::StatusOr<v1::CreateTokenResponse> TokenStore::Create(const v1::CreateTokenRequest& request,
                                                           const std::string& created_by) {
  AMPD_RETURN_IF_ERROR(CheckRequest(request, options_.clock->Now()));
  const absl::MutexLock change_lock(&change_mutex_);
  {
    const absl::MutexLock lock(&mutex_);
    if (by_name_.contains(request.name())) {
      return Error(
          absl::StatusCode::kAlreadyExists, "TOKEN_EXISTS",
          absl::StrCat("there is a token ", request.name(), " already; take another name, or revoke that one first"));
    }
    if (by_name_.size() >= kMaxTokens) {
      return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_TOKENS",
                   absl::StrCat("there are ", kMaxTokens, " tokens already; revoke those that nobody needs"));
    }
  }
  v1::CreateTokenResponse response;
  v1::Token& token = *response.mutable_token();
  token.set_name(request.name());
  token.set_role(request.role());
  token.set_worker(request.worker());
  token.set_tenant(request.tenant());
  *token.mutable_create_time() = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(options_.clock->Now()));
  if (request.has_expire_time()) {
    *token.mutable_expire_time() = request.expire_time();
  }
  token.set_created_by(created_by);
  response.set_secret(absl::StrCat(kSecretPrefix, RandomId(*options_.random, kSecretLength)));
  Entry entry{token, Sha256Hex(response.secret())};
  const std::string content = token.SerializeAsString();
  AMPD_RETURN_IF_ERROR(put_.Bind(1, token.name()).Bind(2, entry.sha256).Bind(3, content).Run());
  const absl::MutexLock lock(&mutex_);
  name_by_sha256_[entry.sha256] = token.name();
  by_name_[token.name()] = std::move(entry);
  return response;
}

absl::StatusOr<v1::ListTokensResponse> TokenStore::List(const v1::ListTokensRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size(), kMaxPage, kMaxPage));
  v1::ListTokensResponse response;
  const absl::MutexLock lock(&mutex_);
  // A page token is the last name of the previous page.
  for (auto entry = by_name_.upper_bound(request.page_token()); entry != by_name_.end(); ++entry) {
    if (response.tokens_size() == page_size) {
      response.set_next_page_token(response.tokens(page_size - 1).name());
      break;
    }
    *response.add_tokens() = entry->second.token;
  }
  return response;
}

absl::Status TokenStore::Revoke(const std::string& name) {
  const absl::MutexLock change_lock(&change_mutex_);
  {
    const absl::MutexLock lock(&mutex_);
    if (!by_name_.contains(name)) {
      return Error(absl::StatusCode::kNotFound, "TOKEN_NOT_FOUND",
                   absl::StrCat("there is no token ", Shortened(name, kMaxNameLength)));
    }
  }
  AMPD_RETURN_IF_ERROR(remove_.Bind(1, name).Run());
  const absl::MutexLock lock(&mutex_);
  const auto found = by_name_.find(name);
  name_by_sha256_.erase(found->second.sha256);
  by_name_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<v1::Token> TokenStore::Find(std::string_view secret) const {
  // The time of this look-up may reveal a part of a stored digest. That helps no attacker, because nobody can compute a
  // token's secret from its digest.
  const std::string sha256 = Sha256Hex(secret);
  const absl::MutexLock lock(&mutex_);
  const auto name = name_by_sha256_.find(sha256);
  if (name == name_by_sha256_.end()) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_UNKNOWN",
                 "the server does not know this token; it may have been revoked");
  }
  const v1::Token& token = by_name_.at(name->second).token;
  if (token.has_expire_time() && TimeOf(token.expire_time()) <= options_.clock->Now()) {
    return Error(
        absl::StatusCode::kUnauthenticated, "TOKEN_EXPIRED",
        absl::StrCat("the token ", token.name(), " expired at ",
                     absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", TimeOf(token.expire_time()), absl::UTCTimeZone())));
  }
  return token;
}

}  // namespace ampd::server
