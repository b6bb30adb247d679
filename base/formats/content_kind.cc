#include "base/formats/content_kind.h"

#include <algorithm>

#include "base/formats/safetensors_json.h"

namespace ampd {
namespace {

struct Signature {
  ContentKind kind;
  size_t offset;
  std::string_view bytes;
  bool is_certain;
};

using std::string_view_literals::operator""sv;

// The kinds that have a fixed signature. A signature of three bytes or fewer is not certain, because a file of plain
// numbers may begin with it too.
constexpr Signature kSignatures[] = {
    {ContentKind::kNpy, 0, "\x93NUMPY"sv, true},
    {ContentKind::kZip, 0, "PK\3\4"sv, true},
    {ContentKind::kZip, 0, "PK\5\6"sv, true},
    {ContentKind::kPng, 0, "\x89PNG\r\n\x1a\n"sv, true},
    {ContentKind::kJpeg, 0, "\xff\xd8\xff"sv, false},
    {ContentKind::kGif, 0, "GIF87a"sv, true},
    {ContentKind::kGif, 0, "GIF89a"sv, true},
    {ContentKind::kRiff, 0, "RIFF"sv, true},
    {ContentKind::kParquet, 0, "PAR1"sv, true},
    {ContentKind::kArrow, 0, "ARROW1"sv, true},
    {ContentKind::kHdf5, 0, "\x89HDF\r\n\x1a\n"sv, true},
    {ContentKind::kSqlite, 0, "SQLite format 3\0"sv, true},
    {ContentKind::kXz, 0,
     "\xfd"
     "7zXZ\0"sv,
     true},
    {ContentKind::kZstandard, 0, "\x28\xb5\x2f\xfd"sv, true},
    {ContentKind::kBzip2, 0, "BZh91AY&SY"sv, true},
    {ContentKind::kBzip2, 0, "BZh"sv, false},
    {ContentKind::kTar, 257, "ustar"sv, true},
    {ContentKind::kPdf, 0, "%PDF-"sv, true},
    {ContentKind::kElf, 0,
     "\x7f"
     "ELF\2\1\1"sv,
     true},
};

uint64_t LittleEndian(std::string_view begin, size_t at, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i > 0; --i) {
    number = number << 8 | static_cast<uint8_t>(at + i - 1 < begin.size() ? begin[at + i - 1] : 0);
  }
  return number;
}

uint64_t BigEndian(std::string_view begin, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + 4; ++i) {
    number = number << 8 | static_cast<uint8_t>(i < begin.size() ? begin[i] : 0);
  }
  return number;
}

// Recognises gzip by its magic number and by the header fields that have few valid values: the compression method
// (always 8), the flags, the compression level and the operating system.
bool IsGzip(std::string_view begin) {
  constexpr size_t kLeastBytes = 18;
  const auto at = [&](size_t i) { return static_cast<uint8_t>(begin[i]); };
  return begin.size() >= kLeastBytes && begin.starts_with("\x1f\x8b\x08") && at(3) < 0x20 &&
         (at(8) == 0 || at(8) == 2 || at(8) == 4) && (at(9) <= 13 || at(9) == 255);
}

// Recognises MNIST's IDX format. The kind is certain if the sizes in the header fit the size of the content.
Content IdxOf(std::string_view begin, int64_t num_bytes) {
  const bool is_labels = begin.starts_with("\0\0\x08\x01"sv);
  if (!is_labels && !begin.starts_with("\0\0\x08\x03"sv)) {
    return {};
  }
  uint64_t size = BigEndian(begin, 4);
  bool fits = true;
  for (const size_t at : {8, 12}) {
    fits = fits && (is_labels || !__builtin_mul_overflow(size, BigEndian(begin, at), &size));
  }
  const uint64_t header_bytes = is_labels ? 8 : 16;
  return {ContentKind::kIdx, fits && size + header_bytes == static_cast<uint64_t>(num_bytes)};
}

// Recognises llm.c's header (data/tokens.h). The kind is certain if the version is the one that belongs to the magic
// number.
Content LlmCOf(std::string_view begin) {
  const uint64_t magic = LittleEndian(begin, 0, 4);
  const uint64_t version = LittleEndian(begin, 4, 4);
  if (magic != 20240520 && magic != 20240801) {
    return {};
  }
  return {ContentKind::kLlmC, version == (magic == 20240520 ? 1 : 7)};
}

// Recognises a Python pickle of protocol 2 to 5, for example an older file of torch.save or a list of objects.
bool IsPickle(std::string_view begin) {
  constexpr std::string_view kNextOpcodes = "\x95\x8a}](c\x8c"sv;
  return begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 &&
         kNextOpcodes.find(begin[2]) != std::string_view::npos;
}

// Recognises UTF-16 by its byte order mark. The kind is certain if the text has enough ASCII characters: in UTF-16, one
// of the two bytes of such a character is zero.
Content Utf16Of(std::string_view begin) {
  const bool is_little = begin.starts_with("\xff\xfe"sv);
  if ((!is_little && !begin.starts_with("\xfe\xff"sv)) || begin.size() < 4) {
    return {};
  }
  size_t num_zero = 0;
  for (size_t at = is_little ? 3 : 2; at < begin.size(); at += 2) {
    num_zero += begin[at] == 0 ? 1 : 0;
  }
  return {ContentKind::kUtf16Text, num_zero >= 16 && num_zero * 4 >= begin.size()};
}

