#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ampd {

// SHA-256 of a stream of bytes. Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);
  // Returns the digest of all bytes: 64 lower-case hexadecimal digits. REQUIRES: called once, after the last Update.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(std::string_view bytes);

// The digest of a file's content, as HexDigest returns it. NOT_FOUND or INTERNAL if the file can't be read.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace ampd
