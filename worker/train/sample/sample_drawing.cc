#include "worker/train/sample/sample_drawing.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/png_writer.h"
#include "models/samples.h"
#include "worker/data/noise.h"
#include "worker/train/sample/picture_square.h"
#include "worker/train/sample/text_sample.h"

// B batch, T context length, V vocabulary size, Z noise numbers per picture, C channels, S pixels per side.
namespace ampd::train {
namespace {

// The extent of one dimension of an input or output.
int64_t Extent(const graph::Graph& graph, graph::ValueId value, size_t dim) {
  return graph.type(value).shape[dim].factor();
}

absl::Status CheckText(const v1::TextSampleSpec& text, const graph::Graph& generator) {
  const auto logits = generator.FindOutput("logits");
  if (!logits.has_value() || Extent(generator, *logits, 2) > models::kByteVocabulary) {
    return absl::InvalidArgumentError("sample.text takes a language model whose tokens are bytes");
  }
  const int64_t vocabulary = Extent(generator, *logits, 2);
  const bool is_known = std::all_of(text.prompt().begin(), text.prompt().end(),
                                    [&](char byte) { return static_cast<unsigned char>(byte) < vocabulary; });
  if (text.prompt().empty() || !is_known) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample.text.prompt must have one byte or more, all of them below ", vocabulary));
  }
  if (!text.merges().empty() || text.tokens() < 1 || text.tokens() > models::kMaxSampleTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("sample.text must have 1 to ", models::kMaxSampleTokens, " tokens and no merges"));
  }
  return absl::OkStatus();
}

absl::Status CheckImages(const v1::ImageSampleSpec& spec, const graph::Graph& generator) {
  const auto images = generator.FindOutput("images");
  const int64_t channels = images.has_value() ? Extent(generator, *images, 1) : 0;
  if (channels != 1 && channels != 3) {
    return absl::InvalidArgumentError("sample.images takes a GAN that makes grey or coloured pictures");
  }
  const int32_t most = models::MaxSampleRows(Extent(generator, *images, 2), channels);
  if (spec.rows() < 1 || spec.rows() > most) {
    return absl::InvalidArgumentError(absl::StrCat("sample.images.rows is ", spec.rows(), "; must be 1 to ", most));
  }
  return absl::OkStatus();
}

// Returns the text's last T bytes, as (1, T). A shorter text is filled up with zeros at its end, which have no effect
// in a causal model.
at::Tensor ContextOf(std::string_view text, int64_t length) {
  at::Tensor tokens = at::zeros({1, length}, at::kLong);
  std::transform(text.begin(), text.end(), tokens.data_ptr<int64_t>(),
                 [](char byte) { return static_cast<unsigned char>(byte); });
  return tokens;
}

std::optional<std::string> TextBy(const v1::TextSampleSpec& spec, const graph::Graph& generator, uint64_t seed,
                                  int64_t step, amp::Engine& engine, absl::FunctionRef<bool()> should_stop) {
  const int64_t length = Extent(generator, generator.inputs().front(), 1);
  bool is_cut = false;
  std::string drawn = DrawText(spec, seed, step, [&](std::string_view text) {
    is_cut = should_stop();
    if (is_cut) {
      return std::vector<float>();
    }
    const std::string_view context = text.substr(text.size() - std::min(text.size(), static_cast<size_t>(length)));
    const at::Tensor logits = engine.Generate(ContextOf(context, length)).contiguous();  // (1, T, V)
    const int64_t vocabulary = logits.size(2);
    const float* const last = logits.const_data_ptr<float>() + (static_cast<int64_t>(context.size()) - 1) * vocabulary;
    return std::vector<float>(last, last + vocabulary);
  });
  return is_cut ? std::nullopt : std::optional(std::move(drawn));
}

absl::StatusOr<std::optional<std::string>> PicturesBy(int64_t rows, const graph::Graph& generator, uint64_t seed,
                                                      amp::Engine& engine, absl::FunctionRef<bool()> should_stop) {
  const graph::ValueId images = *generator.FindOutput("images");
  const int64_t num_numbers = Extent(generator, generator.inputs().front(), 1);
  const at::Tensor noise = data::FixedNoiseOf(seed, rows * rows, num_numbers);  // (rows * rows, Z)
  PictureSquare square(rows, Extent(generator, images, 1), Extent(generator, images, 2));
  for (int64_t row = 0; row < rows; ++row) {
    if (should_stop()) {
      return std::nullopt;
    }
    const at::Tensor pictures = engine.Generate(noise.narrow(0, row * rows, rows)).contiguous();  // (rows, C, S, S)
    square.SetRow(row, {pictures.const_data_ptr<float>(), static_cast<size_t>(pictures.numel())});
  }
  AMPD_ASSIGN_OR_RETURN(std::string png, images::EncodePng(square.raster(), models::kMaxSampleBytes));
  return png;
}

}  // namespace

absl::Status CheckSample(const v1::SampleSpec& spec, const graph::Graph& generator) {
  switch (spec.kind_case()) {
    case v1::SampleSpec::kText:
      return CheckText(spec.text(), generator);
    case v1::SampleSpec::kImages:
      return CheckImages(spec.images(), generator);
    case v1::SampleSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("sample is of a kind that this trainer does not know");
}

absl::StatusOr<std::optional<v1::Sample>> DrawSample(const v1::SampleSpec& spec, const graph::Graph& generator,
                                                     uint64_t seed, int64_t step, amp::Engine& engine,
                                                     absl::FunctionRef<bool()> should_stop) {
  v1::Sample sample;
  sample.set_step(step);
  std::optional<std::string> content;
  if (spec.has_text()) {
    sample.set_file_name("sample.txt");
    sample.set_media_type("text/plain");
    content = TextBy(spec.text(), generator, seed, step, engine, should_stop);
  } else {
    sample.set_file_name("sample.png");
    sample.set_media_type("image/png");
    AMPD_ASSIGN_OR_RETURN(content, PicturesBy(spec.images().rows(), generator, seed, engine, should_stop));
  }
  if (!content.has_value()) {
    return std::nullopt;
  }
  sample.set_content(*std::move(content));
  return sample;
}

}  // namespace ampd::train
