#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::images {

struct PackOptions {
  std::string folder;  // with a folder for each class, of PNG and JPEG files
  std::string destination;
  bool replace = false;
  int64_t width = 0;  // of every image in the file
  int64_t height = 0;
  bool grey = false;     // one channel instead of three
  bool stretch = false;  // the whole picture, distorted, instead of its middle
  // Told how many of the pictures are done. False: stop with CANCELLED.
  std::function<bool(int64_t num_done, int64_t num_all)> progress = [](int64_t, int64_t) { return true; };
};

struct PackSummary {
  std::vector<std::string> classes;  // by label
  std::vector<int64_t> num_images;   // of each class
  int64_t num_skipped = 0;           // files that are not named as pictures, or lie in no class
};

// Writes a safetensors file with the tensors "images", uint8 of (samples, channels, height, width), and "labels",
// int32, in the order of torchvision's ImageFolder; the names of the classes are a JSON list in the metadata,
// "classes". As ImageFolder does, takes every folder for a class, whatever its name begins with, descends into the
// folders in it and follows links. Nothing is left at `destination` by a failure: NOT_FOUND, INVALID_ARGUMENT when
// there are no classes, a class without pictures, pictures that ImageFolder takes and nothing here decodes, a link that
// leads in a circle, or too many pictures to train on, DATA_LOSS naming the picture that can't be decoded,
// ALREADY_EXISTS.
absl::StatusOr<PackSummary> PackFolder(const PackOptions& options);

}  // namespace ampd::images
