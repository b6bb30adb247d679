#include "data/jsonl.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::fuzz::Require;
  const ampd::data::JsonlLimits limits = {.max_tokens = 8, .vocabulary = 1000, .num_types = 2, .num_classes = 10};
  const auto texts = ampd::data::ReadJsonl(ampd::fuzz::WriteInput(data, size), limits);
  ampd::fuzz::Judge(texts.status());
  if (!texts.ok()) {
    return 0;
  }
  Require(!texts->labels.empty() && texts->labels.size() == texts->ends.size(), "each text has a class and an end");
  Require(texts->ends.back() == static_cast<int64_t>(texts->tokens.size()), "every token is of a text");
  Require(texts->types.size() == texts->tokens.size(), "each token has a type");
  int64_t begin = 0;
  for (const int64_t end : texts->ends) {
    Require(begin < end && end - begin <= limits.max_tokens, "a text has tokens, and no more than are kept");
    begin = end;
  }
  for (const uint32_t token : texts->tokens) {
    Require(token < limits.vocabulary, "tokens are below the vocabulary's size");
  }
  for (const int64_t label : texts->labels) {
    Require(0 <= label && label < limits.num_classes, "labels are below the number of classes");
  }
  return 0;
}
