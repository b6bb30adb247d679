#include <variant>

#include "data/content.h"
#include "data/tokens.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::data::TokenFormat;
  using ampd::fuzz::Require;
  constexpr int64_t kVocabulary = 1000;
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto tokens = ampd::data::ReadTokens(file, TokenFormat::kLlmC, 0, kVocabulary);
  ampd::fuzz::Judge(tokens.status());
  if (tokens.ok()) {
    std::visit(
        [&](const auto& all) {
          Require(all.size() * sizeof(all[0]) + 1024 == size, "every byte behind the header is of a token");
          for (const int64_t token : all) {
            Require(token < kVocabulary, "tokens are below the vocabulary's size");
          }
        },
        tokens->tokens);
  }
  const auto plain = ampd::data::ReadTokens(file, TokenFormat::kUint32, 0, int64_t{1} << 32);
  const bool is_other = !ampd::data::RefuseOtherFormats({reinterpret_cast<const char*>(data), size},
                                                        static_cast<int64_t>(size), "input", "tokens")
                             .ok();
  Require(plain.ok() == (size > 0 && size % 4 == 0 && !is_other),
          "without a header any whole number of tokens from 1 on is a file");
  const auto told = ampd::data::ReadTokens(file, TokenFormat::kAuto, 0, int64_t{1} << 32);
  const bool has_header = ampd::data::ReadTokens(file, TokenFormat::kLlmC, 0, int64_t{1} << 32).ok();
  Require(!told.ok() || has_header || !is_other, "no content of another format is told to be tokens");
  return 0;
}
