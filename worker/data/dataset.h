#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "data/array.h"
#include "data/cifar.h"
#include "data/data_file.h"
#include "data/jsonl.h"
#include "data/tokens.h"
#include "worker/data/augmentation.h"
#include "worker/data/field.h"
#include "worker/kernels/cpu/pixels.h"

namespace ampd::data {

// Samples in memory on the CPU: images with a class each, windows of a text with the token behind each of theirs, or
// texts with a class each; images also with numbers each, and arrays of a file also with fields beside images or
// instead of them. N samples of D elements each, B in a batch. Of images for a model without classes, `num_classes` 0,
// no labels are read: each is 0. Thread-compatible; reading is thread-safe.
class Dataset {
 public:
  struct Idx {
    DataFile images;
    DataFile labels;
    double mean = 0;
    double deviation = 1;
    int64_t limit = 0;  // 0: all
    int64_t num_classes = 0;
  };
  // Pixels are mapped to (value - mean) / deviation: one number for all channels or one for each; none: 0 and 1.
  struct Normalization {
    std::vector<double> mean;
    std::vector<double> deviation;
  };
  struct Cifar {
    std::vector<DataFile> files;
    CifarLabels kind = CifarLabels::kTen;
    Normalization normalization;  // of pixels mapped to [0, 1]
    int64_t limit = 0;
    int64_t num_classes = 0;
  };
  // Arrays as they were read. Images are (N, D), (N, H, W) or (N, C, H, W), or (N, H, W, C) where the channels are
  // last; uint8 is mapped to [0, 1], any other type taken as float. Labels are (N) or (N, 1), integers, or `targets`.
  // REQUIRES: it takes images or has fields.
  struct Arrays {
    Array images;
    Array labels;
    std::string images_name;  // what messages call them
    std::string labels_name;
    bool channels_last = false;
    Normalization normalization;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // instead of classes
    bool takes_images = true;
    std::vector<FieldArray> fields;
  };
  struct Numpy {
    std::optional<DataFile> archive;  // an .npz file with both arrays; unset: two .npy files
    std::string images_array;         // in the archive
    std::string labels_array;
    DataFile images;  // without an archive
    DataFile labels;
    bool channels_last = false;
    Normalization normalization;
    int64_t limit = 0;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // instead of classes
    bool takes_images = true;
    std::vector<Field> fields;  // arrays of those names in the archive
  };
  struct Tensors {
    DataFile file;  // safetensors
    std::string images;
    std::string labels;
    bool channels_last = false;
    Normalization normalization;
    int64_t limit = 0;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // instead of classes
    bool takes_images = true;
    std::vector<Field> fields;  // tensors of those names
  };
  // Class prototypes with standard normal elements plus normal noise. The prototypes depend on the seed alone; training
  // and evaluation data of one seed differ in their noise.
  struct Synthetic {
    std::vector<int64_t> shape;  // of one sample
    int64_t num_classes = 0;
    int64_t num_samples = 0;
    uint64_t seed = 0;
    double noise = 1;
    bool evaluation = false;
  };

  // Windows of T tokens lie end to end: window i holds the tokens from i T on, and its labels are those from i T + 1
  // on, so that the last label of a window is the first token of the next one. What is left at the end is not used.
  struct Text {
    DataFile file;
    TokenFormat format = TokenFormat::kAuto;
    int64_t sequence_length = 0;  // T
    int64_t limit = 0;            // of windows; 0: all
    int64_t vocabulary = 0;
  };

  // Texts with a class each, all T tokens long: longer ones are cut, shorter ones filled up.
  struct LabelledTexts {
    DataFile file;                // JSON lines
    int64_t sequence_length = 0;  // T
    int64_t pad_token = 0;
    int64_t limit = 0;                  // of lines; 0: all
    std::optional<int64_t> vocabulary;  // unset: not known
    int64_t num_types = 1;
    int64_t num_classes = 0;
  };

