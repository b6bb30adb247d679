#include <cstdio>
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
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/data/data.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/progress_line.h"
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
                                                   images::kMaxSide, " pixels a side"));
  }
  return std::pair(width, height);
}

// Returns the first two classes whose names differ only in case. File systems of Windows and macOS would treat the two
// folders as one. Empty if there are none.
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

// Packs images of this machine into one file, without a server.
int PackImages(Session* session, const PackImagesOptions& options) {
  const Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto size = ParseSize(options.size);
  if (!size.ok()) {
    return session->Fail(size.status());
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
    return session->Fail(packed.status());
  }
  const int64_t num_images = std::accumulate(packed->num_images.begin(), packed->num_images.end(), int64_t{0});
  const PlainFields fields = {{"file", options.file},
                              {"numImages", absl::StrCat(num_images)},
                              {"numClasses", absl::StrCat(packed->classes.size())},
                              {"classes", absl::StrJoin(packed->classes, ",")},
                              {"numSkipped", absl::StrCat(packed->num_skipped)}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::printf("%s: %s images of (%d, %lld, %lld) in %s classes: %s\n", Printable(options.file).c_str(),
                FormatCount(num_images).c_str(), options.grey ? 1 : 3, static_cast<long long>(size->second),
                static_cast<long long>(size->first), FormatCount(static_cast<int64_t>(packed->classes.size())).c_str(),
                Printable(absl::StrJoin(packed->classes, ", ")).c_str());
  }
  if (const std::string alike = ClassesThatDifferInCase(packed->classes); !alike.empty()) {
    session->Note(absl::StrCat("the classes ", Printable(alike),
                               " differ only in case; they are two classes, as in ImageFolder"));
  }
  if (packed->num_skipped > 0) {
    session->Note(absl::StrCat(packed->num_skipped,
                               " files were skipped: they are not named as PNG or JPEG, or are in no class folder"));
  }
  return kExitOk;
}

}  // namespace

Command PackDataCommand() {
  const auto options = std::make_shared<PackImagesOptions>();
  return {.name = "pack",
          .help = "Pack class folders of PNG and JPEG files into one safetensors file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {{.name = "folder",
                         .value = &options->folder,
                         .text = "FOLDER",
                         .help = "Folder that holds one folder for each class",
                         .required = true,
                         .check = CheckNotEmpty,
                         .suggest = SuggestFiles},
                        OutputFile(&options->file),
                        {.name = "--size",
                         .value = &options->size,
                         .text = "N|WxH",
                         .help = "Size of every image in pixels, such as 32 or 64x48 (width first)",
                         .required = true,
                         .check = CheckNotEmpty},
                        {.name = "--grey", .value = &options->grey, .help = "Write one grey channel instead of three"},
                        {.name = "--stretch",
                         .value = &options->stretch,
                         .help = "Stretch the whole picture to the size instead of cutting out its middle"},
                        Force(&options->replace)},
          .run = [options](Session* session) { return PackImages(session, *options); }};
}

}  // namespace ampd::client
