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

// The settings of the identity provider (OpenID Connect) that a server trusts.
struct OidcConfig {
  std::string issuer;    // The provider's https URL, exactly as in its JWTs.
  std::string audience;  // The audience that a JWT must name.
  std::string keys;      // See KeySet::Options::source.
  std::string ca;        // See HttpsRequest::ca_file.
  ClaimMapping claims;

  bool empty() const { return issuer.empty(); }
};

// Checks the settings. INVALID_ARGUMENT (BAD_OIDC), with a text for the operator that names the flag, if a setting is
// missing or malformed, or if the file of the keys or of the CA certificates cannot be used.
absl::Status CheckOidcConfig(const OidcConfig& config);

// Identifies callers by the JWTs that an identity provider issued to them. Thread-safe.
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

  // Starts a thread that reads the provider's keys.
  void Start() { keys_.Start(); }
  // Ends the thread. Idempotent.
  void Stop() { keys_.Stop(); }
  KeySet& keys() { return keys_; }

  // Returns the identity of the JWT's holder, which may have no roles. UNAUTHENTICATED with JWT_INVALID, JWT_EXPIRED or
  // JWT_NAME; UNAVAILABLE with JWT_KEYS_MISSING while the needed keys are being fetched. Does not wait for the keys.
  // Caches a valid JWT until it expires or the keys change, because checking a signature takes longer than a whole
  // call.
  absl::StatusOr<Identity> Identify(const std::string& jwt);
  // The most cached JWTs. If the cache is full, expired JWTs are dropped or, if there are none, all JWTs.
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
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // Key: the SHA-256 of the JWT.
  std::shared_ptr<const SigningKeys> keys_of_known_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_log_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace ampd::server
