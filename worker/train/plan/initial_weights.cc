#include "worker/train/plan/initial_weights.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/formats/safetensors.h"
#include "base/formats/safetensors_json.h"
#include "base/formats/tensor_misfits.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "worker/train/checkpoint/tensor_file.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

constexpr char kBatchCounters[] = "*num_batches_tracked";

bool MatchesAny(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return GlobMatches(glob, name); });
}

// Prefix of all tensor names in a GPT-2 file that transformers saved from a model with a head.
constexpr char kBase[] = "transformer.";
// Name of the head's weight. GPT-2 files may lack this tensor, because it is the same as the embedding.
constexpr char kTiedHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "transformer.wte.weight";

bool IsKnownExtra(const std::string& name) {
  return MatchesAny({kBatchCounters, "*.attn.bias", "*.attn.masked_bias", "*position_ids"}, name);
}

// Logs the names of tensors that do not fit the model, up to kMaxLogged. The error message names only a few of them.
void LogMisfits(const TensorMisfits& misfits) {
  constexpr size_t kMaxLogged = 100;
  const std::pair<const char*, const std::vector<std::string>*> kinds[] = {{"missing", &misfits.missing},
                                                                           {"of another shape", &misfits.shapes},
                                                                           {"of another dtype", &misfits.dtypes},
                                                                           {"extra", &misfits.extra}};
  size_t num_logged = 0;
  for (const auto& [kind, names] : kinds) {
    for (size_t i = 0; i < names->size() && num_logged < kMaxLogged; ++i, ++num_logged) {
      LogLine(absl::StrCat("initial weights, ", kind, ": ", (*names)[i]));
    }
  }
}

absl::Status ToStatus(const TensorMisfits& misfits, const std::vector<std::string>& unused_globs) {
  if (!misfits.empty()) {
    LogMisfits(misfits);
    return absl::DataLossError(misfits.Describe());
  }
  return unused_globs.empty()
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat("model.initialize_anew matches no tensor: ", FirstNames(unused_globs)));
}

std::vector<std::string> UnusedGlobs(const SafetensorsHeader& header, const std::vector<std::string>& globs,
                                     const executor::TensorMap& model) {
  std::vector<std::string> unused;
  for (const std::string& glob : globs) {
    const bool in_file = std::any_of(header.tensors.begin(), header.tensors.end(),
                                     [&](const TensorEntry& entry) { return GlobMatches(glob, entry.name); });
    const bool in_model =
        std::any_of(model.begin(), model.end(), [&](const auto& named) { return GlobMatches(glob, named.first); });
    if (!in_file && !in_model) {
      unused.push_back(absl::StrCat("\"", glob, "\""));
    }
  }
  return unused;
}

// The file's entries by the name that the model uses for the same tensor, which may differ from the name in the file.
std::map<std::string, const TensorEntry*> EntriesByName(const SafetensorsHeader& header,
                                                        const executor::TensorMap& model,
                                                        const graph::SavedNames& names) {
  const auto has_base = [](const std::string& name) { return absl::StartsWith(name, kBase); };
  const bool lacks_base =
      std::all_of(model.begin(), model.end(), [&](const auto& named) { return has_base(named.first); }) &&
      std::none_of(header.tensors.begin(), header.tensors.end(),
                   [&](const TensorEntry& entry) { return has_base(entry.name); });
  std::map<std::string, const TensorEntry*> entries;
  for (const TensorEntry& entry : header.tensors) {
    entries[absl::StrCat(lacks_base ? kBase : "", entry.name)] = &entry;
  }
  for (const auto& [name, kept] : names.tied) {
    if (entries.contains(name) && !entries.contains(kept)) {
      entries[kept] = entries.extract(name).mapped();
    }
  }
  return entries;
}

// Whether the file's tensor `name` has the same bytes as the parameter to which the model ties it.
bool IsTied(const SafetensorsFile& file, const std::map<std::string, const TensorEntry*>& entries,
            const std::string& name, const graph::SavedNames& names) {
  const auto tied = names.tied.find(name);
  const auto kept = entries.find(tied != names.tied.end() ? tied->second : name == kTiedHead ? kEmbedding : "");
  if (kept == entries.end()) {
    return false;
  }
  const auto content = [&](const TensorEntry& entry) { return file.data.substr(entry.begin, entry.end - entry.begin); };
  const TensorEntry& again = *entries.at(name);
  return again.dtype == kept->second->dtype && again.shape == kept->second->shape &&
         content(again) == content(*kept->second);
}

bool MayBeMissing(const std::string& name, const graph::SavedNames& names) {
  return GlobMatches(kBatchCounters, name) || names.left_out.contains(name);
}

}  // namespace

absl::StatusOr<LoadedWeights> LoadInitialWeights(std::string_view bytes,
                                                 const std::vector<std::string>& initialize_anew,
                                                 executor::TensorMap& model, const graph::SavedNames& names) {
  AMPD_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  std::map<std::string, const TensorEntry*> entries = EntriesByName(file.header, model, names);
  LoadedWeights loaded;
  TensorMisfits misfits;
  for (const auto& [name, entry] : entries) {
    if (!model.contains(name) && !MatchesAny(initialize_anew, name)) {
      const bool is_known = IsKnownExtra(name) || IsTied(file, entries, name, names);
      (is_known ? loaded.ignored : misfits.extra).push_back(entry->name);
    }
  }
  for (auto& [name, tensor] : model) {
    if (MatchesAny(initialize_anew, name)) {
      loaded.anew.push_back(name);
      continue;
    }
    const auto found = entries.find(name);
    if (found == entries.end()) {
      if (!MayBeMissing(name, names)) {
        misfits.missing.push_back(name);
      }
      continue;
    }
    const TensorEntry& entry = *found->second;
    if (tensor.sizes() != at::IntArrayRef(entry.shape)) {
      misfits.AddShape(name, entry.shape, tensor.sizes().vec());
      continue;
    }
    AMPD_ASSIGN_OR_RETURN(const at::Tensor read, ReadTensor(file, entry));
    if (read.is_floating_point() != tensor.is_floating_point()) {
      misfits.dtypes.push_back(absl::StrCat(name, ": ", entry.dtype));
      continue;
    }
    tensor = read.to(tensor.scalar_type());
    ++loaded.num_tensors;
    loaded.num_bytes += static_cast<int64_t>(entry.end - entry.begin);
  }
  AMPD_RETURN_IF_ERROR(ToStatus(misfits, UnusedGlobs(file.header, initialize_anew, model)));
  return loaded;
}

std::string Describe(const LoadedWeights& loaded, const std::string& source) {
  std::string text =
      absl::StrCat("begins with ", loaded.num_tensors, " tensors of ", source, ", ", loaded.num_bytes, " bytes");
  if (!loaded.anew.empty()) {
    absl::StrAppend(&text, "; ", loaded.anew.size(), " begin anew: ", FirstNames(loaded.anew));
  }
  if (!loaded.ignored.empty()) {
    absl::StrAppend(&text, "; ", loaded.ignored.size(), " more are not needed: ", FirstNames(loaded.ignored));
  }
  return text;
}

}  // namespace ampd::train
