#include "tests/data/images/picture_files.h"

#include <png.h>
#include <turbojpeg.h>

#include <cstdlib>

namespace ampd::images {
namespace {

void Append(png_structp png, png_bytep bytes, size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
}

}  // namespace

// No jump target is set for libpng, so an error ends the test's process.
std::string PngFile(int64_t width, int64_t height, int color_type, int bit_depth, const std::vector<uint8_t>& pixels,
                    bool interlaced, std::string text) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, Append, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bit_depth, color_type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (color_type == PNG_COLOR_TYPE_PALETTE) {
    const png_color palette[] = {{1, 2, 3}, {250, 100, 50}};
    png_set_PLTE(png, info, palette, 2);
  }
  std::string key = "Comment";
  if (!text.empty()) {
    png_text entry = {};
    entry.compression = PNG_TEXT_COMPRESSION_zTXt;
    entry.key = key.data();
    entry.text = text.data();
    entry.text_length = text.size();
    png_set_text(png, info, &entry, 1);
  }
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<png_bytep> rows;
  for (int64_t row = 0; row < height; ++row) {
    rows.push_back(const_cast<png_bytep>(pixels.data()) + static_cast<size_t>(row) * row_bytes);
  }
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string JpegFile(const Picture& picture) {
  const tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int error = tjCompress2(handle, picture.pixels.data(), static_cast<int>(picture.width), 0,
                                static_cast<int>(picture.height), TJPF_RGB, &bytes, &size, TJSAMP_444, 100, 0);
  const std::string file(reinterpret_cast<const char*>(bytes), error == 0 ? size : 0);
  tjFree(bytes);
  tjDestroy(handle);
  return file;
}

Picture Coloured(int64_t width, int64_t height) {
  Picture picture{width, height, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      picture.pixels.push_back(static_cast<uint8_t>(255 * x / width));
      picture.pixels.push_back(static_cast<uint8_t>(255 * y / height));
      picture.pixels.push_back(static_cast<uint8_t>(10 * x + 3 * y));
    }
  }
  return picture;
}

}  // namespace ampd::images
