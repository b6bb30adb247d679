#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/oidc/https_get.h"
#include "server/oidc/signing_keys.h"

namespace ampd::server {

// The keys of an issuer as they are now, from a file or over HTTPS. A thread reads a file again when it has changed,
// and fetches a URL every 10 min, when a JWT names a key that is not there (at most once a minute, so that callers
// cannot make the server fetch without end), and a minute after a failed fetch. If the keys cannot be read, those of
// before stay, and one line is logged until they can be read again. Thread-safe.
class KeySet {
 public:
  using Get = std::function<absl::StatusOr<std::string>(const HttpsRequest& request)>;

  struct Options {
    std::string issuer;
    // The file or the https URL of a JWK set; empty: the `jwks_uri` of ISSUER/.well-known/openid-configuration.
    std::string source;
    std::string ca_file;  // As HttpsRequest.
    const Clock* clock = nullptr;
    Get get = HttpsGet;
    std::function<void(const std::string&)> log;
  };

  explicit KeySet(Options options);
  ~KeySet() { Stop(); }

  // Starts the thread. REQUIRES: not started.
  void Start();
  // Ends the thread within about a second, even during a fetch. Idempotent.
  void Stop();

  // Null until keys were read for the first time. The same object as long as the keys are the same.
  std::shared_ptr<const SigningKeys> keys() const;

  // Asks for newer keys because the present ones lack one. Returns whether a fetch is under way, so that the caller may
  // ask for the key again shortly.
  bool RequestFetch();

  // Reads or fetches the keys if that is due. The thread calls it once a second; a test may call it instead. Not
  // thread-safe with itself.
  void RefreshIfDue();

 private:
  bool IsFile() const;
  void Run();
  bool TakeDue();
  absl::StatusOr<std::string> Read() const;
  absl::StatusOr<std::string> KeysUrl() const;
  absl::Status Replace(const std::string& content);
  void Record(const absl::Status& status);
  bool ShallWake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || is_wanted_; }

  const Options options_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const SigningKeys> keys_ ABSL_GUARDED_BY(mutex_);
  std::string content_ ABSL_GUARDED_BY(mutex_);  // What `keys_` were read from.
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_fetching_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;  // At the last try.
  // When the last fetch began, since boot.
  absl::Duration last_fetch_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

// Whether a source of keys is a URL; any other is the path of a file.
bool IsUrl(const std::string& source);

// Reads a file with a JWK set. NOT_FOUND, or INVALID_ARGUMENT with what is wrong.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

}  // namespace ampd::server