// Whether the content is UTF-8 without control characters, except white space, escape and backspace. A character that
// is cut off at the end is accepted.
bool IsText(std::string_view begin) {
  constexpr std::string_view kWhiteSpace = "\t\n\r\f\v\x1b\b";
  if (std::any_of(begin.begin(), begin.end(), [&](char byte) {
        return (static_cast<uint8_t>(byte) < 0x20 && kWhiteSpace.find(byte) == std::string_view::npos) || byte == 0x7f;
      })) {
    return false;
  }
  for (size_t cut = 0; cut < 4 && cut <= begin.size(); ++cut) {
    if (IsUtf8(begin.substr(0, begin.size() - cut))) {
      return true;
    }
  }
  return false;
}

// Whether a text, of which the end may be missing, begins like a JSON object: with a brace and the first key with its
// colon. An object without a member must be all of the text.
bool BeginsLikeObject(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  size_t at = text.starts_with('{') ? text.find_first_not_of(kBlanks, 1) : std::string_view::npos;
  if (at == std::string_view::npos || text[at] != '"') {
    return at != std::string_view::npos && text[at] == '}' &&
           text.find_first_not_of(kBlanks, at + 1) == std::string_view::npos;
  }
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (static_cast<uint8_t>(text[at]) < 0x20) {
      return false;
    }
    at += text[at] == '\\' ? 1 : 0;
  }
  at = at < text.size() ? text.find_first_not_of(kBlanks, at + 1) : std::string_view::npos;
  return at != std::string_view::npos && text[at] == ':';
}

// Recognises safetensors: eight bytes with the length of the header, then the header, a JSON object. The kind is
// certain if the length fits the content and the header begins like an object. It is not certain if only one of the two
// is true: the header is another text, or the length is damaged and the eight bytes are no text. Numbers without a
// header may have the opening brace by chance, so the brace alone shows nothing.
Content SafetensorsOf(std::string_view begin, int64_t num_bytes) {
  constexpr size_t kLengthBytes = 8;
  constexpr uint64_t kLeastHeaderBytes = 8;  // Writers fill the header up to a multiple of this number.
  const uint64_t length = LittleEndian(begin, 0, kLengthBytes);
  if (begin.size() <= kLengthBytes || begin[kLengthBytes] != '{') {
    return {};
  }
  const bool fits = length <= static_cast<uint64_t>(num_bytes) - kLengthBytes;
  const std::string_view header = begin.substr(kLengthBytes, fits ? length : std::string_view::npos);
  const bool is_object = BeginsLikeObject(header);
  const bool is_damaged =
      fits ? length >= kLeastHeaderBytes && IsText(header) : is_object && !IsText(begin.substr(0, kLengthBytes));
  return {(fits && is_object) || is_damaged ? ContentKind::kSafetensors : ContentKind::kUnknown, fits && is_object};
}

Content TextOf(std::string_view begin) {
  constexpr size_t kCertainBytes = 256;
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (!IsText(begin)) {
    return {};
  }
  const size_t first = begin.find_first_not_of(" \t\r\n", begin.starts_with(kMark) ? kMark.size() : 0);
  const bool is_json = first != std::string_view::npos && (begin[first] == '{' || begin[first] == '[');
  return {is_json ? ContentKind::kJson : ContentKind::kText, begin.size() >= kCertainBytes};
}

}  // namespace

Content ContentOf(std::string_view begin, int64_t num_bytes) {
  if (num_bytes == 0) {
    return {ContentKind::kEmpty, true};
  }
  for (const Signature& signature : kSignatures) {
    if (begin.size() >= signature.offset && begin.substr(signature.offset).starts_with(signature.bytes)) {
      return {signature.kind, signature.is_certain};
    }
  }
  if (IsGzip(begin)) {
    return {ContentKind::kGzip, true};
  }
  if (IsPickle(begin)) {
    return {ContentKind::kPickle, false};
  }
  for (const Content content :
       {SafetensorsOf(begin, num_bytes), IdxOf(begin, num_bytes), LlmCOf(begin), Utf16Of(begin), TextOf(begin)}) {
    if (content.kind != ContentKind::kUnknown) {
      return content;
    }
  }
  return {};
}

std::string NameOf(ContentKind kind) {
  switch (kind) {
    case ContentKind::kUnknown:
      return "of no format that is known by its content";
    case ContentKind::kEmpty:
      return "empty";
    case ContentKind::kGzip:
      return "compressed by gzip";
    case ContentKind::kZip:
      return "a ZIP archive, as .npz and .pt2 are";
    case ContentKind::kNpy:
      return "a NumPy array (.npy)";
    case ContentKind::kIdx:
      return "an IDX file, as MNIST's are";
    case ContentKind::kLlmC:
      return "llm.c's token file, with a header";
    case ContentKind::kSafetensors:
      return "a safetensors file";
    case ContentKind::kPng:
      return "a PNG picture";
    case ContentKind::kJpeg:
      return "a JPEG picture";
    case ContentKind::kGif:
      return "a GIF picture";
    case ContentKind::kRiff:
      return "a RIFF file, as WebP and WAV are";
    case ContentKind::kParquet:
      return "a Parquet file";
    case ContentKind::kArrow:
      return "an Arrow file";
    case ContentKind::kHdf5:
      return "an HDF5 file";
    case ContentKind::kPickle:
      return "a pickle of Python";
    case ContentKind::kSqlite:
      return "an SQLite database";
    case ContentKind::kXz:
      return "compressed by xz";
    case ContentKind::kZstandard:
      return "compressed by zstd";
    case ContentKind::kBzip2:
      return "compressed by bzip2";
    case ContentKind::kTar:
      return "a tar archive";
    case ContentKind::kPdf:
      return "a PDF document";
    case ContentKind::kElf:
      return "a program";
    case ContentKind::kUtf16Text:
      return "text in UTF-16";
    case ContentKind::kJson:
      return "JSON";
    case ContentKind::kText:
      return "text";
  }
  return "";
}

}  // namespace ampd
