#include "base/tls/certificate_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/base/tls/certificate_files.h"

namespace ampd {
namespace {

using testing::HasSubstr;
using testing::Not;

// Returns the output of the program openssl, which reads our certificates independently of this code.
std::string Openssl(const std::string& arguments) {
  FILE* const pipe = popen(("openssl " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  char part[4096];
  while (fgets(part, sizeof(part), pipe) != nullptr) {
    text += part;
  }
  pclose(pipe);
  return text;
}

TEST(CertificateMaker, OpensslReadsAndVerifiesWhatItMakes) {
  const CertificateFiles files;
  const CertificateAndKey authority = CertificateFiles::Authority();
  files.Write("ca.pem", authority.certificate);
  files.IssueTo("server", authority, "ca.pem", {"node1", "10.0.0.1", "::1"});
  files.IssueTo("client", authority, "ca.pem");
  const std::string verify = "verify -x509_strict -CAfile " + files.Path("ca.pem") + " -purpose ";
  EXPECT_THAT(Openssl(verify + "sslserver " + files.Path("server.pem")), HasSubstr("server.pem: OK"));
  EXPECT_THAT(Openssl(verify + "sslclient " + files.Path("client.pem")), HasSubstr("client.pem: OK"));
  EXPECT_THAT(Openssl(verify + "sslclient " + files.Path("server.pem")), Not(HasSubstr("OK")));
  EXPECT_THAT(Openssl(verify + "sslserver " + files.Path("client.pem")), Not(HasSubstr("OK")));
  EXPECT_THAT(Openssl(verify + "sslserver -verify_hostname node1 " + files.Path("server.pem")), HasSubstr(": OK"));
  EXPECT_THAT(Openssl(verify + "sslserver -verify_hostname node2 " + files.Path("server.pem")), Not(HasSubstr(": OK")));
  EXPECT_THAT(Openssl(verify + "sslserver -verify_ip 10.0.0.1 " + files.Path("server.pem")), HasSubstr(": OK"));
  EXPECT_THAT(Openssl("x509 -noout -subject -in " + files.Path("client.pem")), HasSubstr("CN = client"));
}

TEST(CertificateMaker, AnIssuedCertificateIsNoAuthority) {
  const CertificateAndKey authority = CertificateFiles::Authority();
  const CertificateAndKey client = CertificateFiles::Issue(authority, "client");
  const CertificateFiles files;
  files.Write("ca.pem", authority.certificate);
  files.Write("client.pem", client.certificate);
  files.Write("forged.pem", CertificateFiles::Issue(client, "admin").certificate);
  EXPECT_THAT(Openssl("verify -CAfile " + files.Path("ca.pem") + " -untrusted " + files.Path("client.pem") + " " +
                      files.Path("forged.pem")),
              Not(HasSubstr(": OK")));
}

TEST(CertificateMaker, WrongNamesAndHostsAreRefused) {
  const CertificateAndKey authority = CertificateFiles::Authority();
  const auto code = [&authority](const std::string& name, const std::vector<std::string>& hosts) {
    return IssueCertificate(authority, {.name = name, .hosts = hosts, .validity = absl::Hours(1)}).status().code();
  };
  EXPECT_EQ(code("a", {"b"}), absl::StatusCode::kOk);
  EXPECT_EQ(code("", {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::string(65, 'a'), {}), absl::StatusCode::kInvalidArgument);
  for (const char* const host : {"", "a b", "a,DNS:b", "a\n", "a/b", "email:x@y"}) {
    EXPECT_EQ(code("a", {host}), absl::StatusCode::kInvalidArgument) << host;
  }
}

}  // namespace
}  // namespace ampd
