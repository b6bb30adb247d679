#include "server/state/attempt_tokens.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {

absl::Status Fenced(const v1::AttemptKey& key) {
  return Error(absl::StatusCode::kFailedPrecondition, "FENCED",
               absl::StrCat("attempt ", key.attempt(), " of job ", key.job_id(), " is not the current owner"));
}

absl::StatusOr<const v1::Attempt*> FindAttemptByToken(const internal::JobRecord& record, const v1::AttemptKey& key) {
  for (int i = 0; i < record.job().attempts_size(); ++i) {
    if (record.job().attempts(i).number() == key.attempt()) {
      if (record.tokens(i) != key.token()) {
        return Fenced(key);
      }
      return &record.job().attempts(i);
    }
  }
  return Error(absl::StatusCode::kNotFound, "ATTEMPT_NOT_FOUND",
               absl::StrCat("job ", key.job_id(), " has no attempt ", key.attempt()));
}

bool EndedByItself(const v1::Attempt& attempt) {
  return attempt.state() == v1::Attempt::ENDED && attempt.outcome().kind() != v1::Outcome::GONE;
}

v1::AttemptKey NewestKey(const internal::JobRecord& record) {
  v1::AttemptKey key;
  key.set_job_id(record.job().id());
  key.set_attempt(record.job().num_attempts());
  key.set_token(*record.tokens().rbegin());
  return key;
}

std::string NameOf(const v1::AttemptKey& key) { return absl::StrCat(key.job_id(), "/", key.attempt()); }

}  // namespace ampd::server
