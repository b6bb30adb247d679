// Gathers batches from a dataset. Uses plain loops instead of LibTorch's ops. These ops would start a second team of
// threads if a batch is gathered during a step, and would read a batch of bytes four times.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ATen/ops/aminmax.h"
#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "data/data_file.h"
#include "worker/data/dataset.h"
#include "worker/data/reused_tensor.h"

namespace ampd::data {
namespace {

float NumberOf(const std::vector<double>& numbers, size_t channel, float otherwise) {
  return numbers.empty() ? otherwise : static_cast<float>(numbers[numbers.size() == 1 ? 0 : channel]);
}

// Copies bytes unchanged. The device converts them to numbers later.
void Map(const uint8_t* in, int64_t count, const kernels::PixelScale& /*channel*/, uint8_t* out) {
  std::memcpy(out, in, static_cast<size_t>(count));
}

// Maps `count` elements by `channel`. Each result equals (x - mean) / deviation in float32, rounded after each
// operation.
template <typename Element>
void Map(const Element* in, int64_t count, const kernels::PixelScale& channel, float* out) {
  if constexpr (std::is_same_v<Element, uint8_t>) {
    static const kernels::MapPixels map_pixels = kernels::BestPixels();
    map_pixels(in, count, channel, out);
  } else if (channel.mean == 0 && channel.deviation == 1) {
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
  } else {
    const float mean = channel.mean;
    const float deviation = channel.deviation;
    for (int64_t i = 0; i < count; ++i) {
      out[i] = (in[i] - mean) / deviation;
    }
  }
}

struct Plane {
  int64_t rows;
  int64_t columns;
};

// Maps one channel (H, W) of one image, after applying the image's random change.
template <typename Element, typename Out>
void MapChanged(const Element* in, const Plane& plane, const ImageChange& change, int64_t padding,
                const kernels::PixelScale& channel, Out* out) {
  const Element zero = 0;
  Out padded = 0;
  Map(&zero, 1, channel, &padded);
  const int64_t shift = change.left - padding;  // How far the crop is shifted to the right, in pixels of the image.
  const int64_t begin = std::clamp<int64_t>(-shift, 0, plane.columns);
  const int64_t end = std::clamp<int64_t>(plane.columns - shift, begin, plane.columns);
  for (int64_t row = 0; row < plane.rows; ++row, out += plane.columns) {
    const int64_t from = row + change.top - padding;
    if (from < 0 || from >= plane.rows || begin == end) {
      std::fill_n(out, plane.columns, padded);
      continue;
    }
    std::fill_n(out, begin, padded);
    Map(in + from * plane.columns + begin + shift, end - begin, channel, out + begin);
    std::fill(out + end, out + plane.columns, padded);
    if (change.mirrored) {
      std::reverse(out, out + plane.columns);
    }
  }
}

// Prefetches rows into the cache before they are read. The rows are not consecutive in memory, so the processor's own
// prefetcher predicts at most the rest of one row. A row is prefetched when about kBytesAhead bytes are still to be
// copied before it, because copying so many bytes takes as long as a memory access.
class RowsAhead {
 public:
  // Prefetches the rows at `indices`, in this order. Both arguments must outlive this object.
  RowsAhead(const void* rows, size_t row_bytes, const std::vector<int64_t>& indices)
      : rows_(static_cast<const char*>(rows)),
        row_bytes_(row_bytes),
        indices_(indices),
        distance_((kBytesAhead + row_bytes - 1) / std::max<size_t>(row_bytes, 1)) {
    for (size_t place = 0; place < std::min(distance_, indices.size()); ++place) {
      Prefetch(place);
    }
  }

  // Call it just before reading the row at indices[place]. Prefetches a later row.
  [[gnu::always_inline]] void Reach(size_t place) const {
    if (place + distance_ < indices_.size()) {
      Prefetch(place + distance_);
    }
  }

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kBytesAhead = 2048;
  static constexpr size_t kMostOfARow = 4096;

