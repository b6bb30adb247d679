#pragma once

#include <string>

#include "ampd/v1/model_file.pb.h"
#include "client/render/format.h"

namespace ampd::client {

struct ModelTextOptions {
  bool headings = true;
  bool wide = false;       // shows every module, and a line for each tensor
  int64_t batch_size = 0;  // batch size for which the memory was estimated
  Palette palette{false};
  int width = 0;  // number of columns to which the tables are fitted; 0: any
};

// The number of levels of the module tree that are shown by default. The numbers of a module below this level are added
// to those of the module that contains it.
inline constexpr int kShownModuleLevels = 3;

// Returns everything known about a model as tables, one per subject, with the model's problems at the end. Replaces
// control characters in the file's texts.
std::string RenderModelFile(const v1::ModelFile& file, const ModelTextOptions& options);

// Returns whether the text omits modules that it shows with `wide`.
bool HidesModules(const v1::ModelFile& file);

}  // namespace ampd::client
