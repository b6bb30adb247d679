#include "base/tls/trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/io/file.h"
#include "base/tls/openssl_handles.h"

namespace ampd {
namespace {

constexpr int64_t kMaxCaBytes = 4 << 20;
constexpr size_t kMaxAnswers = 10'000;
constexpr absl::Duration kAnswersAge = absl::Minutes(1);

std::vector<CertificatePtr> CertificatesOf(const std::string& pem) {
  std::vector<CertificatePtr> certificates;
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (bio != nullptr) {
    CertificatePtr next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) {
      break;
    }
    certificates.push_back(std::move(next));
  }
  ERR_clear_error();  // The end of the text is an error for OpenSSL.
  return certificates;
}

// Returns when the certificate at the front of the chain expires.
absl::Time EndOf(const std::vector<CertificatePtr>& chain) {
  std::tm end = {};
  return !chain.empty() && ASN1_TIME_to_tm(X509_get0_notAfter(chain.front().get()), &end) == 1
             ? absl::FromTM(end, absl::UTCTimeZone())
             : absl::InfinitePast();
}

bool Verify(X509_STORE* store, const std::vector<CertificatePtr>& chain) {
  if (chain.empty()) {
    return false;
  }
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(between, chain[i].get());
  }
  const StoreContextPtr context(X509_STORE_CTX_new());
  const bool is_good =
      context != nullptr && X509_STORE_CTX_init(context.get(), store, chain.front().get(), between) == 1 &&
      X509_STORE_CTX_set_default(context.get(), "ssl_client") == 1 && X509_verify_cert(context.get()) == 1;
  sk_X509_free(between);
  ERR_clear_error();
  return is_good;
}

}  // namespace

std::string CommonNameOf(const std::string& pem) {
  const std::vector<CertificatePtr> certificates = CertificatesOf(pem);
  if (certificates.empty()) {
    return "";
  }
  X509_NAME* const subject = X509_get_subject_name(certificates.front().get());
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  X509_NAME_ENTRY* const entry = index < 0 ? nullptr : X509_NAME_get_entry(subject, index);
  unsigned char* text = nullptr;
  const int size = entry == nullptr ? -1 : ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
  std::string name = size < 0 ? "" : std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return name;
}

std::string PemOfDer(const std::string& base64) {
  constexpr size_t kLineBytes = 64;
  std::string pem = "-----BEGIN CERTIFICATE-----\n";
  for (size_t at = 0; at < base64.size(); at += kLineBytes) {
    pem += base64.substr(at, kLineBytes) + "\n";
  }
  return pem + "-----END CERTIFICATE-----\n";
}

struct Trust::Authorities {
  StorePtr store{X509_STORE_new()};
};

Trust::Trust(std::string ca_file) : ca_file_(std::move(ca_file)) { Refresh(); }

Trust::~Trust() = default;

void Trust::Refresh() {
  const absl::StatusOr<std::string> content = ReadFile(ca_file_, kMaxCaBytes);
  const absl::MutexLock lock(&mutex_);
  if (!content.ok() || *content == content_) {
    return;
  }
  auto authorities = std::make_unique<Authorities>();
  const std::vector<CertificatePtr> certificates = CertificatesOf(*content);
  for (const CertificatePtr& certificate : certificates) {
    X509_STORE_add_cert(authorities->store.get(), certificate.get());
  }
  if (!certificates.empty()) {
    authorities_ = std::move(authorities);
    content_ = *content;
    answers_.clear();
  }
}

std::optional<std::string> Trust::NameOf(const std::string& pem) const {
  const absl::MutexLock lock(&mutex_);
  if (authorities_ == nullptr) {
    return std::nullopt;
  }
  const absl::Time now = absl::Now();
  // Forgets all answers after a while, because an authority's own certificate may have expired since.
  if (answers_.size() >= kMaxAnswers || now - answers_begin_ > kAnswersAge || now < answers_begin_) {
    answers_.clear();
    answers_begin_ = now;
  }
  const auto [answer, is_new] = answers_.try_emplace(pem);
  if (is_new) {
    const std::vector<CertificatePtr> chain = CertificatesOf(pem);
    answer->second = {
        .is_good = Verify(authorities_->store.get(), chain), .end = EndOf(chain), .name = CommonNameOf(pem)};
  }
  const bool is_good = answer->second.is_good && now <= answer->second.end;
  return is_good ? std::optional(answer->second.name) : std::nullopt;
}

}  // namespace ampd
