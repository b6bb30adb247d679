#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ampd {

// The first common name of the first certificate of a PEM text, as UTF-8; empty if there is none.
std::string CommonNameOf(const std::string& pem);

// Converts a certificate from DER, encoded in base64, to PEM.
std::string PemOfDer(const std::string& base64);

// Decides which certificates are trusted at this moment: those that an authority in a file has issued, directly or
// through others, and that have not expired. TLS decides this only once, when a connection begins. With this class, the
// server decides it again for connections that are open. Thread-safe.
class Trust {
 public:
  // `ca_file`: certificates of authorities in PEM form.
  explicit Trust(std::string ca_file);
  ~Trust();

  // Reads the file again if it has changed. Call it once a second. If the file cannot be read, or has no certificate,
  // the trusted authorities do not change.
  void Refresh();

  // Returns whether the first certificate of a PEM text is trusted. Intermediate certificates may follow it in the
  // text.
  bool Vouches(const std::string& pem) const { return NameOf(pem).has_value(); }

  // Returns the common name (CommonNameOf) of a trusted certificate; nothing if the certificate is not trusted.
  std::optional<std::string> NameOf(const std::string& pem) const;

 private:
  struct Authorities;

  const std::string ca_file_;
  mutable absl::Mutex mutex_;
  std::string content_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Authorities> authorities_ ABSL_GUARDED_BY(mutex_);

  // The result of verifying a certificate. It is kept, so that the certificate need not be verified for every call.
  struct Answer {
    bool is_good = false;
    absl::Time end;    // When the certificate expires.
    std::string name;  // The certificate's common name.
  };
  mutable std::map<std::string, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Time answers_begin_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // Time of the oldest answer.
};

}  // namespace ampd
