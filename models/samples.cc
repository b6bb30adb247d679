#include "models/samples.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "models/dcgan.h"
#include "models/models.h"

namespace ampd::models {
namespace {

// PNG's overhead for pixels that do not compress is below 1/kFramingShare of their size: deflate adds 5 bytes to a
// block of 16 KiB, and PNG adds 12 bytes to a chunk of 8 KiB.
constexpr int64_t kFramingShare = 400;
// Bytes for the file's signature, header and end, with a large margin.
constexpr int64_t kFramingBytes = 1024;

// Whether the PNG file of `rows` x `rows` pictures fits into kMaxSampleBytes. PNG stores one filter byte before each
// row of pixels.
bool Fits(int64_t rows, int64_t image_size, int64_t channels) {
  const int64_t side = SampleSide(rows, image_size);
  const int64_t bytes = side * (side * channels + 1);
  return bytes + bytes / kFramingShare + kFramingBytes <= kMaxSampleBytes;
}

}  // namespace

int32_t MaxSampleRows(int64_t image_size, int64_t channels) {
  int32_t rows = 1;
  while (rows < kMaxSampleRows && Fits(rows + 1, image_size, channels)) {
    ++rows;
  }
  return rows;
}

absl::StatusOr<graph::Graph> BuildGenerator(const v1::JobSpec& spec) {
  if (spec.model().has_gpt2()) {
    return BuildModel(spec);
  }
  if (spec.model().has_dcgan()) {
    return BuildDcganGenerator(spec.model().dcgan());
  }
  return InvalidFields(
      {{"sample", absl::StrCat("model.", KindOf(spec.model()), " draws no samples; model.gpt2 and model.dcgan do")}});
}

}  // namespace ampd::models
