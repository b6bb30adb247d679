// Tests when LiveTlsFiles changes its copies of certificates and keys, which gRPC reads in place of the files.
#include "base/tls/live_tls_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/base/tls/certificate_files.h"

namespace ampd {
namespace {

std::string TextOf(const std::string& path) { return *ReadFile(path, 1 << 20); }

class LiveTlsFilesTest : public testing::Test {
 protected:
  LiveTlsFilesTest() { files_.Write("ca.pem", authority_.certificate); }

  // Waits until `live` has copied the content that the certificate and the key in `files` have now.
  static void AwaitCopiesOf(const TlsFiles& files, const LiveTlsFiles& live) {
    const std::string pair = TextOf(files.certificate) + "\n" + TextOf(files.key);
    for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(30);
         TextOf(live.paths().certificate) != pair;) {
      ASSERT_LT(SystemClock().SinceBoot(), end);
    }
  }
  // Waits until the thread of LiveTlsFiles has looked at all files that it watched before this call. The function adds
  // a new pair of certificate and key, which the thread looks at last in each pass. When the thread has copied a change
  // of this pair, it has looked at all other files too. The pair is changed twice, because the first change may happen
  // in the middle of a pass.
  void AwaitALook() const {
    const absl::StatusOr<const LiveTlsFiles*> last = LiveTlsFiles::Of(files_.IssueTo("last", authority_, "ca.pem"));
    ASSERT_TRUE(last.ok()) << last.status();
    for (int i = 0; i < 2; ++i) {
      AwaitCopiesOf(files_.IssueTo("last", authority_, "ca.pem"), **last);
    }
  }

  CertificateFiles files_;
  const CertificateAndKey authority_ = CertificateFiles::Authority();
};

// gRPC's threads and that of LiveTlsFiles read certificates until the process has ended.
TEST_F(LiveTlsFilesTest, AProcessCanEnd_WhileItsThreadsReadTheFiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TlsFiles files = files_.IssueTo("server", authority_, "ca.pem");
  for (int i = 0; i < 10; ++i) {
    const auto read_and_exit = [&files] {
      static std::atomic<int> num_reads = 0;
      for (int thread = 0; thread < 2; ++thread) {
        std::thread([&files] {
          while (ReadTlsFiles(files).ok()) {
            ++num_reads;
          }
        }).detach();
      }
      while (num_reads < 20) {
        std::this_thread::yield();
      }
      std::exit(0);
    };
    EXPECT_EXIT(read_and_exit(), testing::ExitedWithCode(0), "");
  }
}

TEST_F(LiveTlsFilesTest, TheSameFilesHaveTheSameCopies) {
  const TlsFiles files = files_.IssueTo("server", authority_, "ca.pem");
  const absl::StatusOr<const LiveTlsFiles*> live = LiveTlsFiles::Of(files);
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_EQ(*LiveTlsFiles::Of(files), *live);
  EXPECT_EQ((*live)->paths().certificate, (*live)->paths().key);
  EXPECT_EQ(TextOf((*live)->paths().certificate), TextOf(files.certificate) + "\n" + TextOf(files.key));
  EXPECT_EQ(TextOf((*live)->paths().ca), authority_.certificate);
  const absl::StatusOr<const LiveTlsFiles*> of_ca = LiveTlsFiles::Of({.ca = files.ca, .certificate = "", .key = ""});
  ASSERT_TRUE(of_ca.ok()) << of_ca.status();
  EXPECT_EQ((*of_ca)->paths().certificate, "");
  EXPECT_EQ(TextOf((*of_ca)->paths().ca), authority_.certificate);
}

TEST_F(LiveTlsFilesTest, CopiesStayUntilTheFilesFitTogether_AndAreThenNew) {
  const CertificateAndKey other_authority = CertificateFiles::Authority();
  files_.Write("own.pem", authority_.certificate);
  const TlsFiles files = files_.IssueTo("server", authority_, "own.pem");
  const absl::StatusOr<const LiveTlsFiles*> live = LiveTlsFiles::Of(files);
  ASSERT_TRUE(live.ok()) << live.status();
  const std::string before = TextOf((*live)->paths().certificate);
  const CertificateAndKey next = CertificateFiles::Issue(authority_, "server");
  files_.Write("server.key", next.key);
  AwaitALook();
  EXPECT_EQ(TextOf((*live)->paths().certificate), before) << "the key is not that of the certificate";
  files_.Write("own.pem", other_authority.certificate.substr(0, other_authority.certificate.size() / 2));
  files_.Write("server.pem", next.certificate);
  AwaitALook();
  EXPECT_EQ(TextOf((*live)->paths().certificate), before) << "the CA's file has only half a certificate";
  files_.Write("own.pem", other_authority.certificate);
  AwaitCopiesOf(files, **live);
  EXPECT_NE(TextOf((*live)->paths().certificate), before);
  EXPECT_EQ(TextOf((*live)->paths().ca), other_authority.certificate);
}

TEST_F(LiveTlsFilesTest, FilesThatNeverFit_AreAnError) {
  const TlsFiles files = files_.IssueTo("server", authority_, "ca.pem");
  files_.Write("server.key", CertificateFiles::Issue(authority_, "other").key);
  EXPECT_FALSE(LiveTlsFiles::Of(files).ok());
}

}  // namespace
}  // namespace ampd
