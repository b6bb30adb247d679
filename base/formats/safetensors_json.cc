#include "base/formats/safetensors_json.h"

#include <cctype>
#include <limits>
#include <optional>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | code >> 18));
    out->push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<SafetensorsHeader> ReadHeader();

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::DataLossError(absl::StrCat("safetensors header, byte ", at_, ": ", std::string(what)));
  }
  void SkipSpace() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }
  // Skips spaces, and consumes `token` if it comes next. Returns whether it did.
  bool Take(char token) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != token) {
      return false;
    }
    ++at_;
    return true;
  }
  absl::Status Expect(char token) {
    return Take(token) ? absl::OkStatus() : Wrong(absl::StrCat("expected '", std::string(1, token), "'"));
  }

  // Reads an object and calls `read_value` for every key. A key that occurs twice is an error.
  template <typename ReadValue>
  absl::Status ReadObject(ReadValue read_value);
  template <typename ReadElement>
  absl::Status ReadArray(ReadElement read_element);
  absl::StatusOr<std::string> ReadString();
  absl::Status ReadEscape(std::string* out);
  absl::StatusOr<uint32_t> ReadHex4();
  absl::StatusOr<uint64_t> ReadNumber();
  absl::StatusOr<TensorEntry> ReadTensor(std::string name);
  absl::Status ReadMetadata(std::map<std::string, std::string>* metadata);

  const std::string_view text_;
  size_t at_ = 0;
};

template <typename ReadValue>
absl::Status Reader::ReadObject(ReadValue read_value) {
  AMPD_RETURN_IF_ERROR(Expect('{'));
  if (Take('}')) {
    return absl::OkStatus();
  }
  std::set<std::string> keys;
  do {
    SkipSpace();
    AMPD_ASSIGN_OR_RETURN(std::string key, ReadString());
    if (!keys.insert(key).second) {
      return Wrong(absl::StrCat("the key ", Quoted(key), " occurs twice"));
    }
    AMPD_RETURN_IF_ERROR(Expect(':'));
    AMPD_RETURN_IF_ERROR(read_value(std::move(key)));
  } while (Take(','));
  return Expect('}');
}

template <typename ReadElement>
absl::Status Reader::ReadArray(ReadElement read_element) {
  AMPD_RETURN_IF_ERROR(Expect('['));
  if (Take(']')) {
    return absl::OkStatus();
  }
  do {
    AMPD_RETURN_IF_ERROR(read_element());
  } while (Take(','));
  return Expect(']');
}

absl::StatusOr<std::string> Reader::ReadString() {
  AMPD_RETURN_IF_ERROR(Expect('"'));
  std::string out;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      return out;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      return Wrong("a control character in a string");
    }
    if (c == '\\') {
      AMPD_RETURN_IF_ERROR(ReadEscape(&out));
    } else {
      out.push_back(c);
    }
  }
  return Wrong("a string without end");
}

absl::Status Reader::ReadEscape(std::string* out) {
  static constexpr std::string_view kEscapes = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char kind = at_ < text_.size() ? text_[at_++] : '\0';
  if (const size_t found = kEscapes.find(kind); found != std::string_view::npos) {
    out->push_back(kMeanings[found]);
    return absl::OkStatus();
  }
  if (kind != 'u') {
    return Wrong("an unknown escape");
  }
  AMPD_ASSIGN_OR_RETURN(uint32_t code, ReadHex4());
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    AMPD_ASSIGN_OR_RETURN(const uint32_t low, ReadHex4());
    if (low < 0xDC00 || low >= 0xE000) {
      return Wrong("half a surrogate pair");
    }
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code >= 0xD800 && code < 0xE000) {
    return Wrong("half a surrogate pair");
  }
  AppendUtf8(code, out);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Reader::ReadHex4() {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ >= text_.size() || !std::isxdigit(static_cast<unsigned char>(text_[at_]))) {
      return Wrong("expected a hexadecimal digit");
    }
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at_])));
    code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return code;
}

