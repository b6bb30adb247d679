#include "data/tokens.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/content.h"
#include "data/token_width.h"

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

namespace ampd::data {
namespace {

constexpr int64_t kHeaderBytes = int64_t{256} * 4;
constexpr int64_t kChunkTokens = 1 << 19;
constexpr int64_t kExaminedBytes = 1 << 16;
constexpr int64_t kMostOf16 = 1 << 16;

// The fields of llm.c's header that distinguish the two widths of its tokens.
struct LlmCHeader {
  int32_t magic;
  int32_t version;
  int64_t token_bytes;
};
constexpr LlmCHeader kHeaders[] = {{20240520, 1, 2}, {20240801, 7, 4}};

// Where the tokens are in a file, and how wide they are.
struct FileLayout {
  int64_t begin = 0;
  int64_t token_bytes = 2;
  int64_t count = 0;
};

const LlmCHeader* FindHeader(int32_t magic) {
  const auto* const found = std::find_if(std::begin(kHeaders), std::end(kHeaders),
                                         [magic](const LlmCHeader& header) { return header.magic == magic; });
  return found == std::end(kHeaders) ? nullptr : found;
}

// Reads a file that another program may change at the same time. If the file becomes shorter, reading fails.
class Reader {
 public:
  static absl::StatusOr<Reader> Open(const DataFile& file) {
    AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenDataFile(file));
    struct stat status = {};
    if (fstat(opened.get(), &status) != 0) {
      return FileError(file.name, errno);
    }
    return Reader(file.name, std::move(opened), status.st_size);
  }

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }

  absl::Status Read(int64_t begin, int64_t size, void* out) const {
    auto* bytes = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t count = pread(file_.get(), bytes, static_cast<size_t>(size), begin);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        return FileError(name_, errno);
      }
      if (count == 0) {
        return DataError(name_, absl::StrCat("the file ends at byte ", begin));
      }
      bytes += count;
      begin += count;
      size -= count;
    }
    return absl::OkStatus();
  }

 private:
  Reader(std::string name, UniqueFd file, int64_t size) : name_(std::move(name)), file_(std::move(file)), size_(size) {}

  std::string name_;
  UniqueFd file_;
  int64_t size_;
};

absl::StatusOr<FileLayout> LayoutOfLlmC(const Reader& reader) {
  std::array<int32_t, 3> words = {};
  if (reader.size() < kHeaderBytes) {
    return DataError(reader.name(), absl::StrCat("has ", reader.size(), " bytes; llm.c's header has ", kHeaderBytes));
  }
  AMPD_RETURN_IF_ERROR(reader.Read(0, sizeof(words), words.data()));
  const auto [magic, version, count] = words;
  const LlmCHeader* const header = FindHeader(magic);
  if (header == nullptr) {
    return DataError(reader.name(), absl::StrCat("magic ", magic, ", expected 20240520 or 20240801"));
  }
  if (version != header->version) {
    return DataError(reader.name(),
                     absl::StrCat("version ", version, ", expected ", header->version, " with magic ", magic));
  }
  const int64_t held = reader.size() - kHeaderBytes;
  if (count < 0 || int64_t{count} * header->token_bytes != held) {
    return DataError(reader.name(), absl::StrCat("the header tells of ", count, " tokens of ", header->token_bytes,
                                                 " bytes; behind it are ", held, " bytes"));
  }
  return FileLayout{kHeaderBytes, header->token_bytes, count};
}

absl::StatusOr<FileLayout> LayoutOfPlain(const Reader& reader, int64_t token_bytes) {
  if (reader.size() % token_bytes != 0) {
    return DataError(reader.name(),
                     absl::StrCat("has ", reader.size(), " bytes, no whole number of tokens of ", token_bytes));
  }
  return FileLayout{0, token_bytes, reader.size() / token_bytes};
}

// The token format that was chosen by the file's content.
struct Choice {
  TokenFormat format = TokenFormat::kLlmC;
  std::string note;
};

absl::StatusOr<Choice> ChooseByContent(const DataFile& file, std::optional<int64_t> vocabulary) {
  AMPD_ASSIGN_OR_RETURN(const FileContent content, LookAt(file));
  switch (content.format) {
    case v1::DatasetFile::LLM_C_TOKENS:
      return Choice{TokenFormat::kLlmC, ""};
    case v1::DatasetFile::UINT32_TOKENS:
      return Choice{TokenFormat::kUint32, absl::StrCat("read as tokens of 32 bits without a header: ", content.why)};
    case v1::DatasetFile::UINT16_TOKENS:
      if (vocabulary.value_or(0) > kMostOf16) {
        return DataError(file.name,
                         absl::StrCat("it has no header and looks like tokens of 16 bits, and a vocabulary "
                                      "of ",
                                      *vocabulary, " needs 32: set the format of tokens to UINT16 or UINT32"));
      }
      return Choice{TokenFormat::kUint16, absl::StrCat("read as tokens of 16 bits without a header: ", content.why)};
    case v1::DatasetFile::FORMAT_UNSPECIFIED:
      return DataError(file.name,
                       absl::StrCat("its content does not tell that it is a file of tokens, or how wide they are: ",
                                    content.why, "; set the format of tokens to LLM_C, UINT16 or UINT32"));
    default:  // Tokens may by chance have the signs of a format that is not certain, such as the size of a CIFAR file.
      return DataError(file.name,
                       absl::StrCat("by its content it is a file of ", v1::DatasetFile::Format_Name(content.format),
                                    content.is_certain
                                        ? ", not of tokens"
                                        : "; where it is one of tokens, set the format of tokens to UINT16 or UINT32"));
  }
}

