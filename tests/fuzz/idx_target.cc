#include "data/idx.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::fuzz::Judge;
  using ampd::fuzz::Require;
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto images = ampd::data::ReadIdxImages(file, 0);
  const auto labels = ampd::data::ReadIdxLabels(file, 0, 10);
  Require(!images.ok() || !labels.ok(), "a file is of images or of labels");
  Judge(labels.ok() ? labels.status() : images.status());
  if (images.ok()) {
    const auto num_pixels = static_cast<int64_t>(images->pixels.size());
    Require(num_pixels == images->count * images->rows * images->columns, "there are as many pixels as the shape says");
  }
  for (size_t i = 0; labels.ok() && i < labels->size(); ++i) {
    Require((*labels)[i] < 10, "labels are below the number of classes");
  }
  return 0;
}
