#include "tests/bench/policy_report_networks.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ATen/Context.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/status_macros.h"
#include "models/gpt.h"
#include "models/models.h"

namespace ampd::bench {
namespace {

constexpr uint64_t kDataSeed = 11;  // The same seed as in tools/gpu/gpu_peers.py.

// The kind of data that a network reads. In shapes, B is the batch size and T the length of a text.
enum class Reads { kImages, kTokens, kTexts };

struct Row {
  std::string_view name;
  std::string_view model;            // A ModelSpec as text. If empty, the network is a GPT of models/gpt.h.
  std::string_view tiny_model = {};  // The model for tiny runs. If empty, it is `model`.
  models::GptConfig gpt = {};
  models::GptConfig tiny_gpt = {};
  Reads reads = Reads::kImages;
  std::vector<int64_t> sample;  // Shape of a sample: (C, H, W) or (T).
  std::vector<int64_t> tiny_sample = {};
  int64_t classes = 10;  // Number of classes, or the size of the vocabulary.
  int64_t tiny_classes = 0;
  int64_t batch_size = 32;
};

constexpr models::GptConfig kSmallGpt = {
    .num_layers = 4, .width = 256, .num_heads = 4, .vocabulary = 512, .sequence_length = 128};
constexpr models::GptConfig kTinyGpt = {
    .num_layers = 2, .width = 64, .num_heads = 2, .vocabulary = 512, .sequence_length = 32};
constexpr std::string_view kGpt2 = "gpt2 {n_layer: 2 n_embd: 128 n_head: 4 vocab_size: 8192 n_positions: 64}";
constexpr std::string_view kBert =
    "bert_classifier {num_hidden_layers: 2 hidden_size: 128 num_attention_heads: 4 vocab_size: 1000 "
    "max_position_embeddings: 64}";
constexpr std::string_view kLstm = "rnn {cell: LSTM vocab_size: 1000 embedding_size: 32 hidden_size: 64}";
constexpr std::string_view kGru = "rnn {cell: GRU vocab_size: 1000 embedding_size: 32 hidden_size: 64}";

// Returns the networks: a small one of each kind, and two of usual size. gpt2 has dropout, and so many classes that its
// cross entropy is computed in parts.
const std::vector<Row>& Rows() {
  static const auto* const rows = new std::vector<Row>{
      {.name = "gpt",
       .gpt = kSmallGpt,
       .tiny_gpt = kTinyGpt,
       .reads = Reads::kTokens,
       .sample = {128},
       .tiny_sample = {32},
       .classes = 512,
       .batch_size = 8},
      {.name = "mlp", .model = "mlp {hidden: 256 hidden: 256}", .sample = {1, 28, 28}},
      {.name = "lenet", .model = "lenet {}", .sample = {1, 28, 28}},
      {.name = "resnet18", .model = "resnet {depth: 18 stem: CIFAR}", .sample = {3, 32, 32}},
      {.name = "efficientnet", .model = "efficientnet_b0 {num_classes: 10 image_size: 32}", .sample = {3, 32, 32}},
      {.name = "gpt2", .model = kGpt2, .reads = Reads::kTokens, .sample = {64}, .classes = 8192, .batch_size = 8},
      {.name = "bert", .model = kBert, .reads = Reads::kTexts, .sample = {64}, .classes = 2},
      {.name = "lstm", .model = kLstm, .reads = Reads::kTexts, .sample = {32}, .classes = 2},
      {.name = "gru", .model = kGru, .reads = Reads::kTexts, .sample = {32}, .classes = 2},
      {.name = "gpt2-124m",
       .tiny_gpt = kTinyGpt,
       .reads = Reads::kTokens,
       .sample = {1024},
       .tiny_sample = {32},
       .classes = 50257,
       .tiny_classes = 512,
       .batch_size = 8},
      {.name = "resnet50",
       .model = "resnet {depth: 50 stem: CIFAR}",
       .tiny_model = "resnet {depth: 18 stem: CIFAR image_size: 8}",
       .sample = {3, 32, 32},
       .tiny_sample = {3, 8, 8},
       .batch_size = 256}};
  return *rows;
}

constexpr int64_t kTinyBatch = 2;
constexpr int64_t kTextVocabulary = 1000;

absl::StatusOr<graph::Graph> BuildModel(const Row& row, bool tiny) {
  if (row.model.empty()) {
    return models::BuildGpt(tiny ? row.tiny_gpt : row.gpt);
  }
  v1::ModelSpec spec;
  const std::string_view text = tiny && !row.tiny_model.empty() ? row.tiny_model : row.model;
  google::protobuf::TextFormat::ParseFromString(std::string(text), &spec);
  models::FillDefaults(spec);
  return models::BuildModel(spec, row.reads == Reads::kImages ? 0 : row.sample[0]);
}

// Returns texts of different lengths, padded with 0.
amp::Batch Texts(const std::vector<int64_t>& shape, int64_t num_classes) {
  const at::Tensor tokens = at::randint(1, kTextVocabulary, shape, at::kLong);                   // (B, T)
  const at::Tensor lengths = at::randint(shape[1] / 2, shape[1] + 1, {shape[0], 1}, at::kLong);  // (B, 1)
  const at::Tensor mask = at::arange(shape[1]).unsqueeze(0).lt(lengths);                         // (B, T)
  return {tokens.mul(mask),
          at::randint(0, num_classes, {shape[0]}, at::kLong),
          {{"attention_mask", mask}, {"token_type_ids", at::zeros(shape, at::kLong)}}};
}

amp::Batch MakeBatch(Reads reads, const std::vector<int64_t>& shape, int64_t num_classes) {
  if (reads == Reads::kTexts) {
    return Texts(shape, num_classes);
  }
  if (reads == Reads::kImages) {
    const at::Tensor images = at::rand(shape);
    return {images, at::randint(0, num_classes, {shape[0]}, at::kLong)};
  }
  const at::Tensor tokens = at::randint(0, num_classes, shape, at::kLong);
  return {tokens, tokens.mul(3).add(1).remainder(num_classes)};  // Each token determines its label.
}

}  // namespace

std::vector<std::string_view> NetworkNames() {
  std::vector<std::string_view> names;
  std::transform(Rows().begin(), Rows().end(), std::back_inserter(names), [](const Row& row) { return row.name; });
  return names;
}

absl::StatusOr<Network> MakeNetwork(std::string_view name, const NetworkOptions& options) {
  const auto row = std::find_if(Rows().begin(), Rows().end(), [&](const Row& one) { return one.name == name; });
  if (row == Rows().end()) {
    return absl::NotFoundError(absl::StrCat("there is no network ", std::string(name)));
  }
  AMPD_ASSIGN_OR_RETURN(graph::Graph model, BuildModel(*row, options.tiny));
  std::vector<int64_t> shape = options.tiny && !row->tiny_sample.empty() ? row->tiny_sample : row->sample;
  const int64_t own_batch = options.tiny ? kTinyBatch : row->batch_size;
  shape.insert(shape.begin(), options.batch_size > 0 ? options.batch_size : own_batch);
  const int64_t num_classes = options.tiny && row->tiny_classes > 0 ? row->tiny_classes : row->classes;
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(kDataSeed);
  Network network = {std::move(model), {}};
  for (int i = 0; i < options.num_batches; ++i) {
    network.batches.push_back(MakeBatch(row->reads, shape, num_classes));
  }
  return network;
}

}  // namespace ampd::bench
