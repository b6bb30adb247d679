#pragma once

#include <string>

#include "ampd/v1/model_file.pb.h"
#include "client/render/format.h"

namespace ampd::client {

struct ModelTextOptions {
  bool headings = true;
  bool wide = false;       // every module, and a line for each tensor
  int64_t batch_size = 0;  // batch size of the memory estimates
  Palette palette{false};
};

// Modules below these levels are counted in those that contain them, unless all modules are shown.
inline constexpr int kShownModuleLevels = 3;

// Everything known of a model as tables, one per subject, with its problems at the end. Control characters in the
// file's texts are replaced.
std::string RenderModelFile(const v1::ModelFile& file, const ModelTextOptions& options);

// Whether a wide text would show more modules.
bool HidesModules(const v1::ModelFile& file);

}  // namespace ampd::client
