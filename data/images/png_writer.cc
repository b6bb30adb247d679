#include "data/images/png_writer.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/images/picture_size.h"

namespace ampd::images {
namespace {

// The state that libpng's callbacks share: the content written so far, its limit, and the error.
struct Sink {
  std::string content;
  size_t max_bytes = 0;
  bool is_full = false;
  std::array<char, 128> error = {};
};

[[noreturn]] void FailWriting(png_structp png, png_const_charp message) {
  auto* const sink = static_cast<Sink*>(png_get_error_ptr(png));
  std::snprintf(sink->error.data(), sink->error.size(), "%s", message);
  png_longjmp(png, 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

void Write(png_structp png, png_bytep bytes, size_t size) {
  auto* const sink = static_cast<Sink*>(png_get_io_ptr(png));
  if (size > sink->max_bytes - sink->content.size()) {
    sink->is_full = true;
    png_error(png, "it is full");
  }
  sink->content.append(reinterpret_cast<const char*>(bytes), size);
}

void Flush(png_structp) {}

// libpng leaves a function by longjmp, which must not skip destructors, so this function owns no objects.
bool WriteFile(png_structp png, png_infop info, const Raster& raster) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_IHDR(png, info, static_cast<png_uint_32>(raster.width), static_cast<png_uint_32>(raster.height), 8,
               raster.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const auto row_bytes = static_cast<size_t>(raster.width * raster.channels);
  for (int64_t row = 0; row < raster.height; ++row) {
    png_write_row(png, raster.pixels.data() + static_cast<size_t>(row) * row_bytes);
  }
  png_write_end(png, nullptr);
  return true;
}

// Owns libpng's structures for one file.
class Writer {
 public:
  explicit Writer(size_t max_bytes) {
    sink_.max_bytes = max_bytes;
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink_, FailWriting, IgnoreWarning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
  }
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  absl::StatusOr<std::string> Encode(const Raster& raster) {
    if (info_ == nullptr) {
      return absl::ResourceExhaustedError("no memory to encode a PNG");
    }
    png_set_write_fn(png_, &sink_, Write, Flush);
    if (WriteFile(png_, info_, raster)) {
      return std::move(sink_.content);
    }
    return sink_.is_full
               ? absl::ResourceExhaustedError(absl::StrCat("a PNG of ", raster.width, " x ", raster.height,
                                                           " pixels has more than ", sink_.max_bytes, " bytes"))
               : absl::InternalError(absl::StrCat("libpng can't encode a PNG: ", sink_.error.data()));
  }

 private:
  Sink sink_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

absl::Status Check(const Raster& raster) {
  if (const absl::Status size = CheckSize(raster.width, raster.height); !size.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("a PNG ", size.message()));
  }
  if (raster.channels != 1 && raster.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("a PNG of ", raster.channels, " channels; must have 1, grey, or 3, red, green and blue"));
  }
  if (raster.pixels.size() != static_cast<size_t>(raster.width * raster.height * raster.channels)) {
    return absl::InvalidArgumentError(absl::StrCat("a PNG of ", raster.width, " x ", raster.height, " pixels of ",
                                                   raster.channels, " bytes; ", raster.pixels.size(),
                                                   " bytes were given"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const Raster& raster, size_t max_bytes) {
  AMPD_RETURN_IF_ERROR(Check(raster));
  return Writer(max_bytes).Encode(raster);
}

}  // namespace ampd::images
