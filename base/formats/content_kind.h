#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The format of a file's content, recognised by its first bytes and never by its name.
namespace ampd {

enum class ContentKind {
  kUnknown,  // None of the kinds below, for example numbers without a header.
  kEmpty,
  kGzip,
  kZip,  // An .npz, a .pt2 or a file of torch.save.
  kNpy,
  kIdx,
  kLlmC,
  kSafetensors,
  kPng,
  kJpeg,
  kGif,
  kRiff,  // WebP, WAV or AVI.
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
  kUtf16Text,  // Begins with a byte order mark.
  kJson,       // Text that begins with { or [.
  kText,       // UTF-8 without control characters.
};

struct Content {
  ContentKind kind = ContentKind::kUnknown;
  // Whether the kind is practically certain. The kind is certain if the content has a long signature, sizes that fit
  // the file, or a long text: a file of numbers without a header practically never has such content by chance.
  bool is_certain = false;
};

// Recognises the kind of a file's content, which has `num_bytes` bytes in all. REQUIRES: `begin` is all of the content,
// or at least its first 4,096 bytes.
Content ContentOf(std::string_view begin, int64_t num_bytes);

// The name of the kind in messages: "a NumPy array (.npy)".
std::string NameOf(ContentKind kind);

}  // namespace ampd
