#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// What a file holds, told by its first bytes and never by its name.
namespace ampd {

enum class ContentKind {
  kUnknown,  // anything else: numbers without a header, for example
  kEmpty,
  kGzip,
  kZip,  // an .npz, a .pt2 or torch.save's file
  kNpy,
  kIdx,
  kLlmC,
  kSafetensors,
  kPng,
  kJpeg,
  kGif,
  kRiff,  // WebP, WAV, AVI
  kParquet,
  kArrow,
  kHdf5,
  kPickle,
  kSqlite,
  kXz,
  kZstandard,
  kBzip2,
  kTar,
  kPdf,
  kElf,
  kUtf16Text,  // with a byte order mark
  kJson,       // text that begins with { or [
  kText,       // UTF-8 without control characters
};

struct Content {
  ContentKind kind = ContentKind::kUnknown;
  // Whether numbers without a header can't begin so but by a chance that nobody meets: a long signature, sizes that fit
  // the file, or a long text.
  bool is_certain = false;
};

// REQUIRES: `begin` is the beginning of a content of `num_bytes` bytes: all of it, or at least 4,096 bytes.
Content ContentOf(std::string_view begin, int64_t num_bytes);

// What people call it: "a NumPy array (.npy)".
std::string NameOf(ContentKind kind);

}  // namespace ampd
