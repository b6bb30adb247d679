#include "base/tls/certificate_maker.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/tls/openssl_handles.h"

namespace ampd {
namespace {

constexpr size_t kMaxNameBytes = 64;  // RFC 5280, ub-common-name.
constexpr size_t kMaxHostBytes = 253;
constexpr int kSerialBytes = 16;

absl::Status OpenSslFailed(const char* what) {
  const unsigned long code = ERR_get_error();
  std::array<char, 256> text = {};
  ERR_error_string_n(code, text.data(), text.size());
  return absl::InternalError(absl::StrCat(what, " failed in OpenSSL: ", code == 0 ? "no details" : text.data()));
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes = {};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= kMaxHostBytes && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '*';
  });
}

// Returns the hosts as a subjectAltName in OpenSSL's notation: "DNS:node1,IP:127.0.0.1".
absl::StatusOr<std::string> AlternativeNames(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (!IsAddress(host) && !IsHostName(host)) {
      return absl::InvalidArgumentError(absl::StrCat("'", host, "' is neither a host name nor an address"));
    }
    names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  }
  return absl::StrJoin(names, ",");
}

template <typename Write>
absl::StatusOr<std::string> ToPem(Write write) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) {
    return OpenSslFailed("writing PEM");
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslFailed("adding an extension");
  }
  return absl::OkStatus();
}

// Makes a certificate for the holder of `key`, still without issuer, extensions and signature.
absl::StatusOr<CertificatePtr> Begin(const std::string& name, EVP_PKEY* key, absl::Duration validity) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError("the name of a certificate must have 1 to 64 bytes");
  }
  CertificatePtr certificate(X509_new());
  std::array<unsigned char, kSerialBytes> serial = {};
  if (certificate == nullptr || RAND_bytes(serial.data(), kSerialBytes) != 1) {
    return OpenSslFailed("making a certificate");
  }
  serial[0] &= 0x7f;  // Serial numbers are positive.
  BIGNUM* const number = BN_bin2bn(serial.data(), kSerialBytes, nullptr);
  const bool has_serial = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get())) != nullptr;
  BN_free(number);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name.data());
  const bool is_made =
      has_serial && X509_set_version(certificate.get(), 2) == 1 &&  // 2 means version 3.
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, bytes, static_cast<int>(name.size()), -1, 0) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60) != nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), static_cast<int>(validity / absl::Hours(24)),
                       static_cast<long>(absl::ToInt64Seconds(validity % absl::Hours(24))), nullptr) != nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1;
  return is_made ? absl::StatusOr<CertificatePtr>(std::move(certificate)) : OpenSslFailed("making a certificate");
}

// Sets the issuer of the certificate, signs it, and returns it with its key.
absl::StatusOr<CertificateAndKey> Finish(X509* certificate, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuers_key) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      X509_sign(certificate, issuers_key, EVP_sha256()) == 0) {
    return OpenSslFailed("signing a certificate");
  }
  CertificateAndKey result;
  AMPD_ASSIGN_OR_RETURN(result.certificate,
                        ToPem([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); }));
  AMPD_ASSIGN_OR_RETURN(result.key, ToPem([key](BIO* bio) {
                          return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
                        }));
  return result;
}

}  // namespace

absl::StatusOr<CertificateAndKey> MakeAuthority(const std::string& name, absl::Duration validity) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return OpenSslFailed("making a key");
  }
  AMPD_ASSIGN_OR_RETURN(const CertificatePtr certificate, Begin(name, key.get(), validity));
  X509* const own = certificate.get();
  AMPD_RETURN_IF_ERROR(AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, own, NID_subject_key_identifier, "hash"));
  return Finish(own, key.get(), own, key.get());
}

absl::StatusOr<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                                   const CertificateRequest& request) {
  const BioPtr certificate_bio(
      BIO_new_mem_buf(authority.certificate.data(), static_cast<int>(authority.certificate.size())));
  const BioPtr key_bio(BIO_new_mem_buf(authority.key.data(), static_cast<int>(authority.key.size())));
  const CertificatePtr issuer(PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
  const KeyPtr issuers_key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (issuer == nullptr || issuers_key == nullptr || key == nullptr) {
    return OpenSslFailed("reading the authority");
  }
  AMPD_ASSIGN_OR_RETURN(const std::string hosts, AlternativeNames(request.hosts));
  AMPD_ASSIGN_OR_RETURN(const CertificatePtr certificate, Begin(request.name, key.get(), request.validity));
  X509* const own = certificate.get();
  AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_ext_key_usage, hosts.empty() ? "clientAuth" : "serverAuth"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_subject_key_identifier, "hash"));
  AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_authority_key_identifier, "keyid"));
  if (!hosts.empty()) {
    AMPD_RETURN_IF_ERROR(AddExtension(own, issuer.get(), NID_subject_alt_name, hosts));
  }
  return Finish(own, key.get(), issuer.get(), issuers_key.get());
}

}  // namespace ampd
