#include "base/tls/trust.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/tls/certificate_files.h"

namespace ampd {
namespace {

TEST(Trust, VouchesForWhatItsAuthoritiesIssued) {
  const CertificateFiles files;
  const CertificateAndKey first = CertificateFiles::Authority("first"), second = CertificateFiles::Authority("second");
  files.Write("ca.pem", first.certificate);
  Trust trust(files.Path("ca.pem"));
  const std::string of_first = CertificateFiles::Issue(first, "a").certificate;
  const std::string of_second = CertificateFiles::Issue(second, "a").certificate;
  EXPECT_TRUE(trust.Vouches(of_first));
  EXPECT_FALSE(trust.Vouches(of_second));
  EXPECT_FALSE(trust.Vouches(of_second + of_first)) << "the first certificate of a chain counts";
  EXPECT_FALSE(trust.Vouches(""));
  EXPECT_FALSE(trust.Vouches("no certificate"));
  EXPECT_FALSE(trust.Vouches(CertificateFiles::Issue(first, "a", {}, -absl::Seconds(1)).certificate)) << "expired";
  EXPECT_FALSE(trust.Vouches(CertificateFiles::Issue(first, "a", {"node1"}).certificate)) << "of a server";
}

TEST(Trust, FollowsItsFile_ButKeepsItsAuthoritiesWhenTheFileIsGone) {
  const CertificateFiles files;
  const CertificateAndKey first = CertificateFiles::Authority("first"), second = CertificateFiles::Authority("second");
  const std::string of_first = CertificateFiles::Issue(first, "a").certificate;
  const std::string of_second = CertificateFiles::Issue(second, "a").certificate;
  files.Write("ca.pem", first.certificate + second.certificate);
  Trust trust(files.Path("ca.pem"));
  EXPECT_TRUE(trust.Vouches(of_first) && trust.Vouches(of_second));
  files.Write("ca.pem", second.certificate);
  EXPECT_TRUE(trust.Vouches(of_first)) << "the file is read by Refresh only";
  trust.Refresh();
  EXPECT_FALSE(trust.Vouches(of_first));
  EXPECT_TRUE(trust.Vouches(of_second));
  files.Write("ca.pem", "nothing");
  trust.Refresh();
  EXPECT_TRUE(trust.Vouches(of_second));
  std::filesystem::remove(files.Path("ca.pem"));
  trust.Refresh();
  EXPECT_TRUE(trust.Vouches(of_second));
  EXPECT_FALSE(Trust(files.Path("none.pem")).Vouches(of_second));
}

}  // namespace
}  // namespace ampd
