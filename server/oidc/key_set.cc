#include "server/oidc/key_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/formats/json.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr absl::Duration kRefreshInterval = absl::Minutes(10);
constexpr absl::Duration kMinFetchInterval = absl::Minutes(1);
constexpr char kDiscoveryPath[] = "/.well-known/openid-configuration";

}  // namespace

bool IsUrl(const std::string& source) { return source.find("://") != std::string::npos; }

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kMaxFileBytes));
  AMPD_RETURN_IF_ERROR(SigningKeys::Parse(content).status());
  return content;
}

KeySet::KeySet(Options options) : options_(std::move(options)) {}

bool KeySet::IsFile() const { return !options_.source.empty() && !IsUrl(options_.source); }

void KeySet::Start() {
  if (IsFile()) {
    RefreshIfDue();  // Reads a file before the first call arrives.
  }
  thread_ = std::thread([this] { Run(); });
}

void KeySet::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void KeySet::Run() {
  while (!stopping_) {
    RefreshIfDue();
    const absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(this, &KeySet::ShallWake), kPause);
  }
}

std::shared_ptr<const SigningKeys> KeySet::keys() const {
  const absl::MutexLock lock(&mutex_);
  return keys_;
}

bool KeySet::RequestFetch() {
  const absl::MutexLock lock(&mutex_);
  if (!IsFile() && options_.clock->SinceBoot() - last_fetch_ >= kMinFetchInterval) {
    is_wanted_ = true;
  }
  return is_wanted_ || is_fetching_;
}

// Returns true if the caller must read or fetch the keys now, and records that this has begun.
bool KeySet::TakeDue() {
  const absl::MutexLock lock(&mutex_);
  const absl::Duration now = options_.clock->SinceBoot();
  const bool is_due = now - last_fetch_ >= (has_failed_ ? kMinFetchInterval : kRefreshInterval);
  if (!IsFile() && !is_due && !is_wanted_) {
    return false;
  }
  last_fetch_ = now;
  is_fetching_ = !IsFile();
  is_wanted_ = false;
  return true;
}

void KeySet::RefreshIfDue() {
  if (!TakeDue()) {
    return;
  }
  const absl::StatusOr<std::string> content = Read();
  const absl::Status status = content.ok() ? Replace(*content) : content.status();
  if (!stopping_) {
    Record(status);
  }
}

absl::StatusOr<std::string> KeySet::Read() const {
  if (IsFile()) {
    return ReadFile(options_.source, kMaxFileBytes);
  }
  AMPD_ASSIGN_OR_RETURN(const std::string url, KeysUrl());
  return options_.get({.url = url, .ca_file = options_.ca_file, .cancelled = &stopping_});
}

// Returns the URL of the keys: the configured URL, or the one that the issuer publishes (OpenID Connect Discovery 1.0,
// 4).
absl::StatusOr<std::string> KeySet::KeysUrl() const {
  if (!options_.source.empty()) {
    return options_.source;
  }
  const std::string base =
      options_.issuer.ends_with('/') ? options_.issuer.substr(0, options_.issuer.size() - 1) : options_.issuer;
  const std::string url = base + kDiscoveryPath;
  AMPD_ASSIGN_OR_RETURN(const std::string document,
                        options_.get({.url = url, .ca_file = options_.ca_file, .cancelled = &stopping_}));
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(document);
  if (!parsed.ok() || !parsed->is_object() || parsed->value("issuer", nlohmann::json()) != options_.issuer) {
    return absl::UnavailableError(absl::StrCat(url, " is no description of the issuer ", options_.issuer));
  }
  const nlohmann::json keys = parsed->value("jwks_uri", nlohmann::json());
  return keys.is_string() && keys.get<std::string>().starts_with("https://")
             ? absl::StatusOr<std::string>(keys.get<std::string>())
             : absl::UnavailableError(absl::StrCat(url, " has no https URL as its jwks_uri"));
}

absl::Status KeySet::Replace(const std::string& content) {
  {
    const absl::MutexLock lock(&mutex_);
    if (keys_ != nullptr && content == content_) {
      return absl::OkStatus();
    }
  }
  AMPD_ASSIGN_OR_RETURN(std::shared_ptr<const SigningKeys> keys, SigningKeys::Parse(content));
  const absl::MutexLock lock(&mutex_);
  keys_ = std::move(keys);
  content_ = content;
  return absl::OkStatus();
}

void KeySet::Record(const absl::Status& status) {
  bool had_failed = false;
  bool has_keys = false;
  {
    const absl::MutexLock lock(&mutex_);
    is_fetching_ = false;
    had_failed = std::exchange(has_failed_, !status.ok());
    has_keys = keys_ != nullptr;
  }
  if (status.ok() == !had_failed || !options_.log) {
    return;
  }
  options_.log(status.ok() ? "the keys of the identity provider can be read again"
                           : absl::StrCat("cannot read the keys of the identity provider",
                                          has_keys ? ", so those of before stay: " : ": ",
                                          IsFile() ? options_.source + " " : "", std::string(status.message())));
}

}  // namespace ampd::server
