#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "base/tls/certificate_maker.h"
#include "base/tls/tls_files.h"

namespace ampd {

// A folder with certificate authorities and the certificates that they issued, in files. Deleted with the object.
class CertificateFiles {
 public:
  CertificateFiles() {
    std::string name = testing::TempDir() + "certificates-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~CertificateFiles() { std::filesystem::remove_all(folder_); }
  CertificateFiles(const CertificateFiles&) = delete;
  CertificateFiles& operator=(const CertificateFiles&) = delete;

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Writes the file, so that readers see either the old or the new content. Only its owner may read it.
  void Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomically(Path(name), text).ok()) << name;
    EXPECT_EQ(chmod(Path(name).c_str(), 0600), 0);
  }

  static CertificateAndKey Authority(const std::string& name = "test CA") {
    absl::StatusOr<CertificateAndKey> made = MakeAuthority(name, absl::Hours(24));
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  static CertificateAndKey Issue(const CertificateAndKey& authority, const std::string& name,
                                 const std::vector<std::string>& hosts = {}, absl::Duration validity = absl::Hours(1)) {
    absl::StatusOr<CertificateAndKey> made =
        IssueCertificate(authority, {.name = name, .hosts = hosts, .validity = validity});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // Issues a certificate and writes it to NAME.pem and its key to NAME.key. Returns the paths of both, and of the file
  // `ca` in this folder.
  TlsFiles IssueTo(const std::string& name, const CertificateAndKey& authority, const std::string& ca,
                   const std::vector<std::string>& hosts = {}, absl::Duration validity = absl::Hours(1)) const {
    const CertificateAndKey made = Issue(authority, name, hosts, validity);
    Write(name + ".key", made.key);
    Write(name + ".pem", made.certificate);
    return {.ca = Path(ca), .certificate = Path(name + ".pem"), .key = Path(name + ".key")};
  }

 private:
  std::string folder_;
};

}  // namespace ampd
