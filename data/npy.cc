#include "data/npy.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/byte_stream.h"

namespace ampd::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Parses the Python dict in a header in the form in which NumPy writes it. Other Python syntax (escapes, comments,
// sums) is rejected.
class DictParser {
 public:
  DictParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  absl::StatusOr<Header> Parse() {
    AMPD_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      AMPD_ASSIGN_OR_RETURN(const std::string key, String());
      AMPD_RETURN_IF_ERROR(Expect(':'));
      AMPD_RETURN_IF_ERROR(Value(key));
      if (!Take(',')) {
        AMPD_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    SkipSpaces();
    if (at_ != text_.size()) {
      return Wrong();
    }
    if (!header_.descr.has_value() || !header_.fortran_order.has_value() || !header_.shape.has_value()) {
      return DataError(name_, "the header does not have all of 'descr', 'fortran_order' and 'shape'");
    }
    return std::move(header_);
  }

 private:
  void SkipSpaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool Take(char wanted) {
    SkipSpaces();
    if (at_ == text_.size() || text_[at_] != wanted) {
      return false;
    }
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpaces();
    if (text_.substr(at_, word.size()) != word) {
      return false;
    }
    at_ += word.size();
    return true;
  }
  absl::Status Wrong() const {
    return DataError(name_, absl::StrCat("the header is not what NumPy writes, at byte ", at_, ": \"",
                                         absl::CEscape(std::string(text_.substr(at_, 20))), "\""));
  }
  absl::Status Expect(char wanted) { return Take(wanted) ? absl::OkStatus() : Wrong(); }

  absl::StatusOr<std::string> String() {
    SkipSpaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    const std::string_view content = end == std::string_view::npos ? "" : text_.substr(at_ + 1, end - at_ - 1);
    if (end == std::string_view::npos || content.find('\\') != std::string_view::npos) {
      return Wrong();
    }
    at_ = end + 1;
    return std::string(content);
  }

  absl::StatusOr<int64_t> Number() {
    SkipSpaces();
    const size_t begin = at_;
    int64_t value = 0;
    bool fits = true;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
             !__builtin_add_overflow(value, text_[at_] - '0', &value);
      ++at_;
    }
    if (at_ == begin) {
      return Wrong();
    }
    return fits ? absl::StatusOr<int64_t>(value) : DataError(name_, "an extent of the shape is out of range");
  }

  absl::StatusOr<std::vector<int64_t>> Tuple() {
    AMPD_RETURN_IF_ERROR(Expect('('));
    std::vector<int64_t> extents;
    while (!Take(')')) {
      AMPD_ASSIGN_OR_RETURN(const int64_t extent, Number());
      extents.push_back(extent);
      // A tuple with one element needs a comma: (3) is a number in Python.
      if (!Take(',')) {
        AMPD_RETURN_IF_ERROR(Expect(')'));
        if (extents.size() == 1) {
          return Wrong();
        }
        break;
      }
    }
    return extents;
  }

  absl::Status Value(const std::string& key) {
    if (key == "descr" && !header_.descr.has_value()) {
      if (Take('[')) {
        return DataError(name_, "a structured array, with fields; it must have one number an element");
      }
      AMPD_ASSIGN_OR_RETURN(header_.descr, String());
    } else if (key == "fortran_order" && !header_.fortran_order.has_value()) {
      header_.fortran_order = TakeWord("True");
      return *header_.fortran_order || TakeWord("False") ? absl::OkStatus() : Wrong();
    } else if (key == "shape" && !header_.shape.has_value()) {
      AMPD_ASSIGN_OR_RETURN(header_.shape, Tuple());
    } else {
      return DataError(name_,
                       absl::StrCat("the header has the key '", absl::CEscape(key), "' twice, or NumPy has none"));
    }
    return absl::OkStatus();
  }

  const std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  Header header_;
};

absl::StatusOr<ElementType> DescrType(const std::string& descr, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, ElementType>, 9> kTypes = {{{"b1", ElementType::kBool},
                                                                               {"u1", ElementType::kUint8},
                                                                               {"i1", ElementType::kInt8},
                                                                               {"i2", ElementType::kInt16},
                                                                               {"i4", ElementType::kInt32},
                                                                               {"i8", ElementType::kInt64},
                                                                               {"f2", ElementType::kFloat16},
                                                                               {"f4", ElementType::kFloat32},
                                                                               {"f8", ElementType::kFloat64}}};
  for (const auto& [code, type] : kTypes) {
    const std::string_view order = ElementBytes(type) == 1 ? "|<>" : "<";
    if (descr.size() == 3 && order.find(descr[0]) != std::string_view::npos && descr.substr(1) == code) {
      return type;
    }
  }
  return DataError(name, absl::StrCat("elements of dtype '", absl::CEscape(descr.substr(0, 20)),
                                      descr.substr(0, 1) == ">" ? "', which is big-endian" : "'",
                                      "; it may be b1, u1, i1, i2, i4, i8, f2, f4 or f8, little-endian"));
}

absl::StatusOr<std::vector<uint8_t>> ReadField(ByteSource source, const std::string& name, size_t size) {
  std::vector<uint8_t> bytes(size);
  AMPD_ASSIGN_OR_RETURN(const size_t count, source(bytes.data(), size));
  if (count != size) {
    return DataError(name, "the file ends inside its header");
  }
  return bytes;
}

// Reads and parses the header: everything before the elements.
absl::StatusOr<Header> ReadHeader(ByteSource source, const std::string& name) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<uint8_t> begin, ReadField(source, name, kMagic.size() + 2));
  if (!std::equal(kMagic.begin(), kMagic.end(), begin.begin(), [](char a, uint8_t b) { return uint8_t(a) == b; })) {
    return DataError(name, "not an array of NumPy: it does not begin with \\x93NUMPY");
  }
  const int major = begin[kMagic.size()];
  const int minor = begin[kMagic.size() + 1];
  if (major < 1 || major > 3 || minor != 0) {
    return DataError(name, absl::StrCat("format version ", major, ".", minor, "; it may be 1.0, 2.0 or 3.0"));
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<uint8_t> field, ReadField(source, name, major == 1 ? 2 : 4));
  uint32_t length = 0;
  for (size_t i = 0; i < field.size(); ++i) {
    length |= uint32_t{field[i]} << (8 * i);
  }
  if (length > kMaxNpyHeaderBytes) {
    return DataError(name, absl::StrCat("a header of ", length, " bytes; at most ", kMaxNpyHeaderBytes));
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<uint8_t> text, ReadField(source, name, length));
  return DictParser({reinterpret_cast<const char*>(text.data()), text.size()}, name).Parse();
}

}  // namespace

