#include "worker/agent/artifacts/artifact_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/agent/fake_server.h"

namespace ampd::agent {
namespace {

class ArtifactClientTest : public testing::Test {
 protected:
  absl::Status Download(const std::string& name, int64_t offset, absl::Duration deadline = absl::Minutes(1)) {
    ArtifactClient client({.address = server_.address(), .token = "", .tls = {}}, deadline);
    return client.Download(name, offset, [this](std::string_view piece) {
      content_.append(piece);
      return absl::OkStatus();
    });
  }

  FakeServer server_{/*lease=*/absl::Seconds(1)};
  std::string content_;
};

TEST_F(ArtifactClientTest, Download_PassesTheContentOnFromTheOffset) {
  EXPECT_TRUE(Download(server_.AddArtifact("0123456789"), 4).ok());
  EXPECT_EQ(content_, "456789");
}

TEST_F(ArtifactClientTest, Download_TellsWhatTheServerSays) {
  EXPECT_EQ(Download("none", 0).code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactClientTest, Download_ThatTheServerNeverEnds_EndsAtItsDeadlineWithWhatCame) {
  server_.StallArtifacts();
  EXPECT_EQ(Download(server_.AddArtifact("0123456789"), 0, absl::Seconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(content_, "0123456789");
}

}  // namespace
}  // namespace ampd::agent
