#include "base/grpc/tls_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "absl/status/statusor.h"
#include "base/tls/live_tls_files.h"

namespace ampd {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned int kSecondsBetweenLooks = 1;

// Accepts every certificate that gRPC has verified, and passes its common name to a callback.
class Observer : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Observer(std::function<void(const std::string&)> on_client) : on_client_(std::move(on_client)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* sync_status) override {
    const grpc::string_ref name = request->common_name();
    on_client_(std::string(name.data(), name.size()));
    *sync_status = grpc::Status::OK;
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::function<void(const std::string&)> on_client_;
};

// Returns the paths that gRPC watches: those of the copies that LiveTlsFiles makes or, if it cannot make copies, those
// of the files themselves.
TlsFiles WatchedFiles(const TlsFiles& files) {
  const absl::StatusOr<const LiveTlsFiles*> live = LiveTlsFiles::Of(files);
  return live.ok() ? (*live)->paths() : files;
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(
    const TlsFiles& files, std::function<void(const std::string& common_name)> on_client) {
  const TlsFiles watched = WatchedFiles(files);
  grpc::experimental::TlsServerCredentialsOptions options(std::make_shared<FileWatcherCertificateProvider>(
      watched.key, watched.certificate, watched.ca, kSecondsBetweenLooks));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  if (on_client) {
    options.set_certificate_verifier(
        grpc::experimental::ExternalCertificateVerifier::Create<Observer>(std::move(on_client)));
  }
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ClientTlsCredentials(const TlsFiles& files) {
  const TlsFiles watched = WatchedFiles(files);
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.certificate.empty()) {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(watched.ca, kSecondsBetweenLooks));
  } else {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        watched.key, watched.certificate, watched.ca, kSecondsBetweenLooks));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace ampd
