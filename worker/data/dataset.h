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

// Samples in memory on the CPU. They are of one of these kinds:
//
// * Images, each with a class or with numbers as its label. Arrays of a file may also provide fields (inputs with
//   names of their own), in addition to images or instead of them.
// * Windows of a text, whose labels are the following tokens.
// * Texts with one class each.
//
// In shapes, N is the number of samples, D the number of elements of one sample, and B the number of samples in a
// batch. If a model has no classes (`num_classes` 0), the labels of images are not read, and each label is 0.
// Thread-compatible; reading is thread-safe.
class Dataset {
 public:
  struct Idx {
    DataFile images;
    DataFile labels;
    double mean = 0;
    double deviation = 1;
    int64_t limit = 0;  // Number of samples to read; 0: all.
    int64_t num_classes = 0;
  };
  // Maps pixels to (value - mean) / deviation. Each list has one number for all channels, or one number per channel. An
  // empty `mean` means 0, and an empty `deviation` means 1.
  struct Normalization {
    std::vector<double> mean;
    std::vector<double> deviation;
  };
  struct Cifar {
    std::vector<DataFile> files;
    CifarLabels kind = CifarLabels::kTen;
    Normalization normalization;  // Applied after pixels were mapped to [0, 1].
    int64_t limit = 0;
    int64_t num_classes = 0;
  };
  // Arrays as they were read from a file. Images are (N, D), (N, H, W) or (N, C, H, W), or (N, H, W, C) if the channels
  // are last. uint8 is mapped to [0, 1], any other type is converted to float. Labels are integers, (N) or (N, 1). If
  // the model takes other labels, `targets` describes them. The functions that take Arrays require that takes_images is
  // true or that there are `fields`.
  struct Arrays {
    Array images;
    Array labels;
    std::string images_name;  // Name of the array of images in messages.
    std::string labels_name;
    bool channels_last = false;
    Normalization normalization;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // Set if labels are not classes.
    bool takes_images = true;
    std::vector<FieldArray> fields;
  };
  struct Numpy {
    std::optional<DataFile> archive;  // An .npz file with both arrays; unset: two .npy files.
    std::string images_array;         // Name of the array of images in the archive.
    std::string labels_array;
    DataFile images;  // Read if there is no archive.
    DataFile labels;
    bool channels_last = false;
    Normalization normalization;
    int64_t limit = 0;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // Set if labels are not classes.
    bool takes_images = true;
    std::vector<Field> fields;  // Inputs to read from the archive's arrays of the same names.
  };
  struct Tensors {
    DataFile file;  // A safetensors file.
    std::string images;
    std::string labels;
    bool channels_last = false;
    Normalization normalization;
    int64_t limit = 0;
    int64_t num_classes = 0;
    std::optional<Targets> targets;  // Set if labels are not classes.
    bool takes_images = true;
    std::vector<Field> fields;  // Inputs to read from the file's tensors of the same names.
  };
  // Made-up data: each class has a prototype with standard normal elements, and a sample is its class's prototype plus
  // normal noise. The prototypes depend only on the seed. Training and evaluation data with the same seed have
  // different noise.
  struct Synthetic {
    std::vector<int64_t> shape;  // Shape of one sample.
    int64_t num_classes = 0;
    int64_t num_samples = 0;
    uint64_t seed = 0;
    double noise = 1;
    bool evaluation = false;
  };

  // Consecutive windows of T tokens. Window i holds T tokens, beginning with token i * T of the file. Its labels are
  // the T tokens that begin one token later, so the last label of a window is the first token of the next one. A window
  // at the end is dropped if it is incomplete or if its last label is missing. If the caller wants no labels, all
  // labels are 0.
  struct Text {
    DataFile file;
    TokenFormat format = TokenFormat::kAuto;
    int64_t sequence_length = 0;        // T
    int64_t limit = 0;                  // Maximum number of windows; 0: all.
    std::optional<int64_t> vocabulary;  // Number of different tokens; unset: unknown.
    bool needs_labels = true;
  };

  // Texts with one class each. Every text gets T tokens: a longer text is cut, and a shorter one is padded.
  struct LabelledTexts {
    DataFile file;                // JSON lines
    int64_t sequence_length = 0;  // T
    int64_t pad_token = 0;
    int64_t limit = 0;                     // Number of lines to read; 0: all.
    std::optional<int64_t> vocabulary;     // Number of different tokens; unset: unknown.
    std::optional<int64_t> num_types;      // Number of different token types; unset: unknown. All are below 256.
    std::optional<int64_t> num_classes;    // Unset: unknown.
    std::optional<int64_t> ignored_label;  // One more label that is allowed.
    bool needs_labels = true;              // If false, a line without a label gets the label 0.
  };

  struct Samples {
    at::Tensor images;  // (B, ...) float; for texts, tokens (B, T) int64. Undefined if there are only fields.
    at::Tensor labels;  // (B), or (B, T) for windows of a text; int64. Targets are (B, ...), in their own type.
    // The model's other inputs by name. These are the fields, with the types and shapes that the model takes. For texts
    // with a class they are "attention_mask", (B, T) bool, true at tokens that are not padding, and "token_type_ids",
    // (B, T) int64.
    std::map<std::string, at::Tensor> others = {};

