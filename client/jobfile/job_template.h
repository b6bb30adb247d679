#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

// Makes job files for users to start from. These files are complete, have comments, and are accepted by the server as
// they are.
namespace ampd::client {

// Return the kinds of models and of data that JobTemplate knows, by their names in a job file ("resnet", "npz").
std::vector<std::string> TemplateModels();
std::vector<std::string> TemplateData();

// Returns a job file that trains the model on this kind of data; an empty `data` means the kind that is usual for the
// model. `name` is the job's name. Paths of data are placeholders, except for Fashion-MNIST and CIFAR-10.
// INVALID_ARGUMENT: there is no such model or kind of data, or the model can't be trained on it (the message names the
// possible ones), or the server would refuse the name.
absl::StatusOr<std::string> JobTemplate(const std::string& model, const std::string& data, const std::string& name);

}  // namespace ampd::client