  // Always inlined, because g++ 12 assumes that a function that only prefetches has no effect, and removes its calls.
  [[gnu::always_inline]] void Prefetch(size_t place) const {
    const char* const row = rows_ + static_cast<size_t>(indices_[place]) * row_bytes_;
    for (size_t i = 0; i < std::min(row_bytes_, kMostOfARow); i += kLine) {
      __builtin_prefetch(row + i);
    }
  }

  const char* rows_;
  size_t row_bytes_;
  const std::vector<int64_t>& indices_;
  size_t distance_;
};

// The shape (B, ...) of a batch of the rows at `indices` of `all`, which is (N, ...).
std::vector<int64_t> BatchShape(const at::Tensor& all, const std::vector<int64_t>& indices) {
  std::vector<int64_t> shape = all.sizes().vec();
  shape[0] = static_cast<int64_t>(indices.size());
  return shape;
}

// Copies the rows at `indices` unchanged.
at::Tensor GatherRows(const at::Tensor& all, const std::vector<int64_t>& indices, const at::Tensor& reuse) {
  at::Tensor rows = EmptyLikeOr(reuse, BatchShape(all, indices), all.scalar_type());
  if (indices.empty()) {
    return rows;
  }
  const size_t bytes = rows.nbytes() / indices.size();  // Bytes of one row.
  const auto* const from = static_cast<const uint8_t*>(all.const_data_ptr());
  auto* out = static_cast<uint8_t*>(rows.mutable_data_ptr());
  const RowsAhead ahead(from, bytes, indices);
  for (size_t place = 0; place < indices.size(); ++place, out += bytes) {
    ahead.Reach(place);
    std::memcpy(out, from + static_cast<size_t>(indices[place]) * bytes, bytes);
  }
  return rows;
}

}  // namespace

Dataset::Dataset(at::Tensor images, at::Tensor labels, const Normalization& normalization)
    : images_(std::move(images)), labels_(std::move(labels)) {
  channels_.resize(std::max({normalization.mean.size(), normalization.deviation.size(), size_t{1}}));
  for (size_t i = 0; i < channels_.size(); ++i) {
    channels_[i] = kernels::PixelScale::Of(NumberOf(normalization.mean, i, 0), NumberOf(normalization.deviation, i, 1));
  }
}

absl::Status Dataset::CheckMapping(const std::string& name) const {
  if (!images_.defined() || images_.numel() == 0) {
    return absl::OkStatus();
  }
  std::vector<float> extremes = {0, 1};  // Bytes are first mapped to this range.
  if (images_.scalar_type() != at::kByte) {
    const auto [least, greatest] = at::aminmax(images_);
    extremes = {least.item<float>(), greatest.item<float>()};
  }
  for (const kernels::PixelScale& channel : channels_) {
    for (const float extreme : extremes) {
      const float mapped = (extreme - channel.mean) / channel.deviation;
      if (!std::isfinite(mapped)) {
        return DataError(name, absl::StrCat("the number ", extreme, " is mapped to ", mapped, " by a mean of ",
                                            channel.mean, " and a std of ", channel.deviation));
      }
    }
  }
  return absl::OkStatus();
}

template <typename Element, typename Out>
void Dataset::GatherImages(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch,
                           Out* out) const {
  const Element* const all = images_.const_data_ptr<Element>();
  const int64_t elements = images_.numel() / size();
  const auto num_planes =
      augmentation.enabled() ? images_.size(1) : static_cast<int64_t>(channels_.size());  // Equal parts of one sample.
  const int64_t of_plane = elements / num_planes;
  const RowsAhead ahead(all, static_cast<size_t>(elements) * sizeof(Element), indices);
  for (size_t place = 0; place < indices.size(); ++place) {
    ahead.Reach(place);
    const int64_t index = indices[place];
    const Element* in = all + index * elements;
    const ImageChange change = augmentation.enabled() ? ChangeOf(augmentation, epoch, index) : ImageChange();
    for (int64_t i = 0; i < num_planes; ++i, in += of_plane, out += of_plane) {
      const kernels::PixelScale& channel = channels_[channels_.size() == 1 ? 0 : static_cast<size_t>(i)];
      if (augmentation.enabled()) {
        MapChanged(in, {images_.size(2), images_.size(3)}, change, augmentation.crop_padding, channel, out);
      } else {
        Map(in, of_plane, channel, out);
      }
    }
  }
}

int64_t Dataset::Samples::bytes() const {
  size_t sum = (images.defined() ? images.nbytes() : 0) + labels.nbytes();
  for (const auto& [name, tensor] : others) {
    sum += tensor.nbytes();
  }
  return static_cast<int64_t>(sum);
}

Dataset::Samples Dataset::Get(const std::vector<int64_t>& indices) const { return Get(indices, Augmentation(), 0); }

Dataset::Samples Dataset::Get(const std::vector<int64_t>& indices, const Augmentation& augmentation,
                              int64_t epoch) const {
  return Get(indices, augmentation, epoch, Pixels::kNumbers, {});
}

Dataset::Samples Dataset::Get(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch,
                              Pixels pixels, Samples reuse) const {
  if (is_text()) {
    return Gather(*windows_, indices, std::move(reuse));
  }
  if (padded_.has_value()) {
    return Gather(*padded_, indices, std::move(reuse));
  }
  Samples samples = {.images = {}, .labels = GatherRows(labels_, indices, reuse.labels)};
  for (const auto& [name, field] : fields_) {
    samples.others[name] = GatherRows(field, indices, reuse.others[name]);
  }
  if (!images_.defined()) {
    return samples;
  }
  const bool are_bytes = images_.scalar_type() == at::kByte;
  const bool stay_bytes = are_bytes && pixels == Pixels::kBytes;
  samples.images = EmptyLikeOr(reuse.images, BatchShape(images_, indices), stay_bytes ? at::kByte : at::kFloat);
  if (stay_bytes) {
    GatherImages<uint8_t>(indices, augmentation, epoch, samples.images.data_ptr<uint8_t>());
  } else if (are_bytes) {
    GatherImages<uint8_t>(indices, augmentation, epoch, samples.images.data_ptr<float>());
  } else {
    GatherImages<float>(indices, augmentation, epoch, samples.images.data_ptr<float>());
  }
  return samples;
}

at::Tensor Dataset::pixel_scales() const {
  if (!images_.defined() || images_.scalar_type() != at::kByte) {
    return {};
  }
  at::Tensor scales = at::empty({static_cast<int64_t>(channels_.size()), 2}, at::kFloat);
  float* out = scales.mutable_data_ptr<float>();
  for (const kernels::PixelScale& channel : channels_) {
    *out++ = channel.mean;
    *out++ = channel.deviation;
  }
  return scales;
}

Dataset::Samples Dataset::Gather(const Windows& windows, const std::vector<int64_t>& indices, Samples reuse) {
  const int64_t length = windows.length;
  const std::vector<int64_t> shape = {static_cast<int64_t>(indices.size()), length};
  Samples samples = {EmptyLikeOr(reuse.images, shape, at::kLong), EmptyLikeOr(reuse.labels, shape, at::kLong)};
  int64_t* input = samples.images.data_ptr<int64_t>();
  int64_t* label = samples.labels.data_ptr<int64_t>();
  std::visit(
      [&](const auto& tokens) {
        const auto* const all = tokens.data();
        const RowsAhead ahead(all, static_cast<size_t>(length) * sizeof(*all), indices);
        for (size_t place = 0; place < indices.size(); ++place) {
          ahead.Reach(place);
          const auto* const begin = all + indices[place] * length;
          input = std::copy(begin, begin + length, input);
          label = windows.has_labels ? std::copy(begin + 1, begin + length + 1, label) : std::fill_n(label, length, 0);
        }
      },
      windows.tokens);
  return samples;
}

}  // namespace ampd::data
