#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/data/data.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/progress_line.h"
#include "client/terminal/standard_streams.h"
#include "data/images/image_folder.h"
#include "data/images/picture.h"

namespace ampd::client {
namespace {

struct PackImagesOptions {
  std::string folder;  // folder with one subfolder of images per class
  std::string file;    // file to write
  std::string size;    // size of the images: "32" or "64x48", width first
  bool grey = false;
  bool stretch = false;
  bool replace = false;
};

// Returns width and height of a size such as "32" or "64x48".
absl::StatusOr<std::pair<int64_t, int64_t>> ParseSize(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  int64_t width = 0;
  int64_t height = 0;
  if (parts.size() > 2 || !absl::SimpleAtoi(parts.front(), &width) || !absl::SimpleAtoi(parts.back(), &height) ||
      width < 1 || height < 1 || width > images::kMaxSide || height > images::kMaxSide) {
    return absl::InvalidArgumentError(absl::StrCat("--size '", text, "' is not a size such as 32 or 64x48, with 1 to ",
                                                   images::kMaxSide, " pixels on each side"));
  }
  return std::pair(width, height);
}

// Returns the first two classes whose names differ only in case; empty if there are none. File systems of Windows and
// macOS would treat their folders as one.
std::string ClassesThatDifferInCase(const std::vector<std::string>& classes) {
  std::map<std::string, std::string> seen;  // class names by their lower-case form
  for (const std::string& name : classes) {
    const auto [there, is_new] = seen.try_emplace(absl::AsciiStrToLower(name), name);
    if (!is_new) {
      return absl::StrCat(there->second, " and ", name);
    }
  }
  return "";
}

// Checks the file to write, which must not be one of the pictures to pack.
absl::Status CheckPacked(const PackImagesOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(options.file, error)) {
    std::vector<std::string> files;
    for (std::filesystem::recursive_directory_iterator entry(options.folder, error), end; entry != end && !error;
         entry.increment(error)) {
      if (entry.depth() > 0) {
        files.push_back(entry->path().string());
      }
    }
    AMPD_RETURN_IF_ERROR(CheckInputsAreKept(files, options.file));
  }
  return CheckOutputFile(options.file, options.replace);
}

// Packs images on this machine into one file, without a server.
int PackImages(Session* session, const PackImagesOptions& options) {
  const Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto size = ParseSize(options.size);
  if (!size.ok()) {
    return session->Fail(size.status());
  }
  if (const absl::Status allowed = CheckPacked(options); !allowed.ok()) {
    return session->Fail(allowed);
  }
  ProgressLine line(*session);
  const auto packed = images::PackFolder({.folder = options.folder,
                                          .destination = options.file,
                                          .replace = options.replace,
                                          .width = size->first,
                                          .height = size->second,
                                          .grey = options.grey,
                                          .stretch = options.stretch,
                                          .progress = [&](int64_t num_done, int64_t num_all) {
                                            line.Show(static_cast<double>(num_done) / static_cast<double>(num_all));
                                            return !cancellation->cancelled();
                                          }});
  line.Clear();
  if (!packed.ok()) {
    return session->Fail(AsInputError(ErrorOfFile(options.file, packed.status())));
  }
  const int64_t num_images = std::accumulate(packed->num_images.begin(), packed->num_images.end(), int64_t{0});
  const PlainFields fields = {{"file", options.file},
                              {"numImages", static_cast<int64_t>(num_images)},
                              {"numClasses", static_cast<int64_t>(packed->classes.size())},
                              {"classes", absl::StrJoin(packed->classes, ",")},
                              {"numSkipped", static_cast<int64_t>(packed->num_skipped)}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: %s images of shape (%d, %lld, %lld) in %s classes: %s\n", Printable(options.file).c_str(),
                   FormatCount(num_images).c_str(), options.grey ? 1 : 3, static_cast<long long>(size->second),
                   static_cast<long long>(size->first),
                   FormatCount(static_cast<int64_t>(packed->classes.size())).c_str(),
                   Printable(absl::StrJoin(packed->classes, ", ")).c_str());
  }
  if (const std::string alike = ClassesThatDifferInCase(packed->classes); !alike.empty()) {
    session->Note(absl::StrCat(
        "the classes ", Printable(alike),
        " differ only in upper and lower case; each name is a class of its own, as in torchvision's ImageFolder"));
  }
  if (packed->num_skipped > 0) {
    session->Note(absl::StrCat(packed->num_skipped,
                               " files were skipped: their names do not end in .png, .jpg or .jpeg, or they are in no "
                               "class folder"));
  }
  return kExitOk;
}

}  // namespace

Command PackDataCommand() {
  const auto options = std::make_shared<PackImagesOptions>();
  return {
      .name = "pack",
      .help = "Pack folders of PNG and JPEG files, one folder per class, into one safetensors file",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments =
          {{.name = "folder",
            .value = &options->folder,
            .text = "FOLDER",
            .help =
                "Folder with one subfolder of pictures per class; the classes are numbered in the order of their names",
            .required = true,
            .suggest = SuggestFiles,
            .is_path = true},
           OutputFile(&options->file),
           {.name = "--size",
            .value = &options->size,
            .text = "N|WxH",
            .help = "Size of every image in pixels, such as 32 or 64x48 (width first)",
            .required = true},
           {.name = "--grey", .value = &options->grey, .help = "Write one grey channel instead of three"},
           {.name = "--stretch",
            .value = &options->stretch,
            .help = "Stretch the whole picture to the size, instead of cropping it to its middle"},
           Force(&options->replace)},
      .run = [options](Session* session) { return PackImages(session, *options); }};
}

}  // namespace ampd::client
