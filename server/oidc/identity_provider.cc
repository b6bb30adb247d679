#include "server/oidc/identity_provider.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "server/oidc/jwt_verifier.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxTextBytes = 512;
constexpr int64_t kMaxCaBytes = 4 << 20;
constexpr absl::Duration kLogInterval = absl::Minutes(1);
constexpr absl::Duration kRetryDelay = absl::Seconds(2);

absl::Status BadOidc(const std::string& why) { return Error(absl::StatusCode::kInvalidArgument, "BAD_OIDC", why); }

bool IsOneWord(const std::string& text) {
  return !text.empty() && text.size() <= kMaxTextBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool IsHttps(const std::string& url) { return url.starts_with("https://") && IsOneWord(url); }

absl::Status CheckFiles(const OidcConfig& config) {
  if (!config.keys.empty() && !IsUrl(config.keys)) {
    if (const absl::Status read = ReadKeyFile(config.keys).status(); !read.ok()) {
      return BadOidc(absl::StrCat("--oidc-keys ", config.keys, ": ", std::string(read.message())));
    }
  }
  if (!config.ca.empty()) {
    if (const absl::Status read = ReadFile(config.ca, kMaxCaBytes).status(); !read.ok()) {
      return BadOidc(absl::StrCat("--oidc-ca ", config.ca, ": ", std::string(read.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOidcConfig(const OidcConfig& config) {
  if (config.issuer.empty()) {
    return config.audience.empty() && config.keys.empty() && config.ca.empty() && !config.claims.has_roles()
               ? absl::OkStatus()
               : BadOidc("the flags --oidc-... need --oidc-issuer: the URL of the identity provider");
  }
  if (!IsHttps(config.issuer)) {
    return BadOidc(absl::StrCat("--oidc-issuer '", config.issuer, "' must be a URL that begins with https://"));
  }
  if (config.audience.empty()) {
    return BadOidc(
        "--oidc-issuer needs --oidc-audience: the name of this server at the identity provider. Without it, tokens for "
        "other programs would be accepted");
  }
  if (!config.claims.has_roles()) {
    return BadOidc("--oidc-issuer needs --oidc-role CLAIM:VALUE=ROLE: without one, nobody has a role");
  }
  if (IsUrl(config.keys) && !IsHttps(config.keys)) {
    return BadOidc(absl::StrCat("--oidc-keys '", config.keys, "' must be a file, or a URL that begins with https://"));
  }
  return CheckFiles(config);
}

IdentityProvider::IdentityProvider(Options options)
    : options_(std::move(options)),
      verifier_(std::make_unique<JwtVerifier>(options_.config.issuer, options_.config.audience)),
      keys_({.issuer = options_.config.issuer,
             .source = options_.config.keys,
             .ca_file = options_.config.ca,
             .clock = options_.clock,
             .get = options_.get,
             .log = options_.log}) {}

IdentityProvider::~IdentityProvider() = default;

absl::StatusOr<Identity> IdentityProvider::Identify(const std::string& jwt) {
  const std::shared_ptr<const SigningKeys> keys = keys_.keys();
  const absl::Time now = options_.clock->Now();
  const std::string sha256 = Sha256Hex(jwt);
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = known_.find(sha256);
    if (found != known_.end() && keys == keys_of_known_ && now < found->second.expire_time) {
      return found->second.identity;
    }
  }
  const absl::StatusOr<Known> known =
      keys == nullptr ? absl::NotFoundError("there are no keys yet") : Verify(jwt, *keys, now);
  if (!known.ok()) {
    return Refused(known.status());
  }
  Remember(sha256, *known, keys, now);
  return known->identity;
}

absl::StatusOr<IdentityProvider::Known> IdentityProvider::Verify(const std::string& jwt, const SigningKeys& keys,
                                                                 absl::Time now) const {
  AMPD_ASSIGN_OR_RETURN(const VerifiedJwt verified, verifier_->Verify(jwt, keys, now));
  AMPD_ASSIGN_OR_RETURN(Identity identity, options_.config.claims.IdentityOf(verified.claims));
  return Known{.identity = std::move(identity), .expire_time = verified.expire_time};
}

// Callers do not learn which check failed, because that would help a forger. The log contains the cause, at most once a
// minute.
absl::Status IdentityProvider::Refused(const absl::Status& why) {
  if (absl::IsNotFound(why) && (keys_.RequestFetch() || keys_.keys() == nullptr)) {
    return WithRetryDelay(
        Error(absl::StatusCode::kUnavailable, "JWT_KEYS_MISSING",
              "the server has not got the keys of the identity provider that it needs for this token; try again"),
        kRetryDelay);
  }
  if (ReasonOf(why) == "JWT_EXPIRED") {
    return Error(absl::StatusCode::kUnauthenticated, "JWT_EXPIRED",
                 "the token has expired, or is not valid yet; get a new one from the identity provider");
  }
  bool logs = false;
  {
    const absl::MutexLock lock(&mutex_);
    logs = options_.clock->SinceBoot() - last_log_ >= kLogInterval;
    last_log_ = logs ? options_.clock->SinceBoot() : last_log_;
  }
  if (logs && options_.log) {
    options_.log(absl::StrCat("refused a token of the identity provider: ", std::string(why.message())));
  }
  return ReasonOf(why) == "JWT_NAME"
             ? Error(absl::StatusCode::kUnauthenticated, "JWT_NAME",
                     absl::StrCat("the token does not name its holder as this server needs it: ",
                                  std::string(why.message()), "; ask the server's administrator"))
             : Error(absl::StatusCode::kUnauthenticated, "JWT_INVALID",
                     "the server does not accept this token of an identity provider; get a new one, for this server, "
                     "from the provider that the server's administrator names");
}

size_t IdentityProvider::num_remembered() const {
  const absl::MutexLock lock(&mutex_);
  return known_.size();
}

void IdentityProvider::Remember(const std::string& sha256, const Known& known,
                                const std::shared_ptr<const SigningKeys>& keys, absl::Time now) {
  const absl::MutexLock lock(&mutex_);
  if (keys_of_known_ != keys) {
    known_.clear();
    keys_of_known_ = keys;
  }
  if (known_.size() >= kMaxRemembered) {
    std::erase_if(known_, [now](const auto& one) { return one.second.expire_time <= now; });
  }
  if (known_.size() >= kMaxRemembered) {
    known_.clear();
  }
  known_[sha256] = known;
}

}  // namespace ampd::server
