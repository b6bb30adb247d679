#include "server/oidc/https_get.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr long kTimeoutSeconds = 10;
constexpr long kStatusOk = 200;

struct FreeCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

size_t AppendBody(char* data, size_t size, size_t count, void* body) {
  auto* const text = static_cast<std::string*>(body);
  if (size * count > kMaxBytes - text->size()) {
    return 0;  // libcurl ends the transfer if this is not the number of received bytes.
  }
  text->append(data, size * count);
  return size * count;
}

int IsCancelled(void* request, curl_off_t /*to_get*/, curl_off_t /*got*/, curl_off_t /*to_send*/, curl_off_t /*sent*/) {
  return static_cast<const HttpsRequest*>(request)->cancelled->load() ? 1 : 0;
}

void SetOptions(CURL* curl, const HttpsRequest& request, std::string* body, char* problem) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!request.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kTimeoutSeconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, AppendBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
  if (request.cancelled != nullptr) {
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, IsCancelled);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &request);
  }
}

}  // namespace

absl::StatusOr<std::string> HttpsGet(const HttpsRequest& request) {
  static const bool is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  const std::unique_ptr<CURL, FreeCurl> curl(is_ready ? curl_easy_init() : nullptr);
  if (curl == nullptr) {
    return absl::UnavailableError("libcurl does not start");
  }
  std::string body;
  char problem[CURL_ERROR_SIZE] = "";
  SetOptions(curl.get(), request, &body, problem);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code == CURLE_WRITE_ERROR) {
    return absl::UnavailableError(absl::StrCat(request.url, " answers with more than ", kMaxBytes, " bytes"));
  }
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat("cannot fetch ", request.url, ": ", problem[0] != '\0' ? problem : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  return status == kStatusOk ? absl::StatusOr<std::string>(std::move(body))
                             : absl::UnavailableError(absl::StrCat(request.url, " answers with HTTP status ", status));
}

}  // namespace ampd::server
