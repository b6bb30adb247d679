#include "client/jobfile/job_template_parts.h"

namespace ampd::client {
namespace {

constexpr DataPart kDataParts[] = {
    {"idx",
     {1, 28, 10},
     R"(    # Fashion-MNIST. Other files in the format of MNIST are named in the same way: <data root>/<path>.
    idx:
      images: fashion-mnist/train-images-idx3-ubyte.gz
      labels: fashion-mnist/train-labels-idx1-ubyte.gz
      MAPPING
)",
     R"(    idx:
      images: fashion-mnist/t10k-images-idx3-ubyte.gz
      labels: fashion-mnist/t10k-labels-idx1-ubyte.gz
      MAPPING
)"},
    {"cifar",
     {3, 32, 10},
     R"(    # The binary version of CIFAR-10, in a folder cifar of a data root: <data root>/<path>.
    cifar:
      files:
        - data/cifar/data_batch_1.bin
        - data/cifar/data_batch_2.bin
        - data/cifar/data_batch_3.bin
        - data/cifar/data_batch_4.bin
        - data/cifar/data_batch_5.bin
      MAPPING
)",
     R"(    cifar:
      files: [data/cifar/test_batch.bin]
      MAPPING
)"},
    {"npz",
     {3, 32, 10},
     R"(    # NumPy arrays "images" (samples, channels, height, width) and "labels" (samples) in one file.
    npz:
      file: data/train.npz        # <data root>/<path>
      channels_last: false        # true for images of (samples, height, width, channels)
      MAPPING
)",
     R"(    npz:
      file: data/eval.npz
      channels_last: false
      MAPPING
)"},
    {"safetensors",
     {3, 32, 10},
     R"(    # Tensors "images" (samples, channels, height, width) and "labels" (samples) in one file.
    safetensors:
      file: data/train.safetensors  # <data root>/<path>
      channels_last: false          # true for images of (samples, height, width, channels)
      MAPPING
)",
     R"(    safetensors:
      file: data/eval.safetensors
      channels_last: false
      MAPPING
)"},
    {"synthetic",
     {3, 32, 10},
     R"(    # Random images that a model can learn, made when they are needed. For a first try, without files.
    synthetic: {shape: [3, 32, 32], num_classes: 10, num_samples: 10000}
)",
     R"(    synthetic: {shape: [3, 32, 32], num_classes: 10, num_samples: 1000}
)"},
    {"tokens",
     {},
     R"(    # A text as token numbers: ampctl data tokenize makes the file.
    tokens:
      path: data/train.bin        # <data root>/<path>
      sequence_length: 256        # tokens per sample
)",
     R"(    tokens:
      path: data/eval.bin
)"},
    {"jsonl",
     {},
     R"(    # One JSON object per line, {"input_ids": [...], "label": n}: ampctl data tokenize makes the file.
    jsonl:
      path: data/train.jsonl      # <data root>/<path>
      sequence_length: 128        # longer texts are cut, shorter ones are padded
)",
     R"(    jsonl:
      path: data/eval.jsonl
      sequence_length: 128
)"}};

constexpr char kAdamW[] =
    R"(  adamw:
    learning_rate: 1e-3
    weight_decay: 0.01
)";
constexpr char kAdamWForTexts[] =
    R"(  adamw:
    learning_rate: 3e-4
    beta2: 0.95
    weight_decay: 0.1
  groups:                         # no weight decay for biases and norms; the first group that matches wins
    - {match: "*.bias", weight_decay: 0}
    - {match: "*.ln_*", weight_decay: 0}
)";
constexpr char kSgd[] =
    R"(  sgd:
    learning_rate: 0.1
    momentum: 0.9
    weight_decay: 5e-4
    nesterov: true
)";
constexpr char kAdamForGans[] =
    R"(  adam:                           # one for each of the two networks
    learning_rate: 2e-4
    beta1: 0.5
)";

