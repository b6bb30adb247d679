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

// The current keys of an issuer, from a file or over HTTPS. A thread keeps them up to date. It reads a file every
// second. It fetches a URL every 10 min, a minute after a failed fetch, and when a JWT names an unknown key. That last
// kind of fetch happens at most once a minute, so that callers cannot make the server fetch endlessly. If the keys
// cannot be read, the previous keys stay valid, and one line is logged until reading succeeds again. Thread-safe.
class KeySet {
 public:
  using Get = std::function<absl::StatusOr<std::string>(const HttpsRequest& request)>;

  struct Options {
    std::string issuer;
    // The file or the https URL of a JWK set; empty: the `jwks_uri` of ISSUER/.well-known/openid-configuration.
    std::string source;
    std::string ca_file;  // See HttpsRequest::ca_file.
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

  // Returns the keys; null until the keys were read for the first time. Returns the same object as long as the keys are
  // unchanged.
  std::shared_ptr<const SigningKeys> keys() const;

  // Requests newer keys, because the present ones lack a key. Returns whether a fetch is in progress; if so, the caller
  // may look for the key again shortly.
  bool RequestFetch();

  // Reads or fetches the keys if that is due. The thread calls it once a second; tests may call it instead. Only one
  // thread at a time may call it.
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
  std::string content_ ABSL_GUARDED_BY(mutex_);  // The text from which `keys_` were read.
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_fetching_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;  // Whether the last try failed.
  // Time since boot when the last fetch began.
  absl::Duration last_fetch_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

// Whether the source is a URL. Any other source is the path of a file.
bool IsUrl(const std::string& source);

// Reads a file with a JWK set. NOT_FOUND if there is no file; INVALID_ARGUMENT with the cause if the file is malformed.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

}  // namespace ampd::server
