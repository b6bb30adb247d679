#include "data/images/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/safetensors.h"
#include "base/formats/safetensors_json.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "data/images/picture.h"
#include "data/images/resize.h"
#include "nlohmann/json.hpp"

namespace ampd::images {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxClasses = 65536;
constexpr int64_t kMaxBytes = int64_t{4} << 30;  // Limit of a job's samples in memory (data/byte_source.h).

struct ClassFolder {
  std::string name;
  std::vector<std::string> files;  // Paths.
};

bool EndsWithAnyOf(const std::string& name, std::initializer_list<std::string_view> endings) {
  const std::string lower = absl::AsciiStrToLower(name);
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return lower.ends_with(ending); });
}

bool IsNamedAsPicture(const std::string& name) { return EndsWithAnyOf(name, {".png", ".jpg", ".jpeg"}); }

// Whether the name has an extension that ImageFolder (torchvision/datasets/folder.py, IMG_EXTENSIONS) accepts, but
// whose format this code can't decode.
bool IsNamedAsOtherPicture(const std::string& name) {
  return EndsWithAnyOf(name, {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"});
}

// The entries of a folder: the folders in it, and everything else. A link counts as what it points to; a broken link is
// not a folder.
struct Entries {
  std::vector<std::string> folders;  // Names, sorted.
  std::vector<std::string> files;
};

absl::StatusOr<Entries> EntriesOf(const fs::path& folder) {
  Entries entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code leads_nowhere;
    (at->is_directory(leads_nowhere) ? entries.folders : entries.files).push_back(at->path().filename().string());
  }
  if (error) {
    return WithPrefix(folder.string(), ErrnoError(error.value(), "cannot be read"));
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

// Collects the pictures of one class in the order of torchvision's ImageFolder. Folders are sorted by their whole
// paths, so "cat-x" comes before "cat/x"; a walk through the tree would visit them in another order. The files of a
// folder are sorted by name.
class ClassWalk {
 public:
  explicit ClassWalk(PackSummary& summary) : summary_(summary) {}

  absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
    AMPD_RETURN_IF_ERROR(Enter(folder));
    std::vector<std::string> files;
    for (const auto& [path, names] : names_) {
      for (const std::string& name : names) {
        files.push_back(absl::StrCat(path, "/", name));
      }
    }
    return files;
  }

 private:
  // Walks one folder. Returns an error if a link leads back to a folder above it; torchvision would loop until the path
  // is too long.
  absl::Status Enter(const std::string& folder) {
    struct stat status = {};
    if (stat(folder.c_str(), &status) != 0) {
      return WithPrefix(folder, ErrnoError(errno, "cannot be read"));
    }
    const std::pair identity(status.st_dev, status.st_ino);
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(folder, ": a link that leads back to a folder it lies in"));
    }
    AMPD_ASSIGN_OR_RETURN(const Entries entries, EntriesOf(folder));
    std::vector<std::string>& names = names_[folder];
    for (const std::string& name : entries.files) {
      if (IsNamedAsOtherPicture(name)) {
        return absl::InvalidArgumentError(absl::StrCat(folder, "/", name,
                                                       ": is named as a picture that ImageFolder takes; convert it "
                                                       "to PNG or JPEG, or move it away"));
      }
      if (IsNamedAsPicture(name)) {
        names.push_back(name);
      } else {
        ++summary_.num_skipped;
      }
    }
    above_.push_back(identity);
    for (const std::string& name : entries.folders) {
      AMPD_RETURN_IF_ERROR(Enter(absl::StrCat(folder, "/", name)));
    }
    above_.pop_back();
    return absl::OkStatus();
  }

  PackSummary& summary_;
  std::map<std::string, std::vector<std::string>> names_;  // Names of the picture files in each folder, by its path.
  std::vector<std::pair<dev_t, ino_t>> above_;             // The folder being walked and the folders above it.
};

absl::StatusOr<std::vector<ClassFolder>> Scan(const std::string& folder, PackSummary& summary) {
  std::vector<ClassFolder> classes;
  AMPD_ASSIGN_OR_RETURN(const Entries entries, EntriesOf(folder));
  summary.num_skipped += static_cast<int64_t>(entries.files.size());
  for (const std::string& name : entries.folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (!IsUtf8(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": the name of a class is not UTF-8: ", absl::CHexEscape(name)));
    }
    ClassFolder one{name, {}};
    AMPD_ASSIGN_OR_RETURN(one.files, ClassWalk(summary).FilesOf(path));
    if (one.files.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has no .png, .jpg or .jpeg file; every folder is a class, also one whose name begins with a dot"));
    }
    classes.push_back(std::move(one));
  }
  if (classes.empty() || classes.size() > kMaxClasses) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": has ", classes.size(),
                                                   " folders; must have one for each class, at most ", kMaxClasses));
  }
  return classes;
}

// The grey value of a pixel, equal to that of Pillow's convert("L").
uint8_t Grey(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// The picture's pixels in the order (channels, height, width).
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
      AMPD_RETURN_IF_ERROR(WithPrefix(path, planes.status()));
      AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out.Append(*planes)));
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
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out.status()));
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out->Append(header)));
  AMPD_RETURN_IF_ERROR(AppendImages(classes, num_images, options, *out));
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out->Append(LabelsOf(classes))));
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out->Commit()));
  return summary;
}

}  // namespace ampd::images
