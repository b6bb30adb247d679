#include "server/monitoring/resource_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string PageOf(ResourceCollector::Options options) {
  return prometheus::TextSerializer().Serialize(ResourceCollector(std::move(options)).Collect());
}

TEST(ResourceCollector, ShowsTheDiskAndWhenCertificatesExpire) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const TlsFiles tls = files.IssueTo("server", authority, "ca.pem", {"127.0.0.1"}, absl::Hours(2));
  const std::string page = PageOf({.data_dir = files.Path("."),
                                   .certificates = {{"api", tls.certificate}, {"api-client-ca", ""}, {"metrics", ""}}});
  EXPECT_THAT(page, HasSubstr("\nampd_data_disk_free_bytes "));
  EXPECT_THAT(page, HasSubstr("\nampd_data_disk_size_bytes "));
  const absl::StatusOr<absl::Time> expiry = CertificateExpiry(tls.certificate);
  ASSERT_TRUE(expiry.ok()) << expiry.status();
  EXPECT_THAT(page, HasSubstr(absl::StrCat("ampd_certificate_expiry_timestamp_seconds{certificate=\"api\"} ",
                                           absl::ToUnixSeconds(*expiry), "\n")));
  EXPECT_THAT(page, Not(HasSubstr("api-client-ca")));
}

TEST(ResourceCollector, LeavesOutWhatCannotBeRead) {
  EXPECT_EQ(PageOf({.data_dir = "/no/such/folder", .certificates = {{"api", "/no/such/file"}}}), "");
}

TEST(ResourceCollector, ARenewedCertificateIsSeenAtOnce) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  const ResourceCollector collector(
      {.data_dir = "/no/such/folder",
       .certificates = {{"api", files.IssueTo("server", authority, "ca.pem", {}, absl::Hours(1)).certificate}}});
  const auto expiry = [&] { return collector.Collect().at(0).metric.at(0).gauge.value; };
  const double before = expiry();
  files.IssueTo("server", authority, "ca.pem", {}, absl::Hours(3));
  EXPECT_NEAR(expiry() - before, 7200, 60);
}

}  // namespace
}  // namespace ampd::server
