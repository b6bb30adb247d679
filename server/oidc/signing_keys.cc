#include "server/oidc/signing_keys.h"

#include <cjose/cjose.h>
#include <openssl/err.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/formats/json.h"
#include "base/status_macros.h"
#include "server/oidc/base64url.h"

namespace ampd::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxKeys = 100;
constexpr size_t kMinModulusBytes = 2048 / 8;
constexpr size_t kMaxModulusBytes = 8192 / 8;
constexpr size_t kMaxExponentBytes = 8;

constexpr size_t kP256Bytes = 32;
constexpr size_t kP384Bytes = 48;

struct FreeCjose {
  void operator()(cjose_jws_t* jws) const { cjose_jws_release(jws); }
};

// Clears OpenSSL's error queue of this thread. cjose leaves errors in it, and the TLS of the next connection on the
// thread would take them for its own. No cjose_err is passed to cjose, because its text would be in a buffer that all
// threads share.
class CleanErrorQueue {
 public:
  CleanErrorQueue() = default;
  ~CleanErrorQueue() { ERR_clear_error(); }
  CleanErrorQueue(const CleanErrorQueue&) = delete;
  CleanErrorQueue& operator=(const CleanErrorQueue&) = delete;
};

std::string MemberText(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string BytesOf(const json& object, const char* name) {
  return DecodeBase64Url(MemberText(object, name)).value_or("");
}

// Whether the key's own description of its use permits checking signatures.
bool IsForSignatures(const json& jwk) {
  const auto use = jwk.find("use");
  const auto operations = jwk.find("key_ops");
  return (use == jwk.end() || *use == "sig") &&
         (operations == jwk.end() ||
          (operations->is_array() && std::find(operations->begin(), operations->end(), "verify") != operations->end()));
}

uint8_t* Data(std::string& bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

// Builds the key without cjose's own parser, because that aborts the process on some malformed base64 and accepts weak
// keys.
cjose_jwk_t* MakeRsaKey(const json& jwk) {
  std::string modulus = BytesOf(jwk, "n");
  std::string exponent = BytesOf(jwk, "e");
  const bool is_strong = modulus.size() >= kMinModulusBytes && modulus.size() <= kMaxModulusBytes &&
                         (static_cast<unsigned char>(modulus.front()) & 0x80) != 0;
  // With an exponent of 1 everybody could forge a signature, and an even exponent is not valid for RSA.
  const bool is_sound = !exponent.empty() && exponent.size() <= kMaxExponentBytes && exponent.front() != '\0' &&
                        exponent != "\x01" && (static_cast<unsigned char>(exponent.back()) & 1) != 0;
  if (!is_strong || !is_sound) {
    return nullptr;
  }
  cjose_jwk_rsa_keyspec spec = {};
  spec.n = Data(modulus);
  spec.nlen = modulus.size();
  spec.e = Data(exponent);
  spec.elen = exponent.size();
  return cjose_jwk_create_RSA_spec(&spec, nullptr);
}

// Points that are not on the curve need no check here, because OpenSSL refuses them.
cjose_jwk_t* MakeEcKey(const json& jwk, cjose_jwk_ec_curve curve, size_t num_bytes) {
  std::string x = BytesOf(jwk, "x");
  std::string y = BytesOf(jwk, "y");
  if (x.size() != num_bytes || y.size() != num_bytes) {
    return nullptr;
  }
  cjose_jwk_ec_keyspec spec = {};
  spec.crv = curve;
  spec.x = Data(x);
  spec.xlen = x.size();
  spec.y = Data(y);
  spec.ylen = y.size();
  return cjose_jwk_create_EC_spec(&spec, nullptr);
}

constexpr std::string_view kRsaAlgorithms[] = {"RS256", "RS384", "RS512", "PS256"};

}  // namespace

std::optional<SigningKey> SigningKey::Of(const std::string& jwk) {
  const CleanErrorQueue clean;
  const absl::StatusOr<json> parsed = ParseJson(jwk);
  if (!parsed.ok() || !parsed->is_object() || !IsForSignatures(*parsed)) {
    return std::nullopt;
  }
  const std::string type = MemberText(*parsed, "kty");
  const std::string curve = MemberText(*parsed, "crv");
  Kind kind = Kind::kRsa;
  cjose_jwk_t* made = nullptr;
  if (type == "RSA") {
    made = MakeRsaKey(*parsed);
  } else if (type == "EC" && curve == "P-256") {
    kind = Kind::kP256;
    made = MakeEcKey(*parsed, CJOSE_JWK_EC_P_256, kP256Bytes);
  } else if (type == "EC" && curve == "P-384") {
    kind = Kind::kP384;
    made = MakeEcKey(*parsed, CJOSE_JWK_EC_P_384, kP384Bytes);
  }
  if (made == nullptr) {
    return std::nullopt;
  }
  return SigningKey(kind, MemberText(*parsed, "kid"), MemberText(*parsed, "alg"), Key(made, [](const void* key) {
                      cjose_jwk_release(static_cast<cjose_jwk_t*>(const_cast<void*>(key)));
                    }));
}

// Checks whether the algorithm fits the kind of key before it calls cjose, because cjose checks too little. For HS256
// cjose would use the bytes of an RSA key as a shared secret. For ES256 it accepts keys of any curve and signatures of
// any length, so several texts would pass as the same signature.
bool SigningKey::HasSigned(const std::string& jwt, std::string_view algorithm, std::string_view signature) const {
  const CleanErrorQueue clean;
  bool fits = false;
  switch (kind_) {
    case Kind::kRsa:
      fits = std::find(std::begin(kRsaAlgorithms), std::end(kRsaAlgorithms), algorithm) != std::end(kRsaAlgorithms);
      break;
    case Kind::kP256:
      fits = algorithm == "ES256" && signature.size() == 2 * kP256Bytes;
      break;
    case Kind::kP384:
      fits = algorithm == "ES384" && signature.size() == 2 * kP384Bytes;
      break;
  }
  if (!fits || (!algorithm_.empty() && algorithm_ != algorithm)) {
    return false;
  }
  const std::unique_ptr<cjose_jws_t, FreeCjose> jws(cjose_jws_import(jwt.data(), jwt.size(), nullptr));
  if (jws == nullptr) {
    return false;
  }
  const char* const seen = cjose_header_get(cjose_jws_get_protected(jws.get()), CJOSE_HDR_ALG, nullptr);
  return seen != nullptr && seen == algorithm &&
         cjose_jws_verify(jws.get(), static_cast<const cjose_jwk_t*>(key_.get()), nullptr);
}

absl::StatusOr<std::shared_ptr<const SigningKeys>> SigningKeys::Parse(std::string_view jwks) {
  AMPD_ASSIGN_OR_RETURN(const json parsed, ParseJson(jwks));
  if (!parsed.is_object() || !parsed.contains("keys") || !parsed["keys"].is_array()) {
    return absl::InvalidArgumentError("is no JWK set: it has no list 'keys'");
  }
  if (parsed["keys"].size() > kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat("has more than ", kMaxKeys, " keys"));
  }
  auto keys = std::make_shared<SigningKeys>();
  for (const json& jwk : parsed["keys"]) {
    if (std::optional<SigningKey> key = SigningKey::Of(jwk.dump()); key.has_value()) {
      keys->keys_.push_back(*std::move(key));
    }
  }
  return keys->keys_.empty() ? absl::StatusOr<std::shared_ptr<const SigningKeys>>(absl::InvalidArgumentError(
                                   "has no key for signatures: RSA with 2048 to 8192 bits, P-256 or P-384"))
                             : absl::StatusOr<std::shared_ptr<const SigningKeys>>(std::move(keys));
}

const SigningKey* SigningKeys::Find(const std::string& id) const {
  const SigningKey* found = nullptr;
  for (const SigningKey& key : keys_) {
    if (id.empty() || key.id() == id) {
      if (found != nullptr) {
        return nullptr;
      }
      found = &key;
    }
  }
  return found;
}

}  // namespace ampd::server
