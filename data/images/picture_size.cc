#include "data/images/picture_size.h"

#include "absl/strings/str_cat.h"

namespace ampd::images {

absl::Status CheckSize(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxSide || height > kMaxSide || width * height > kMaxPixels) {
    return absl::DataLossError(absl::StrCat("is ", width, " x ", height, " pixels; at most ", kMaxSide, " a side and ",
                                            kMaxPixels, " in all"));
  }
  return absl::OkStatus();
}

}  // namespace ampd::images
