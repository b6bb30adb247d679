#include "data/text/tokenizer.h"

#include <algorithm>
#include <iterator>

namespace ampd::text {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void Encode(std::string_view text, Tokens* tokens) override {
    std::transform(text.begin(), text.end(), std::back_inserter(*tokens),
                   [](char byte) { return static_cast<uint32_t>(static_cast<unsigned char>(byte)); });
  }
  bool takes_any_bytes() const override { return true; }
  int64_t vocabulary() const override { return 256; }
};

}  // namespace

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace ampd::text
