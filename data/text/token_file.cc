#include "data/text/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "data/text/text_file.h"

static_assert(std::endian::native == std::endian::little, "tokens are written as they lie in memory");

namespace ampd::text {
namespace {

constexpr int64_t kMaxOf16 = int64_t{1} << 16;

using Header = std::array<int32_t, 256>;

// llm.c's header for a file with this width and number of tokens.
Header HeaderOf(int64_t token_bytes, int64_t num_tokens) {
  Header header = {};
  header[0] = token_bytes == 2 ? 20240520 : 20240801;
  header[1] = token_bytes == 2 ? 1 : 7;
  header[2] = static_cast<int32_t>(num_tokens);
  return header;
}

std::string_view BytesOf(const Header& header) {
  return {reinterpret_cast<const char*>(header.data()), sizeof(header)};
}

absl::Status AppendTokens(const Tokens& tokens, int64_t token_bytes, PendingFile& file) {
  if (token_bytes == 4) {
    return file.Append({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint32_t)});
  }
  const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  return file.Append({reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(uint16_t)});
}

}  // namespace

absl::StatusOr<TokenFileSummary> WriteTokenFile(const TokenFileOptions& options, Tokenizer& tokenizer) {
  const bool has_header = options.format == TokenFileFormat::kLlmC;
  const bool fits_16 = tokenizer.vocabulary() <= kMaxOf16;
  if (options.format == TokenFileFormat::kUint16 && !fits_16) {
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", tokenizer.vocabulary(),
                                                   " tokens does not fit into 16 bits; --format uint32 or llm_c"));
  }
  const bool wide = options.format == TokenFileFormat::kUint32 || !fits_16;
  TokenFileSummary summary{.token_bytes = wide ? 4 : 2};
  AMPD_ASSIGN_OR_RETURN(TextFile text, TextFile::Open(options.text, options.any_format));
  summary.is_json = text.is_json();
  auto file = PendingFile::Create(options.destination, options.replace);
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, file.status()));
  if (has_header) {
    AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, file->Append(BytesOf(HeaderOf(summary.token_bytes, 0)))));
  }
  Tokens tokens;
  while (true) {
    AMPD_ASSIGN_OR_RETURN(const std::string_view piece, text.Next(tokenizer.takes_any_bytes()));
    if (piece.empty()) {
      break;
    }
    tokens.clear();
    tokenizer.Encode(piece, &tokens);
    AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, AppendTokens(tokens, summary.token_bytes, *file)));
    summary.num_tokens += static_cast<int64_t>(tokens.size());
    if (!options.progress(text.num_read(), text.num_bytes())) {
      return absl::CancelledError("stopped");
    }
  }
  summary.num_text_bytes = text.num_read();
  if (has_header && summary.num_tokens > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(summary.num_tokens, " tokens are more than the header of an llm.c ",
                                                   "file can tell; cut the text, or --format uint16 or uint32"));
  }
  if (has_header) {
    const Header header = HeaderOf(summary.token_bytes, summary.num_tokens);
    AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, file->Overwrite(0, BytesOf(header))));
  }
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, file->Commit()));
  return summary;
}

}  // namespace ampd::text