constexpr char kLenet[] =
    R"(  lenet:                          # a small convolutional network
    num_classes: CLASSES
    in_channels: CHANNELS
    image_size: SIZE              # height and width in pixels
)";

constexpr char kMlp[] =
    R"(  mlp:                            # linear layers with ReLU between them
    in_features: FEATURES         # numbers of one sample
    hidden: [256]                 # one number per hidden layer
    num_classes: CLASSES
)";

constexpr char kResnet[] =
    R"(  resnet:
    depth: 18                     # 18, 34 or 50
    stem: CIFAR                   # for images of about 32 pixels; IMAGENET for about 224
    num_classes: CLASSES
    in_channels: CHANNELS
    image_size: SIZE              # height and width in pixels
)";

constexpr char kEfficientnetB0[] =
    R"(  efficientnet_b0:
    num_classes: CLASSES
    in_channels: CHANNELS
    image_size: SIZE              # height and width in pixels
)";

constexpr char kGpt2[] =
    R"(  gpt2:                           # GPT-2; this one is small enough for a CPU
    n_layer: 6
    n_head: 6
    n_embd: 384
    n_positions: 256              # the longest sequence
    vocab_size: 256               # 256 for bytes, 50257 for GPT-2's own tokens
    dropout: 0.1
)";

constexpr char kBertClassifier[] =
    R"(  bert_classifier:                # BERT with a classifier; this one is small enough for a CPU
    num_hidden_layers: 4
    hidden_size: 256
    num_attention_heads: 4
    max_position_embeddings: 128  # the longest text, in tokens
    vocab_size: 30522
    num_labels: 2                 # classes
)";

constexpr char kRnn[] =
    R"(  rnn:
    cell: LSTM                    # or GRU
    vocab_size: 30522
    embedding_size: 128
    hidden_size: 256
    num_layers: 1
    num_classes: 2
)";

constexpr char kDcgan[] =
    R"(  dcgan:                          # a generator of images, and a network that judges them
    image_size: SIZE              # 28, 32 or 64
    channels: CHANNELS
)";

constexpr char kExported[] =
    R"(  exported:                       # your own PyTorch model: ampd.export(model, ...) writes the file
    path: data/model.pt2          # <data root>/<path>; or artifact: SHA-256 of an uploaded file
    head: CLASSIFICATION          # what the output is used for; ampctl model inspect FILE shows the choices
)";

constexpr char kTextSample[] =
    R"(
sample:                           # texts that the model writes while it trains, kept as artifacts
  every_steps: 500
  text: {tokens: 200}
)";

constexpr char kImageSample[] =
    R"(
sample:                           # images that the model makes while it trains, kept as artifacts
  every_steps: 500
  images: {rows: 8}
)";

}  // namespace

std::span<const DataPart> DataParts() { return kDataParts; }

const std::vector<ModelPart>& ModelParts() {
  static const std::vector<std::string> images = {"idx", "cifar", "npz", "safetensors", "synthetic"};
  static const std::vector<std::string> large_images = {"cifar", "idx", "npz", "safetensors", "synthetic"};
  static const std::vector<ModelPart> models = {{"lenet", kLenet, images, kAdamW},
                                                {"mlp", kMlp, images, kAdamW},
                                                {"resnet", kResnet, large_images, kSgd},
                                                {"efficientnet_b0", kEfficientnetB0, large_images, kAdamW},
                                                {"gpt2", kGpt2, {"tokens"}, kAdamWForTexts, 32, kTextSample},
                                                {"bert_classifier", kBertClassifier, {"jsonl"}, kAdamW, 32},
                                                {"rnn", kRnn, {"jsonl"}, kAdamW, 64},
                                                {"dcgan", kDcgan, images, kAdamForGans, 128, kImageSample},
                                                {"exported", kExported, {"npz", "safetensors"}, kAdamW}};
  return models;
}

}  // namespace ampd::client