  struct Samples {
    at::Tensor images;  // (B, ...) float; of texts, tokens: (B, T) int64. Undefined where there are fields alone
    at::Tensor labels;  // (B), or (B, T) of windows of a text; int64. Of targets (B, ...), as they are
    // What else is known of the samples, by name: fields as they are; of texts with a class "attention_mask", (B, T)
    // bool, true where a text's own tokens are, and "token_type_ids", (B, T) int64.
    std::map<std::string, at::Tensor> others = {};

    int64_t bytes() const;  // of all of them
  };

  // Reasons of errors as in data_file.h.
  static absl::StatusOr<Dataset> ReadIdx(const Idx& source);
  static absl::StatusOr<Dataset> ReadCifar(const Cifar& source);
  static absl::StatusOr<Dataset> ReadNumpy(const Numpy& source);
  static absl::StatusOr<Dataset> ReadSafetensors(const Tensors& source);
  static absl::StatusOr<Dataset> FromArrays(Arrays source);
  static absl::StatusOr<Dataset> MakeSynthetic(const Synthetic& source);
  static absl::StatusOr<Dataset> ReadText(const Text& source);
  static absl::StatusOr<Dataset> ReadLabelledTexts(const LabelledTexts& source);

  // Whether the samples are windows of a text, with a label a position.
  bool is_text() const { return windows_.has_value(); }
  // Of the model's inputs that the samples are for: of `images`, and then of `others`.
  std::vector<std::string_view> input_names() const;
  // Of one image, (C, H, W); empty where the data does not say how its elements lie.
  std::vector<int64_t> image_shape() const;
  int64_t size() const;
  int64_t sample_elements() const;  // of the first of those inputs
  // Of texts with a class: how many of them were cut.
  int64_t num_cut() const { return padded_.has_value() ? padded_->texts.num_cut : 0; }
  // Of tokens without a header: how the file was read, for people (tokens.h). Empty otherwise.
  const std::string& note() const { return note_; }

  // The samples at `indices`, images normalised. Runs on the calling thread alone. REQUIRES: each is in [0, size).
  Samples Get(const std::vector<int64_t>& indices) const;
  // As above, as `augmentation` changes images in an epoch. What it pads with is what a zero of the file is mapped to.
  // REQUIRES: image_shape() is not empty, or the augmentation does nothing.
  Samples Get(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch) const;

 private:
  struct Windows {
    Tokens tokens;
    int64_t length = 0;  // T
    int64_t count = 0;   // N
  };

  struct Padded {
    Texts texts;
    int64_t length = 0;  // T
    int64_t pad_token = 0;
  };

  explicit Dataset(Windows windows) : windows_(std::move(windows)) {}
  explicit Dataset(Padded padded) : padded_(std::move(padded)) {}
  static Samples Gather(const Windows& windows, const std::vector<int64_t>& indices);
  static Samples Gather(const Padded& padded, const std::vector<int64_t>& indices);

  template <typename Element>
  void GatherImages(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch,
                    float* out) const;

  // Images are (N, ...), uint8 or float; labels (N, ...), contiguous. `normalization` has one number or one for each
  // channel.
  Dataset(at::Tensor images, at::Tensor labels, const Normalization& normalization);
  // Whether mean and std map every number that an image may have to a finite one. DATA_ERROR beginning with `name`.
  absl::Status CheckMapping(const std::string& name) const;

  std::string note_;
  std::optional<Windows> windows_;  // of a text, which has nothing else
  std::optional<Padded> padded_;    // of texts with a class, which have nothing else

  at::Tensor images_;  // contiguous; undefined where there are fields alone
  at::Tensor labels_;
  std::vector<std::pair<std::string, at::Tensor>> fields_;  // contiguous, (N, ...) each
  // How the elements of the file become those of a sample: for each channel, or one for all. Numbers that are no bytes
  // are not divided by 255.
  std::vector<kernels::PixelScale> channels_;
};

}  // namespace ampd::data
