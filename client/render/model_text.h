#pragma once

#include <string>

#include "ampd/v1/model_file.pb.h"
#include "client/render/format.h"

namespace ampd::client {

struct ModelTextOptions {
  bool headings = true;
  bool wide = false;       // every module, and a line a tensor
  int64_t batch_size = 0;  // that the memory is of
  Palette palette{false};
};

// Modules below these levels are counted in those that contain them, unless all are asked for.
inline constexpr int kShownModuleLevels = 3;

// All that is known of a model as tables, one a subject, with what is wrong with it at the end. Whatever text the file
// has is made harmless.
std::string RenderModelFile(const v1::ModelFile& file, const ModelTextOptions& options);

// Whether modules are left out that a wide text has.
bool HidesModules(const v1::ModelFile& file);

}  // namespace ampd::client
