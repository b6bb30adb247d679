#include "images/picture.h"

#include "absl/strings/str_cat.h"

namespace ampd::images {

absl::Status CheckSize(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxSide || height > kMaxSide || width * height > kMaxPixels) {
    return absl::DataLossError(absl::StrCat("is ", width, " x ", height, " pixels; at most ", kMaxSide, " a side and ",
                                            kMaxPixels, " in all"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Picture> DecodePicture(std::string_view content) {
  if (content.starts_with("\x89PNG\r\n\x1a\n")) {
    return DecodePng(content);
  }
  if (content.starts_with("\xff\xd8\xff")) {
    return DecodeJpeg(content);
  }
  return absl::DataLossError("is neither PNG nor JPEG");
}

}  // namespace ampd::images
