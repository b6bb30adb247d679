#include <turbojpeg.h>

#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/picture.h"

namespace ampd::images {
namespace {

struct Destroy {
  void operator()(tjhandle handle) const { tjDestroy(handle); }
};

// The largest accepted number of pixels per byte of a JPEG file. A real file has fewer, because a block of 64 pixels
// needs at least one bit. The limit prevents a hostile header from causing a large allocation.
constexpr int64_t kMaxPixelsOfAByte = 1024;

absl::Status Failed(tjhandle handle) {
  return absl::DataLossError(absl::StrCat("is no sound JPEG: ", tjGetErrorStr2(handle)));
}

}  // namespace

absl::StatusOr<Picture> DecodeJpeg(std::string_view content) {
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy> handle(tjInitDecompress());
  if (handle == nullptr) {
    return absl::ResourceExhaustedError("no memory to decode a JPEG");
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(content.data());
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(handle.get(), bytes, content.size(), &width, &height, &subsampling, &colours) != 0) {
    return Failed(handle.get());
  }
  if (width < 1 || height < 1) {
    return absl::DataLossError("is no sound JPEG: no picture is in it");
  }
  AMPD_RETURN_IF_ERROR(CheckSize(width, height));
  if (int64_t{width} * height > static_cast<int64_t>(content.size()) * kMaxPixelsOfAByte) {
    return absl::DataLossError(
        absl::StrCat("is no sound JPEG: ", width, " x ", height, " pixels can't be in ", content.size(), " bytes"));
  }
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    return absl::DataLossError("is a JPEG of CMYK colours; convert it to RGB");
  }
  Picture picture{width, height, std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3)};
  // Stop on warnings, because libjpeg only warns about truncated files, which are common. Limit scans, because a
  // hostile progressive file can request enough passes to take minutes.
  constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(handle.get(), bytes, content.size(), picture.pixels.data(), width, 0, height, TJPF_RGB, kFlags) !=
      0) {
    return Failed(handle.get());
  }
  return picture;
}

}  // namespace ampd::images