    int64_t bytes() const;  // Total size of all tensors in bytes.
  };
  // How Get returns images whose pixels are bytes in the file:
  // * kNumbers: as floats, normalised.
  // * kBytes: as uint8, not normalised. The caller then normalises them: (byte / 255 - mean) / deviation, with the
  //   means and deviations of pixel_scales().
  // Other images are always returned as floats.
  enum class Pixels { kNumbers, kBytes };

  // Errors have the reasons that data_file.h describes.
  static absl::StatusOr<Dataset> ReadIdx(const Idx& source);
  static absl::StatusOr<Dataset> ReadCifar(const Cifar& source);
  static absl::StatusOr<Dataset> ReadNumpy(const Numpy& source);
  static absl::StatusOr<Dataset> ReadSafetensors(const Tensors& source);
  static absl::StatusOr<Dataset> FromArrays(Arrays source);
  static absl::StatusOr<Dataset> MakeSynthetic(const Synthetic& source);
  static absl::StatusOr<Dataset> ReadText(const Text& source);
  static absl::StatusOr<Dataset> ReadLabelledTexts(const LabelledTexts& source);

  // Whether the samples are windows of a text, with one label per position.
  bool is_text() const { return windows_.has_value(); }
  // Names of the model's inputs that the samples provide: first the name of the input for `Samples::images`, then the
  // names in `Samples::others`.
  std::vector<std::string_view> input_names() const;
  // The mean and the deviation by which bytes are mapped: (byte / 255 - mean) / deviation, in fp32 and rounded after
  // each operation. (C, 2) float, one row per channel; (1, 2) if all channels have the same. Undefined if the images
  // are not bytes.
  at::Tensor pixel_scales() const;
  // Shape of one image, (C, H, W). Empty if the samples are not images, or if the data does not say which elements are
  // channels, rows and columns.
  std::vector<int64_t> image_shape() const;
  int64_t size() const;
  int64_t sample_elements() const;  // Elements per sample of the input that input_names() names first.
  // How many labelled texts were longer than the sequence length, and were cut.
  int64_t num_cut() const { return padded_.has_value() ? padded_->texts.num_cut : 0; }
  // Says, for users, how a token file without a header was read (tokens.h). Empty for other data.
  const std::string& note() const { return note_; }

  // Returns the samples at `indices`, with images normalised. Runs on the calling thread alone. REQUIRES: each index is
  // in [0, size).
  Samples Get(const std::vector<int64_t>& indices) const;
  // Returns the samples at `indices`. Images are first augmented with the random changes of `epoch` and then
  // normalised. The padding of an image counts as pixels that are 0 in the file. REQUIRES: each index is in [0, size);
  // image_shape() is not empty, or the augmentation does nothing.
  Samples Get(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch) const;
  // Like the function above. Writes into the tensors of `reuse` where shape and type are right, and else allocates.
  Samples Get(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch, Pixels pixels,
              Samples reuse) const;

 private:
  struct Windows {
    Tokens tokens;
    int64_t length = 0;  // T
    int64_t count = 0;   // N
    bool has_labels = true;
  };

  struct Padded {
    Texts texts;
    int64_t length = 0;  // T
    int64_t pad_token = 0;
  };

  explicit Dataset(Windows windows) : windows_(std::move(windows)) {}
  explicit Dataset(Padded padded) : padded_(std::move(padded)) {}
  static Samples Gather(const Windows& windows, const std::vector<int64_t>& indices, Samples reuse);
  static Samples Gather(const Padded& padded, const std::vector<int64_t>& indices, Samples reuse);

  template <typename Element, typename Out>
  void GatherImages(const std::vector<int64_t>& indices, const Augmentation& augmentation, int64_t epoch,
                    Out* out) const;

  // Makes a dataset of images. `images` are (N, ...), uint8 or float. `labels` are (N, ...), contiguous.
  // `normalization` has one number, or one per channel.
  Dataset(at::Tensor images, at::Tensor labels, const Normalization& normalization);
  // Checks that normalization maps every possible pixel value to a finite number. Otherwise returns DATA_ERROR; the
  // message begins with `name`.
  absl::Status CheckMapping(const std::string& name) const;

  std::string note_;
  std::optional<Windows> windows_;  // Set for windows of a text. All members below are then unset.
  std::optional<Padded> padded_;    // Set for texts with a class. All members below are then unset.

  at::Tensor images_;  // Contiguous; undefined if there are only fields.
  at::Tensor labels_;
  std::vector<std::pair<std::string, at::Tensor>> fields_;  // Contiguous, (N, ...) each.
  // The mappings from elements of the file to elements of a sample: one per channel, or one for all channels. Only
  // elements that are bytes are also divided by 255.
  std::vector<kernels::PixelScale> channels_;
};

}  // namespace ampd::data
