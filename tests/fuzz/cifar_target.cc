#include "tests/fuzz/target.h"
#include "worker/data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::data::CifarLabels;
  using ampd::fuzz::Require;
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto images = ampd::data::ReadCifar({file}, CifarLabels::kTen, 0, 10);
  ampd::fuzz::Judge(images.status());
  if (images.ok()) {
    const auto num_pixels = static_cast<int64_t>(images->pixels.size());
    Require(!images->labels.empty(), "there is a sample");
    Require(num_pixels == static_cast<int64_t>(images->labels.size()) * ampd::data::kCifarPixelBytes,
            "each sample has its pixels");
    for (const uint8_t label : images->labels) {
      Require(label < 10, "labels are below the number of classes");
    }
    const auto first = ampd::data::ReadCifar({file}, CifarLabels::kTen, 1, 10);
    Require(first.ok() && first->labels.size() == 1 && first->labels[0] == images->labels[0],
            "a limit takes the first");
  }
  return 0;
}
