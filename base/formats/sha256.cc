#include "base/formats/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/io/file.h"

namespace ampd {

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new()) { EVP_DigestInit_ex(digest, EVP_sha256(), nullptr); }
  ~Context() { EVP_MD_CTX_free(digest); }
  EVP_MD_CTX* digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) { EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()); }

std::string Sha256::HexDigest() {
  std::string digest(32, '\0');
  EVP_DigestFinal_ex(context_->digest, reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return absl::BytesToHexString(digest);
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.HexDigest();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count == 0) {
      return sha.HexDigest();
    }
    if (count < 0 && errno != EINTR) {
      return ErrnoError(errno, "cannot be read");
    }
    if (count > 0) {
      sha.Update({buffer.data(), static_cast<size_t>(count)});
    }
  }
}

}  // namespace ampd
