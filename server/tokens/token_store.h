#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/auth_service.pb.h"
#include "base/clock.h"
#include "base/io/sqlite.h"
#include "base/random.h"

namespace ampd::server {

inline constexpr int64_t kTokenSchema = 1;

// Reads all tokens in a store's file and returns their number. DATA_LOSS if a token is damaged.
absl::StatusOr<int64_t> CountTokens(SqliteDatabase& database);

// The tokens of a server, in a SQLite file of their own (schema 1: one table, one row for each token). The file does
// not contain the secrets, only the SHA-256 of each. A secret has 260 random bits, which nobody can guess, so the hash
// needs neither a salt nor a slow algorithm. All tokens are also kept in memory, so that checking a call reads no disk.
// A change is on disk when its function returns. Thread-safe.
class TokenStore {
 public:
  // The most tokens that a server can have.
  static constexpr size_t kMaxTokens = 10'000;

  // Whether a text has the prefix of the secrets of tokens.
  static bool IsSecret(std::string_view text);

  struct Options {
    std::string path;
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;
  };

  // Creates the file if it does not exist. FAILED_PRECONDITION with reason NEWER_SCHEMA if a newer server wrote the
  // file.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const Options& options);

  // Creates a token. `created_by`: the caller's name. INVALID_ARGUMENT with all violations of the request;
  // ALREADY_EXISTS (TOKEN_EXISTS); RESOURCE_EXHAUSTED (TOO_MANY_TOKENS).
  absl::StatusOr<v1::CreateTokenResponse> Create(const v1::CreateTokenRequest& request, const std::string& created_by);
  // Returns one page of all tokens, sorted by name.
  absl::StatusOr<v1::ListTokensResponse> List(const v1::ListTokensRequest& request) const;
  // Revokes the token with this name. NOT_FOUND (TOKEN_NOT_FOUND) if there is none.
  absl::Status Revoke(const std::string& name);

  // Returns the token with this secret. UNAUTHENTICATED if there is none (TOKEN_UNKNOWN), or if it has expired
  // (TOKEN_EXPIRED). Does not read the disk.
  absl::StatusOr<v1::Token> Find(std::string_view secret) const;

 private:
  explicit TokenStore(const Options& options, SqliteDatabase database)
      : options_(options), database_(std::move(database)) {}
  absl::Status CreateSchema();
  absl::Status Load();

  const Options options_;

  // Held during a whole change. Acquired before `mutex_`.
  absl::Mutex change_mutex_;
  SqliteDatabase database_ ABSL_GUARDED_BY(change_mutex_);
  SqliteStatement put_ ABSL_GUARDED_BY(change_mutex_);
  SqliteStatement remove_ ABSL_GUARDED_BY(change_mutex_);

  struct Entry {
    v1::Token token;
    std::string sha256;  // SHA-256 of its secret.
  };
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> by_name_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> name_by_sha256_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
