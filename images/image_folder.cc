#include "images/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/pending_file.h"
#include "base/safetensors.h"
#include "base/status_macros.h"
#include "images/picture.h"
#include "images/resize.h"
#include "nlohmann/json.hpp"

namespace ampd::images {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxClasses = 65536;
constexpr int64_t kMaxBytes = int64_t{4} << 30;  // what a job holds in memory (worker/data/byte_source.h)

absl::Status Named(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

struct ClassFolder {
  std::string name;
  std::vector<std::string> files;  // paths
};

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool IsNamedAsPicture(const fs::path& path) {
  const std::string extension = absl::AsciiStrToLower(path.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// The entries of a folder by name.
absl::StatusOr<std::vector<fs::directory_entry>> EntriesOf(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    entries.push_back(*at);
  }
  if (error) {
    return Named(folder.string(), ErrnoError(error.value(), "read the folder"));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

absl::StatusOr<std::vector<ClassFolder>> Scan(const std::string& folder, PackSummary& summary) {
  std::vector<ClassFolder> classes;
  AMPD_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> folders, EntriesOf(folder));
  for (const fs::directory_entry& entry : folders) {
    if (IsHidden(entry.path()) || entry.is_symlink() || !entry.is_directory()) {
      summary.num_skipped += IsHidden(entry.path()) ? 0 : 1;
      continue;
    }
    ClassFolder& one = classes.emplace_back(ClassFolder{entry.path().filename().string(), {}});
    AMPD_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> files, EntriesOf(entry.path()));
    for (const fs::directory_entry& file : files) {
      if (IsHidden(file.path())) {
        continue;
      }
      if (!file.is_symlink() && file.is_regular_file() && IsNamedAsPicture(file.path())) {
        one.files.push_back(file.path().string());
      } else {
        ++summary.num_skipped;
      }
    }
    if (one.files.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.path().string(), ": has no .png, .jpg or .jpeg file; every folder is a class"));
    }
  }
  if (classes.empty() || classes.size() > kMaxClasses) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": has ", classes.size(),
                                                   " folders; must have one for each class, at most ", kMaxClasses));
  }
  return classes;
}

// Pillow's convert("L").
uint8_t Grey(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// (channels, height, width).
std::string PlanesOf(const Picture& picture, bool grey) {
  const auto num_pixels = static_cast<size_t>(picture.width * picture.height);
  std::string planes(num_pixels * (grey ? 1 : 3), '\0');
  for (size_t i = 0; i < num_pixels; ++i) {
    const uint8_t* const rgb = picture.pixels.data() + 3 * i;
    if (grey) {
      planes[i] = static_cast<char>(Grey(rgb));
      continue;
    }
    for (size_t channel = 0; channel < 3; ++channel) {
      planes[channel * num_pixels + i] = static_cast<char>(rgb[channel]);
    }
  }
  return planes;
}

absl::StatusOr<std::string> PackPicture(const std::string& path, const PackOptions& options) {
  AMPD_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxFileBytes));
  AMPD_ASSIGN_OR_RETURN(const Picture picture, DecodePicture(content));
  const Box box =
      options.stretch ? Box{0, 0, picture.width, picture.height} : CentredBox(picture, options.width, options.height);
  return PlanesOf(Resize(picture, box, options.width, options.height), options.grey);
}

absl::StatusOr<std::string> HeaderOf(const std::vector<ClassFolder>& classes, int64_t num_images,
                                     const PackOptions& options) {
  nlohmann::json names = nlohmann::json::array();
  for (const ClassFolder& one : classes) {
    names.push_back(one.name);
  }
  const int64_t channels = options.grey ? 1 : 3;
  const auto num_bytes = static_cast<uint64_t>(num_images * channels * options.height * options.width);
  SafetensorsHeader header;
  header.metadata["classes"] = names.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  header.tensors = {{"images", "U8", {num_images, channels, options.height, options.width}, 0, num_bytes},
                    {"labels", "I32", {num_images}, num_bytes, num_bytes + static_cast<uint64_t>(num_images) * 4}};
  auto encoded = EncodeSafetensorsHeader(header);
  if (!encoded.ok()) {
    return absl::InvalidArgumentError(encoded.status().message());
  }
  return encoded;
}

absl::Status AppendImages(const std::vector<ClassFolder>& classes, int64_t num_images, const PackOptions& options,
                          PendingFile& out) {
  int64_t num_done = 0;
  for (const ClassFolder& one : classes) {
    for (const std::string& path : one.files) {
      const auto planes = PackPicture(path, options);
      AMPD_RETURN_IF_ERROR(Named(path, planes.status()));
      AMPD_RETURN_IF_ERROR(Named(options.destination, out.Append(*planes)));
      if (!options.progress(++num_done, num_images)) {
        return absl::CancelledError("stopped");
      }
    }
  }
  return absl::OkStatus();
}

std::string LabelsOf(const std::vector<ClassFolder>& classes) {
  std::string labels;
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto number = static_cast<uint32_t>(label);
    const std::array<char, 4> bytes = {static_cast<char>(number), static_cast<char>(number >> 8),
                                       static_cast<char>(number >> 16), static_cast<char>(number >> 24)};
    for (size_t i = 0; i < classes[label].files.size(); ++i) {
      labels.append(bytes.data(), bytes.size());
    }
  }
  return labels;
}

}  // namespace

absl::StatusOr<PackSummary> PackFolder(const PackOptions& options) {
  PackSummary summary;
  AMPD_ASSIGN_OR_RETURN(const std::vector<ClassFolder> classes, Scan(options.folder, summary));
  int64_t num_images = 0;
  for (const ClassFolder& one : classes) {
    summary.classes.push_back(one.name);
    summary.num_images.push_back(static_cast<int64_t>(one.files.size()));
    num_images += summary.num_images.back();
  }
  const int64_t of_image = (options.grey ? 1 : 3) * options.width * options.height + int64_t{8};
  if (num_images > kMaxBytes / of_image) {
    return absl::InvalidArgumentError(absl::StrCat(options.folder, ": ", num_images, " images of ", of_image,
                                                   " bytes are more than the ", kMaxBytes,
                                                   " that a job takes; make them smaller"));
  }
  AMPD_ASSIGN_OR_RETURN(const std::string header, HeaderOf(classes, num_images, options));
  auto out = PendingFile::Create(options.destination, options.replace);
  AMPD_RETURN_IF_ERROR(Named(options.destination, out.status()));
  AMPD_RETURN_IF_ERROR(Named(options.destination, out->Append(header)));
  AMPD_RETURN_IF_ERROR(AppendImages(classes, num_images, options, *out));
  AMPD_RETURN_IF_ERROR(Named(options.destination, out->Append(LabelsOf(classes))));
  AMPD_RETURN_IF_ERROR(Named(options.destination, out->Commit()));
  return summary;
}

}  // namespace ampd::images