absl::StatusOr<Choice> Choose(const DataFile& file, const Reader& reader, TokenFormat format,
                              std::optional<int64_t> vocabulary) {
  if (format == TokenFormat::kAuto) {
    return ChooseByContent(file, vocabulary);
  }
  if (format == TokenFormat::kLlmC) {
    return Choice{format, ""};
  }
  std::string begin(static_cast<size_t>(std::min(reader.size(), kExaminedBytes)), '\0');
  AMPD_RETURN_IF_ERROR(reader.Read(0, static_cast<int64_t>(begin.size()), begin.data()));
  AMPD_RETURN_IF_ERROR(RefuseOtherFormats(begin, reader.size(), file.name, "tokens and nothing else"));
  AMPD_ASSIGN_OR_RETURN(const TokenWidth likely,
                        WidthOfTokens(reader.size(), [&](int64_t offset, int64_t size, void* out) {
                          return reader.Read(offset, size, out);
                        }));
  const int64_t chosen = format == TokenFormat::kUint16 ? 2 : 4;
  const bool differs = likely.token_bytes != 0 && likely.token_bytes != chosen;
  return Choice{format, differs ? absl::StrCat("read as tokens of ", 8 * chosen,
                                               " bits as the format of tokens says, and looks "
                                               "like tokens of ",
                                               8 * likely.token_bytes, " bits: ", likely.why)
                                : ""};
}

absl::StatusOr<FileLayout> FileLayoutOf(const Reader& reader, TokenFormat format) {
  return format == TokenFormat::kLlmC ? LayoutOfLlmC(reader)
                                      : LayoutOfPlain(reader, format == TokenFormat::kUint16 ? 2 : 4);
}

template <typename Token>
absl::StatusOr<Tokens> ReadAll(const Reader& reader, const FileLayout& layout, int64_t vocabulary) {
  std::vector<Token> tokens(static_cast<size_t>(layout.count));
  for (int64_t begin = 0; begin < layout.count; begin += kChunkTokens) {
    const int64_t count = std::min(kChunkTokens, layout.count - begin);
    Token* const chunk = tokens.data() + begin;
    AMPD_RETURN_IF_ERROR(reader.Read(layout.begin + begin * static_cast<int64_t>(sizeof(Token)),
                                     count * static_cast<int64_t>(sizeof(Token)), chunk));
    const Token* const wrong =
        std::find_if(chunk, chunk + count, [vocabulary](Token token) { return int64_t{token} >= vocabulary; });
    if (wrong != chunk + count) {
      return DataError(reader.name(), absl::StrCat("token ", begin + (wrong - chunk), " is ", *wrong,
                                                   "; the model's vocabulary has ", vocabulary));
    }
  }
  return tokens;
}

}  // namespace

absl::StatusOr<TokenFile> ReadTokens(const DataFile& file, TokenFormat format, int64_t limit,
                                     std::optional<int64_t> vocabulary) {
  AMPD_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(file));
  AMPD_ASSIGN_OR_RETURN(Choice choice, Choose(file, reader, format, vocabulary));
  AMPD_ASSIGN_OR_RETURN(FileLayout layout, FileLayoutOf(reader, choice.format));
  if (layout.count == 0) {
    return DataError(file.name, "it has no token");
  }
  layout.count = limit > 0 ? std::min(limit, layout.count) : layout.count;
  if (layout.count * layout.token_bytes > kMaxTokenBytes) {
    return DataError(file.name, absl::StrCat(layout.count, " tokens are more than ", kMaxTokenBytes, " bytes"));
  }
  const int64_t end = vocabulary.value_or(std::numeric_limits<int64_t>::max());
  AMPD_ASSIGN_OR_RETURN(Tokens tokens, layout.token_bytes == 2 ? ReadAll<uint16_t>(reader, layout, end)
                                                               : ReadAll<uint32_t>(reader, layout, end));
  return TokenFile{std::move(tokens), std::move(choice.note)};
}

}  // namespace ampd::data
