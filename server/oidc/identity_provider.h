#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/access/identity.h"
#include "server/oidc/claim_mapping.h"
#include "server/oidc/key_set.h"
#include "server/oidc/signing_keys.h"

namespace ampd::server {

class JwtVerifier;

// Which identity provider a server trusts (OpenID Connect), and with what.
struct OidcConfig {
  std::string issuer;    // Its https URL, exactly as its JWTs have it.
  std::string audience;  // For whom its JWTs must be.
  std::string keys;      // As KeySet::Options::source.
  std::string ca;        // As HttpsRequest::ca_file.
  ClaimMapping claims;

  bool empty() const { return issuer.empty(); }
};

// INVALID_ARGUMENT (BAD_OIDC), with a text for the operator that names the flag, if something is missing or malformed,
// or if the file of the keys or of the CA certificates cannot be used.
absl::Status CheckOidcConfig(const OidcConfig& config);

// Recognizes the users of an identity provider by the JWTs that it gives them. Thread-safe.
class IdentityProvider {
 public:
  struct Options {
    OidcConfig config;
    const Clock* clock = nullptr;
    KeySet::Get get = HttpsGet;
    std::function<void(const std::string&)> log;
  };

  explicit IdentityProvider(Options options);
  ~IdentityProvider();

  // Starts to read the keys, on a thread of its own.
  void Start() { keys_.Start(); }
  // Ends the thread. Idempotent.
  void Stop() { keys_.Stop(); }
  KeySet& keys() { return keys_; }

  // Returns who has the JWT; the identity may have no roles. UNAUTHENTICATED with JWT_INVALID, JWT_EXPIRED or JWT_NAME;
  // UNAVAILABLE with JWT_KEYS_MISSING while the keys for it are being fetched. A good JWT is remembered until it
  // expires or the keys change, because a signature takes longer to check than a call takes. Does not wait for the
  // keys.
  absl::StatusOr<Identity> Identify(const std::string& jwt);
  // The most JWTs that are remembered. When there are as many, those that have expired are forgotten or, if there are
  // none, all.
  static constexpr size_t kMaxRemembered = 10'000;
  size_t num_remembered() const;

 private:
  struct Known {
    Identity identity;
    absl::Time expire_time;
  };

  absl::StatusOr<Known> Verify(const std::string& jwt, const SigningKeys& keys, absl::Time now) const;
  absl::Status Refused(const absl::Status& why);
  void Remember(const std::string& sha256, const Known& known, const std::shared_ptr<const SigningKeys>& keys,
                absl::Time now);

  const Options options_;
  const std::unique_ptr<const JwtVerifier> verifier_;
  KeySet keys_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // By the SHA-256 of the JWT.
  std::shared_ptr<const SigningKeys> keys_of_known_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_log_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace ampd::server
