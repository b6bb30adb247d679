#include "data/cifar.h"
#include "tests/fuzz/target.h"

namespace {

using ampd::data::CifarLabels;
using ampd::fuzz::Require;

absl::Status ReadAs(const ampd::data::DataFile& file, CifarLabels labels, int64_t num_classes) {
  const auto images = ampd::data::ReadCifar({file}, labels, 0, num_classes);
  if (!images.ok()) {
    ampd::fuzz::RequireTypedError(images.status());
    return images.status();
  }
  const auto num_pixels = static_cast<int64_t>(images->pixels.size());
  Require(!images->labels.empty(), "there is a sample");
  Require(num_pixels == static_cast<int64_t>(images->labels.size()) * ampd::data::kCifarPixelBytes,
          "each sample has its pixels");
  for (const uint8_t label : images->labels) {
    Require(label < num_classes, "labels are below the number of classes");
  }
  const auto first = ampd::data::ReadCifar({file}, labels, 1, num_classes);
  Require(first.ok() && first->labels.size() == 1 && first->labels[0] == images->labels[0], "a limit takes the first");
  return absl::OkStatus();
}

}  // namespace

// Reads the input as CIFAR-10, and as CIFAR-100 with the fine and with the coarse labels. The input counts as accepted
// if it can be read as CIFAR-10, or as CIFAR-100 with both kinds of labels.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const absl::Status ten = ReadAs(file, CifarLabels::kTen, 10);
  const absl::Status fine = ReadAs(file, CifarLabels::kHundredFine, 100);
  const absl::Status coarse = ReadAs(file, CifarLabels::kHundredCoarse, 20);
  ampd::fuzz::Judge(ten.ok() ? ten : fine.ok() ? coarse : fine);
  return 0;
}
