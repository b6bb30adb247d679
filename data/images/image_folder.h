#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::images {

struct PackOptions {
  std::string folder;  // Has one folder per class, with PNG and JPEG files.
  std::string destination;
  bool replace = false;
  int64_t width = 0;  // Size of every image in the file.
  int64_t height = 0;
  bool grey = false;     // One channel instead of three.
  bool stretch = false;  // Resize the whole picture, distorted, instead of cropping its middle.
  // PackFolder calls this with the number of pictures it has written and their total. If it returns false, PackFolder
  // stops with CANCELLED.
  std::function<bool(int64_t num_done, int64_t num_all)> progress = [](int64_t, int64_t) { return true; };
};

struct PackSummary {
  std::vector<std::string> classes;  // Class names, by label.
  std::vector<int64_t> num_images;   // Images per class.
  int64_t num_skipped = 0;           // Files without a picture's extension, or outside the class folders.
};

// Packs a folder of pictures into a safetensors file with the tensors "images", uint8 of (samples, channels, height,
// width), and "labels", int32. The samples have the order of torchvision's ImageFolder. As with ImageFolder, every
// folder is a class, whatever its name begins with, and subfolders and links are followed. The metadata entry "classes"
// is a JSON list of the class names. After an error there is no new file at `destination`. The errors are NOT_FOUND,
// ALREADY_EXISTS, DATA_LOSS naming a picture that is damaged, and INVALID_ARGUMENT if:
//   * there are no classes or too many, or a class has no pictures;
//   * a picture has a type that ImageFolder accepts but this function can't decode;
//   * a link leads back to a folder above it;
//   * there are more pictures than a job can hold in memory.
absl::StatusOr<PackSummary> PackFolder(const PackOptions& options);

}  // namespace ampd::images
