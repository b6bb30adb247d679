#include "data/images/picture.h"

namespace ampd::images {

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
