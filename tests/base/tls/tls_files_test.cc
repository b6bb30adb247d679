#include "base/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "base/error.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd {
namespace {

using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    files_.Write("ca.pem", authority_.certificate);
    good_ = files_.IssueTo("good", authority_, "ca.pem");
  }

  std::string FaultOf(const TlsFiles& files) {
    const absl::Status status = CheckTlsFiles(files, /*needs_certificate=*/true);
    EXPECT_EQ(ReasonOf(status), "BAD_TLS_FILES") << status;
    return std::string(status.message());
  }

  CertificateFiles files_;
  const CertificateAndKey authority_ = CertificateFiles::Authority();
  TlsFiles good_;
};

TEST_F(TlsFilesTest, GoodFilesAreAccepted_AndAClientNeedsNoCertificate) {
  EXPECT_TRUE(CheckTlsFiles(good_, /*needs_certificate=*/true).ok());
  EXPECT_TRUE(CheckTlsFiles({.ca = good_.ca, .certificate = "", .key = ""}, /*needs_certificate=*/false).ok());
  EXPECT_THAT(FaultOf({.ca = good_.ca, .certificate = "", .key = ""}), HasSubstr("TLS needs --cert FILE too"));
}

TEST_F(TlsFilesTest, EachFaultNamesItsFile) {
  TlsFiles files = good_;
  files.ca = "";
  EXPECT_THAT(FaultOf(files), HasSubstr("TLS needs --ca FILE too"));
  files.ca = files_.Path("none.pem");
  EXPECT_THAT(FaultOf(files), HasSubstr("none.pem: "));
  files_.Write("text.pem", "no certificate");
  files.ca = files_.Path("text.pem");
  EXPECT_THAT(FaultOf(files), HasSubstr("text.pem: has no certificate"));
  files = good_;
  files.key = "";
  EXPECT_THAT(FaultOf(files), HasSubstr("TLS needs --key FILE too"));
  files.key = good_.certificate;
  EXPECT_THAT(FaultOf(files), HasSubstr("good.pem: has no key"));
  files.key = files_.IssueTo("other", authority_, "ca.pem").key;
  EXPECT_THAT(FaultOf(files), HasSubstr("other.key: is not the key of the certificate in"));
  EXPECT_THAT(FaultOf(files_.IssueTo("old", authority_, "ca.pem", {}, -absl::Seconds(1))),
              HasSubstr("old.pem: the certificate has expired"));
}

TEST_F(TlsFilesTest, AKeyThatOthersCanReadOrChange_IsRefused) {
  for (const mode_t mode : {0604, 0602, 0620, 0644}) {
    ASSERT_EQ(chmod(good_.key.c_str(), mode), 0);
    EXPECT_THAT(FaultOf(good_), HasSubstr("chmod 600")) << mode;
  }
  ASSERT_EQ(chmod(good_.key.c_str(), 0640), 0);
  EXPECT_TRUE(CheckTlsFiles(good_, true).ok()) << "a group may be given the key to read";
}

TEST_F(TlsFilesTest, AFileExpiresWithItsFirstCertificate) {
  const CertificateAndKey soon = CertificateFiles::Issue(authority_, "soon", {}, absl::Minutes(10));
  files_.Write("both.pem", authority_.certificate + soon.certificate);
  files_.Write("soon.pem", soon.certificate);
  const absl::StatusOr<absl::Time> both = CertificateExpiry(files_.Path("both.pem"));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(*both, *CertificateExpiry(files_.Path("soon.pem")));
  // The difference is not exact: the certificates were made one after the other, and expire at whole seconds.
  const absl::Duration difference = *CertificateExpiry(files_.Path("ca.pem")) - *both;
  EXPECT_LE(difference, absl::Hours(24) - absl::Minutes(10));
  EXPECT_GT(difference, absl::Hours(24) - absl::Minutes(11));
  EXPECT_EQ(ReasonOf(CertificateExpiry(good_.key).status()), "BAD_TLS_FILES");
  EXPECT_EQ(ReasonOf(CertificateExpiry(files_.Path("missing.pem")).status()), "BAD_TLS_FILES");
}

}  // namespace
}  // namespace ampd
