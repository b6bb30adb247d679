#pragma once

#include <string>

#include "ampd/v1/model_file.pb.h"
#include "client/render/format.h"

namespace ampd::client {

struct ModelTextOptions {
  bool headings = true;
  bool wide = false;       // shows every module, and a line for each tensor
  int64_t batch_size = 0;  // batch size of the memory estimate
  Palette palette{false};
  int width = 0;  // maximum width of the tables in columns; 0: no maximum
};

// How many levels of the module tree are shown by default. The numbers of a module below the last shown level are added
// to those of the module that contains it.
inline constexpr int kShownModuleLevels = 3;

// Returns everything known about a model as tables, one per subject, with the model's problems at the end. Control
// characters in the file's texts are replaced.
std::string RenderModelFile(const v1::ModelFile& file, const ModelTextOptions& options);

// Returns whether the text omits modules that are shown with `wide`.
bool HidesModules(const v1::ModelFile& file);

}  // namespace ampd::client