absl::StatusOr<Array> ReadNpy(ByteSource source, const std::string& name, int64_t limit) {
  AMPD_ASSIGN_OR_RETURN(Header header, ReadHeader(source, name));
  Array array;
  AMPD_ASSIGN_OR_RETURN(array.type, DescrType(*header.descr, name));
  array.shape = *std::move(header.shape);
  if (*header.fortran_order && array.shape.size() > 1) {
    return DataError(name, "in Fortran order; store it with numpy.ascontiguousarray");
  }
  if (array.shape.size() > kMaxArrayRank) {
    return DataError(name, absl::StrCat(array.shape.size(), " dimensions; at most ", kMaxArrayRank));
  }
  const bool cut = limit > 0 && !array.shape.empty() && limit < array.shape[0];
  if (cut) {
    array.shape[0] = limit;
  }
  const int64_t size = ArrayBytes(array.type, array.shape, kMaxDatasetBytes);
  if (size < 0) {
    return DataError(name, absl::StrCat(ElementName(array.type), " of (", absl::StrJoin(array.shape, ", "),
                                        ") are more than ", kMaxDatasetBytes, " bytes"));
  }
  AMPD_ASSIGN_OR_RETURN(array.bytes, ReadExactly(source, name, size));
  AMPD_RETURN_IF_ERROR(CheckBooleans(array, name));
  if (!cut) {
    AMPD_RETURN_IF_ERROR(ExpectEnd(source, name));
  }
  return array;
}

absl::StatusOr<Array> ReadNpy(const DataFile& file, int64_t limit) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  return ReadNpy([&](uint8_t* out, size_t size) { return stream.Read(out, size); }, file.name, limit);
}

std::string WriteNpy(ElementType type, const std::vector<int64_t>& shape, const std::string& content) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kBytesBeforeHeader = 10;
  const char* const descr = type == ElementType::kBool ? "|b1" : type == ElementType::kInt64 ? "<i8" : "<f4";
  std::string header = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t extent : shape) {
    absl::StrAppend(&header, extent, ",");
  }
  header += "), }";
  const size_t used = kBytesBeforeHeader + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header.push_back('\n');
  const std::string length = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return absl::StrCat("\x93NUMPY", std::string("\1\0", 2), length, header, content);
}

}  // namespace ampd::data
