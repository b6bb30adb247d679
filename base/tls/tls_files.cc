#include "base/tls/tls_files.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/tls/openssl_handles.h"

namespace ampd {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

// By default OpenSSL frees its own data when the process exits. Threads that still use OpenSSL at that time, such as
// gRPC's and that of LiveTlsFiles, would then crash the process. This call prevents that. It is made before main,
// because only the first call to OpenSSL decides.
[[maybe_unused]] const int keeps_openssl_data = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, /*settings=*/nullptr);

absl::Status BadFile(const std::string& path, const std::string& why) {
  ERR_clear_error();
  return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES", absl::StrCat(path, ": ", why));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  return text.ok() ? std::move(text) : BadFile(path, std::string(text.status().message()));
}

// REQUIRES: `text` outlives the result.
BioPtr BioOf(const std::string& text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Returns the first certificate in the text. `path` is the file that the text comes from, for messages.
absl::StatusOr<CertificatePtr> CertificateOf(const std::string& text, const std::string& path) {
  CertificatePtr certificate(PEM_read_bio_X509(BioOf(text).get(), nullptr, nullptr, nullptr));
  return certificate != nullptr ? absl::StatusOr<CertificatePtr>(std::move(certificate))
                                : BadFile(path, "has no certificate in PEM form");
}

// Returns the private key in the text. `path` is the file that the text comes from, for messages.
absl::StatusOr<KeyPtr> KeyOf(const std::string& text, const std::string& path) {
  // An empty passphrase, so that OpenSSL does not ask the terminal for one.
  KeyPtr key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, nullptr, const_cast<char*>("")));
  return key != nullptr ? absl::StatusOr<KeyPtr>(std::move(key))
                        : BadFile(path, "has no key in PEM form, or one with a passphrase");
}

absl::Status CheckOthersCannotRead(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) {
    return BadFile(path, "others than its owner can read or change the key; to mend that: chmod 600");
  }
  return absl::OkStatus();
}

// Returns the first certificate of `texts`. Checks that the key of `texts` belongs to it.
absl::StatusOr<CertificatePtr> CertificateWithKey(const TlsTexts& texts, const TlsFiles& files) {
  AMPD_ASSIGN_OR_RETURN(CertificatePtr certificate, CertificateOf(texts.certificate, files.certificate));
  AMPD_ASSIGN_OR_RETURN(const KeyPtr key, KeyOf(texts.key, files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return BadFile(files.key, absl::StrCat("is not the key of the certificate in ", files.certificate));
  }
  return certificate;
}

absl::Status CheckValidNow(const std::string& path, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return BadFile(path, "the certificate is not valid yet");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return BadFile(path, "the certificate has expired");
  }
  return absl::OkStatus();
}

absl::Status CheckCertificateAndKey(const TlsFiles& files, const TlsFileOptions& options) {
  if (files.certificate.empty() || files.key.empty()) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                 files.certificate.empty()
                     ? absl::StrCat("TLS needs ", options.certificate, " FILE too: the certificate")
                     : absl::StrCat("TLS needs ", options.key, " FILE too: the certificate's key"));
  }
  TlsTexts texts;
  AMPD_ASSIGN_OR_RETURN(texts.certificate, ReadText(files.certificate));
  AMPD_ASSIGN_OR_RETURN(texts.key, ReadText(files.key));
  AMPD_ASSIGN_OR_RETURN(const CertificatePtr certificate, CertificateWithKey(texts, files));
  AMPD_RETURN_IF_ERROR(CheckOthersCannotRead(files.key));
  return CheckValidNow(files.certificate, certificate.get());
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files, bool needs_certificate, const TlsFileOptions& options) {
  if (files.ca.empty()) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_TLS_FILES",
                 absl::StrCat("TLS needs ", options.ca, " FILE too: the certificates of the authorities"));
  }
  AMPD_ASSIGN_OR_RETURN(const std::string ca, ReadText(files.ca));
  AMPD_RETURN_IF_ERROR(CertificateOf(ca, files.ca).status());
  if (files.certificate.empty() && files.key.empty() && !needs_certificate) {
    return absl::OkStatus();
  }
  return CheckCertificateAndKey(files, options);
}

absl::Status CheckServerFiles(const TlsFiles& files, const TlsFileOptions& options) {
  return files.ca.empty() ? CheckCertificateAndKey(files, options)
                          : CheckTlsFiles(files, /*needs_certificate=*/true, options);
}

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  TlsTexts texts;
  if (!files.ca.empty()) {
    AMPD_ASSIGN_OR_RETURN(texts.ca, ReadText(files.ca));
    AMPD_RETURN_IF_ERROR(CertificateOf(texts.ca, files.ca).status());
  }
  if (!files.certificate.empty()) {
    AMPD_ASSIGN_OR_RETURN(texts.certificate, ReadText(files.certificate));
    AMPD_ASSIGN_OR_RETURN(texts.key, ReadText(files.key));
    AMPD_RETURN_IF_ERROR(CertificateWithKey(texts, files).status());
  }
  return texts;
}

absl::StatusOr<absl::Time> CertificateExpiry(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  const BioPtr bio = BioOf(text);
  absl::Time first = absl::InfiniteFuture();
  while (const auto certificate = CertificatePtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))) {
    std::tm end = {};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
      return BadFile(path, "has a certificate without a valid end");
    }
    first = std::min(first, absl::FromTM(end, absl::UTCTimeZone()));
  }
  ERR_clear_error();  // Reading beyond the last certificate is an error to OpenSSL.
  return first != absl::InfiniteFuture() ? absl::StatusOr<absl::Time>(first)
                                         : BadFile(path, "has no certificate in PEM form");
}

}  // namespace ampd