absl::StatusOr<uint64_t> Reader::ReadNumber() {
  SkipSpace();
  const size_t begin = at_;
  uint64_t value = 0;
  for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value)) {
      return Wrong("a number that is too large");
    }
  }
  if (at_ == begin || (at_ - begin > 1 && text_[begin] == '0') || value > std::numeric_limits<int64_t>::max()) {
    return Wrong("expected a whole number");
  }
  return value;
}

absl::StatusOr<TensorEntry> Reader::ReadTensor(std::string name) {
  TensorEntry tensor;
  tensor.name = std::move(name);
  int num_keys = 0;
  std::vector<uint64_t> offsets;
  AMPD_RETURN_IF_ERROR(ReadObject([&](const std::string& key) -> absl::Status {
    ++num_keys;
    if (key == "dtype") {
      AMPD_ASSIGN_OR_RETURN(tensor.dtype, ReadString());
      return absl::OkStatus();
    }
    if (key != "shape" && key != "data_offsets") {
      return Wrong(absl::StrCat("the unknown key ", Quoted(key)));
    }
    const size_t limit = key == "shape" ? kMaxSafetensorsRank : 2;
    size_t count = 0;
    return ReadArray([&]() -> absl::Status {
      AMPD_ASSIGN_OR_RETURN(const uint64_t number, ReadNumber());
      if (++count > limit) {
        return Wrong(absl::StrCat("more than ", limit, " numbers in a list"));
      }
      if (key == "shape") {
        tensor.shape.push_back(static_cast<int64_t>(number));
      } else {
        offsets.push_back(number);
      }
      return absl::OkStatus();
    });
  }));
  if (num_keys != 3 || offsets.size() != 2) {
    return Wrong("a tensor needs dtype, shape and two data_offsets");
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return tensor;
}

absl::Status Reader::ReadMetadata(std::map<std::string, std::string>* metadata) {
  return ReadObject([&](std::string key) -> absl::Status {
    SkipSpace();
    AMPD_ASSIGN_OR_RETURN((*metadata)[key], ReadString());
    return absl::OkStatus();
  });
}

absl::StatusOr<SafetensorsHeader> Reader::ReadHeader() {
  SafetensorsHeader header;
  if (text_.empty() || text_[0] != '{') {
    return Wrong("expected '{'");
  }
  AMPD_RETURN_IF_ERROR(ReadObject([&](std::string key) -> absl::Status {
    if (key == "__metadata__") {
      return ReadMetadata(&header.metadata);
    }
    AMPD_ASSIGN_OR_RETURN(TensorEntry tensor, ReadTensor(std::move(key)));
    header.tensors.push_back(std::move(tensor));
    return header.tensors.size() <= kMaxSafetensorsTensors ? absl::OkStatus() : Wrong("too many tensors");
  }));
  if (text_.find_first_not_of(' ', at_) != std::string_view::npos) {
    return Wrong("something follows the header's object");
  }
  return header;
}

}  // namespace

bool HasControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool is_c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < 0x20 || c == 0x7F || is_c1) {
      return true;
    }
  }
  return false;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShownBytes = 80;
  const std::string piece(text.substr(0, kMaxShownBytes));
  const std::string shown =
      IsUtf8(piece) && !HasControl(piece) ? absl::Utf8SafeCEscape(piece) : absl::CHexEscape(piece);
  return absl::StrCat("\"", shown, text.size() > kMaxShownBytes ? "...\"" : "\"");
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) {
      continue;
    }
    const int tail = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i < static_cast<size_t>(tail)) {
      return false;
    }
    uint32_t code = lead & (0x3Fu >> tail);
    for (int k = 0; k < tail; ++k) {
      const auto byte = static_cast<unsigned char>(text[i++]);
      if ((byte & 0xC0) != 0x80) {
        return false;
      }
      code = code << 6 | (byte & 0x3Fu);
    }
    const uint32_t smallest = tail == 3 ? 0x10000 : tail == 2 ? 0x800 : 0x80;
    if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsJson(std::string_view json) {
  if (!IsUtf8(json)) {
    return absl::DataLossError("safetensors header: not UTF-8");
  }
  return Reader(json).ReadHeader();
}

}  // namespace ampd
