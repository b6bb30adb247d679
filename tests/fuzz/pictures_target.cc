#include <string>
#include <string_view>

#include "data/images/picture.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::fuzz::Require;
  using ampd::images::kMaxPixels;
  const auto picture = ampd::images::DecodePicture({reinterpret_cast<const char*>(data), size});
  if (!picture.ok()) {
    Require(picture.status().code() == absl::StatusCode::kDataLoss, "what is wrong is wrong with the file");
    ampd::fuzz::Judge(ampd::data::DataError("input", std::string(picture.status().message())));
    return 0;
  }
  ampd::fuzz::Judge(absl::OkStatus());
  Require(picture->width > 0 && picture->height > 0 && picture->width * picture->height <= kMaxPixels,
          "the size is bounded");
  Require(picture->pixels.size() == static_cast<size_t>(picture->width * picture->height * 3),
          "every pixel has three bytes");
  return 0;
}
