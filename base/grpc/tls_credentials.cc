#include "base/grpc/tls_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace ampd {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned int kSecondsBetweenLooks = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsFiles& files) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate, files.ca, kSecondsBetweenLooks));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ClientTlsCredentials(const TlsFiles& files) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.certificate.empty()) {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(files.ca, kSecondsBetweenLooks));
  } else {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate, files.ca, kSecondsBetweenLooks));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace ampd
