#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/picture.h"

namespace ampd::images {
namespace {

constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;

// The state that libpng's callbacks share: the content to read, and the error.
struct Source {
  std::string_view content;
  size_t at = 0;
  std::array<char, 128> error = {};
};

void Read(png_structp png, png_bytep out, size_t size) {
  auto* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (size > source->content.size() - source->at) {
    png_error(png, "it is cut off");
  }
  std::memcpy(out, source->content.data() + source->at, size);
  source->at += size;
}

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  auto* const source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->error.data(), source->error.size(), "%s", message);
  png_longjmp(png, 1);
}

void Ignore(png_structp, png_const_charp) {}

// libpng leaves a function by longjmp, which must not skip destructors, so the next three functions, which call libpng,
// own no objects.

bool ReadHeader(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_read_info(png, info);
  return true;
}

// Starts the decoding of pixels, for which libpng allocates memory for rows.
bool BeginPixels(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool ReadPixels(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

// Owns libpng's structures for one file.
class Reader {
 public:
  explicit Reader(std::string_view content) : source_{.content = content} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, Fail, Ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  absl::StatusOr<Picture> Decode() {
    if (info_ == nullptr) {
      return absl::ResourceExhaustedError("no memory to decode a PNG");
    }
    png_set_read_fn(png_, &source_, Read);
    // libpng's limit on sizes is set above that of this code, so that a picture that is too large gets this code's
    // error message.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    // Make libpng drop text, suggested palettes and unknown chunks, on which no pixel depends. Otherwise a file with a
    // thousand of them, each of the maximum size, would take 8 GB of memory.
    png_set_chunk_cache_max(png_, 1);
    if (!ReadHeader(png_, info_)) {
      return Failed();
    }
    Picture picture{png_get_image_width(png_, info_), png_get_image_height(png_, info_), {}};
    AMPD_RETURN_IF_ERROR(CheckSize(picture.width, picture.height));
    if (!BeginPixels(png_, info_)) {
      return Failed();
    }
    const auto row_bytes = static_cast<size_t>(picture.width) * 3;
    if (png_get_rowbytes(png_, info_) != row_bytes) {
      return absl::DataLossError("is a PNG whose pixels are no three bytes");
    }
    picture.pixels.resize(row_bytes * static_cast<size_t>(picture.height));
    std::vector<png_bytep> rows;
    for (int64_t row = 0; row < picture.height; ++row) {
      rows.push_back(picture.pixels.data() + static_cast<size_t>(row) * row_bytes);
    }
    if (!ReadPixels(png_, rows.data())) {
      return Failed();
    }
    return picture;
  }

 private:
  absl::Status Failed() const { return absl::DataLossError(absl::StrCat("is no sound PNG: ", source_.error.data())); }

  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

absl::StatusOr<Picture> DecodePng(std::string_view content) { return Reader(content).Decode(); }

}  // namespace ampd::images
