#include "server/init/init.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/random.h"
#include "base/tls/tls_files.h"
#include "base/tls/trust.h"
#include "server/init/proxy_template.h"
#include "server/tokens/token_store.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

class InitTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Init(const std::vector<std::string>& hosts = {"node1", "10.0.0.1"}) {
    return InitServer({.data_dir = data_, .hosts = hosts});
  }
  absl::StatusOr<std::string> Cert(const std::string& name) {
    return MakeCertificate({.data_dir = data_, .name = name, .hosts = {}, .out = folder_.Path("")});
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }

  TemporaryFolder folder_;
  const std::string data_ = folder_.Path("data");
};

TEST_F(InitTest, MakesFilesThatTlsTakes_AndASecretThatTheStoreKnows) {
  const absl::StatusOr<std::string> text = Init();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("ampctl context add prod node1:7070 --ca ca.pem"));
  const std::string tls = data_ + "/tls/";
  EXPECT_TRUE(CheckTlsFiles({.ca = tls + "ca.pem", .certificate = tls + "server.pem", .key = tls + "server.key"},
                            /*needs_certificate=*/true)
                  .ok());
  EXPECT_EQ(ModeOf(data_), 0700u);
  EXPECT_EQ(ModeOf(tls), 0700u);
  for (const char* const secret : {"tls/ca.key", "tls/server.key", "tls/proxy.pem", "admin.token", "tokens.db"}) {
    EXPECT_EQ(ModeOf(data_ + "/" + secret), 0600u) << secret;
  }
  const auto store =
      TokenStore::Open({.path = data_ + "/tokens.db", .clock = &SystemClock(), .random = &SystemRandom()});
  std::string token = *ReadFile(data_ + "/admin.token", 1000);
  ASSERT_EQ(token.back(), '\n');
  token.pop_back();
  EXPECT_EQ((*store)->Find(token)->role(), v1::ADMIN);
}

TEST_F(InitTest, CertificatesOfItsAuthorityAreTrusted) {
  ASSERT_TRUE(Init().ok());
  ASSERT_TRUE(Cert("worker-1").ok());
  const TlsFiles files{
      .ca = data_ + "/tls/ca.pem", .certificate = folder_.Path("worker-1.pem"), .key = folder_.Path("worker-1.key")};
  EXPECT_TRUE(CheckTlsFiles(files, /*needs_certificate=*/true).ok());
  EXPECT_TRUE(Trust(files.ca).Vouches(*ReadFile(files.certificate, 1 << 16)));
  EXPECT_EQ(ModeOf(files.key), 0600u);
}

TEST_F(InitTest, NothingIsReplaced) {
  ASSERT_TRUE(Init().ok());
  const std::string ca = *ReadFile(data_ + "/tls/ca.pem", 1 << 16);
  const absl::Status again = Init().status();
  EXPECT_EQ(ReasonOf(again), "ALREADY_INITIALIZED") << again;
  EXPECT_EQ(*ReadFile(data_ + "/tls/ca.pem", 1 << 16), ca);
  ASSERT_TRUE(Cert("a").ok());
  EXPECT_EQ(ReasonOf(Cert("a").status()), "CANNOT_WRITE");
}

TEST_F(InitTest, AServersCertificateIsRenewedInPlace) {
  ASSERT_TRUE(Init().ok());
  const std::string tls = data_ + "/tls/";
  const std::string before = *ReadFile(tls + "server.pem", 1 << 16);
  const absl::StatusOr<std::string> renewed =
      MakeCertificate({.data_dir = data_, .name = "server", .hosts = {"node1"}, .out = tls, .replace = true});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  const std::string after = *ReadFile(tls + "server.pem", 1 << 16);
  EXPECT_NE(after, before);
  EXPECT_EQ(*ReadFile(tls + "proxy.pem", 1 << 16), after + *ReadFile(tls + "server.key", 1 << 16));
  EXPECT_TRUE(
      CheckTlsFiles({.ca = tls + "ca.pem", .certificate = tls + "server.pem", .key = tls + "server.key"}, true).ok());
  EXPECT_EQ(ModeOf(tls + "server.key"), 0600u);
}

TEST_F(InitTest, AServerNamedProxy_HasOneFileWithCertificateAndKey) {
  ASSERT_TRUE(Init().ok());
  const auto make = [&](bool replace) {
    return MakeCertificate(
        {.data_dir = data_, .name = "proxy", .hosts = {"node1"}, .out = folder_.path(), .replace = replace});
  };
  const absl::StatusOr<std::string> made = make(/*replace=*/false);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string pem = folder_.Path("proxy.pem");
  const std::string key = folder_.Path("proxy.key");
  EXPECT_THAT(*made, HasSubstr("proxy.pem, for HAProxy, with certificate and key"));
  EXPECT_THAT(*ReadFile(pem, 1 << 16), HasSubstr(*ReadFile(key, 1 << 16)));
  EXPECT_EQ(ModeOf(pem), 0600u);
  EXPECT_TRUE(CheckTlsFiles({.ca = data_ + "/tls/ca.pem", .certificate = pem, .key = key}, true).ok());
  EXPECT_EQ(ReasonOf(make(/*replace=*/false).status()), "CANNOT_WRITE");
  ASSERT_TRUE(make(/*replace=*/true).ok());
  EXPECT_THAT(*ReadFile(pem, 1 << 16), HasSubstr(*ReadFile(key, 1 << 16)));
}

TEST_F(InitTest, WhatIsLeftOfAnEarlierUse_IsFoundBeforeAFileIsWritten) {
  {
    std::filesystem::create_directory(data_);
    const auto store =
        TokenStore::Open({.path = data_ + "/tokens.db", .clock = &SystemClock(), .random = &SystemRandom()});
    v1::CreateTokenRequest request;
    request.set_name("admin");
    request.set_role(v1::VIEWER);
    ASSERT_TRUE((*store)->Create(request, "").ok());
  }
  const absl::Status used = Init().status();
  EXPECT_EQ(ReasonOf(used), "ALREADY_INITIALIZED");
  EXPECT_THAT(std::string(used.message()), HasSubstr("revoke that token"));
  EXPECT_FALSE(std::filesystem::exists(data_ + "/tls"));
}

TEST_F(InitTest, ABadHostOrNameLeavesNothingBehind) {
  EXPECT_EQ(Init({"node1", "no host"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(data_ + "/tls"));
  EXPECT_EQ(ReasonOf(Cert("a").status()), "NOT_INITIALIZED");
  ASSERT_TRUE(Init().ok());
  for (const char* const name : {"", "../a", "a/b", "-a", ".a", "a b", "a\n"}) {
    EXPECT_EQ(ReasonOf(Cert(name).status()), "BAD_NAME") << name;
  }
}

TEST_F(InitTest, ADirectoryThatAServerUsesIsRefused) {
  std::filesystem::create_directory(data_);
  const UniqueFd lock(open((data_ + "/lock").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  EXPECT_EQ(ReasonOf(Init().status()), "DATA_DIRECTORY_LOCKED");
  EXPECT_FALSE(std::filesystem::exists(data_ + "/tls"));
}

TEST(ProxyTemplate, IsTheFileOfTheImages) {
  EXPECT_EQ(*ReadFile(AMPD_SOURCE_DIR "/docker/haproxy/haproxy.cfg", 1 << 16), kProxyTemplate);
}

}  // namespace
}  // namespace ampd::server
