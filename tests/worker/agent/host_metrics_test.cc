#include "worker/agent/host_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd::agent {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string PageOf(const HostSources& sources) { return prometheus::TextSerializer().Serialize(HostMetrics(sources)); }

TEST(HostMetrics, ShowPressureDisksCertificatesAndTheProcess) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  files.Write("cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n");
  const std::string page = PageOf({.folders = {{"state", files.Path(".")}, {"checkpoints", "/no/such/folder"}},
                                   .certificates = {{"server-ca", files.Path("ca.pem")}, {"client", ""}},
                                   .pressure_folder = files.Path(".")});
  for (const char* line :
       {"ampd_worker_pressure_seconds_total{resource=\"cpu\"} 1.5\n", "ampd_worker_disk_free_bytes{folder=\"state\"} ",
        "ampd_worker_disk_size_bytes{folder=\"state\"} ", "process_start_time_seconds ", "process_open_fds ",
        "process_max_fds ", "process_cpu_seconds_total ", "process_resident_memory_bytes "}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  const absl::StatusOr<absl::Time> expiry = CertificateExpiry(files.Path("ca.pem"));
  ASSERT_TRUE(expiry.ok()) << expiry.status();
  EXPECT_THAT(page, HasSubstr(absl::StrCat("ampd_certificate_expiry_timestamp_seconds{certificate=\"server-ca\"} ",
                                           absl::ToUnixSeconds(*expiry), "\n")));
  EXPECT_THAT(page, Not(HasSubstr("\"checkpoints\"")));
  EXPECT_THAT(page, Not(HasSubstr("\"client\"")));
  EXPECT_THAT(page, Not(HasSubstr("resource=\"io\"")));
}

TEST(HostMetrics, WithoutSourcesOnlyTheProcessIsShown) {
  const std::string page = PageOf({.folders = {}, .certificates = {}, .pressure_folder = "/no/such/folder"});
  EXPECT_THAT(page, HasSubstr("process_open_fds "));
  EXPECT_THAT(page, Not(HasSubstr("ampd_")));
}

}  // namespace
}  // namespace ampd::agent
