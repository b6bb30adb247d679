#include "client/jobfile/spec_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/nearest.h"
#include "base/units.h"
#include "precision/policy.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Visits the fields of `message` and of the messages in it, but not those in lists. `visit` gets each field with its
// path, and returns whether the search enters the field.
template <typename Visit>
void VisitFields(const Descriptor& message, const std::string& above, const Visit& visit) {
  constexpr int kDeepest = 4;  // maximum number of words in a path; also ends the search in recursive messages
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = above + FieldName(field);
    const bool enters = visit(field, path);
    if (enters && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated() &&
        std::count(path.begin(), path.end(), '.') + 1 < kDeepest) {
      VisitFields(*field.message_type(), path + ".", visit);
    }
  }
}

// Returns the text's letters and digits, in lower case.
std::string LettersOf(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      letters += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
  }
  return letters;
}

// Returns the second text of the pair whose first text equals `word`; "" if there is none. Ignores case and separators
// such as - and _.
template <size_t kSize>
std::string Translated(std::string_view word, const std::pair<const char*, const char*> (&words)[kSize]) {
  const std::string letters = LettersOf(word);
  const auto* const found =
      std::find_if(std::begin(words), std::end(words), [&](const auto& pair) { return letters == pair.first; });
  return found == std::end(words) ? "" : found->second;
}

}  // namespace

const FieldDescriptor* FindField(const Descriptor& message, std::string_view name) {
  const std::string wanted(name);
  if (const FieldDescriptor* field = message.FindFieldByName(wanted)) {
    return field;
  }
  for (int i = 0; i < message.field_count(); ++i) {
    if (message.field(i)->json_name() == wanted) {
      return message.field(i);
    }
  }
  return nullptr;
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) {
    names.push_back(FieldName(*message.field(i)));
  }
  return names;
}

std::vector<std::string> ZooModelNames() {
  const google::protobuf::OneofDescriptor& kinds = *v1::ModelSpec::descriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i < kinds.field_count(); ++i) {
    names.push_back(kinds.field(i)->name());
  }
  std::erase(names, "exported");
  return names;
}

std::vector<std::string> PathsTo(const Descriptor& message, std::string_view name, size_t most) {
  std::vector<std::string> paths;
  VisitFields(message, "", [&](const FieldDescriptor& field, const std::string& path) {
    const bool is_found = FieldName(field) == name;
    if (is_found && paths.size() < most) {
      paths.push_back(path);
    }
    return !is_found;
  });
  return paths;
}

std::vector<std::string> PathsLike(const Descriptor& message, std::string_view word) {
  const std::string letters = LettersOf(word);
  std::vector<std::string> paths;
  VisitFields(message, "", [&](const FieldDescriptor& /*field*/, const std::string& path) {
    if (!letters.empty() && LettersOf(path) == letters) {
      paths.push_back(path);
    }
    return true;
  });
  return paths;
}

std::string UsualName(std::string_view word) {
  static constexpr std::pair<const char*, const char*> kNames[] = {{"lr", "learning_rate"},
                                                                   {"wd", "weight_decay"},
                                                                   {"eps", "epsilon"},
                                                                   {"bs", "batch_size"},
                                                                   {"optim", "optimizer"},
                                                                   {"numepochs", "epochs"},
                                                                   {"maxepochs", "epochs"},
                                                                   {"numsteps", "steps"},
                                                                   {"maxsteps", "steps"},
                                                                   {"gradaccum", "gradient_accumulation"},
                                                                   {"accumulationsteps", "gradient_accumulation"},
                                                                   {"maxgradnorm", "clip_grad_norm"},
                                                                   {"gradclip", "clip_grad_norm"}};
  return Translated(word, kNames);
}

UsualField UsualFieldOf(std::string_view word) {
  static constexpr std::pair<const char*, const char*> kPaths[] = {
      {"batch", "data.batch_size"},
      {"minibatch", "data.batch_size"},
      {"minibatchsize", "data.batch_size"},
      {"trainbatchsize", "data.batch_size"},
      {"perdevicetrainbatchsize", "data.batch_size"},
      {"perdeviceevalbatchsize", "data.eval_batch_size"},
      {"shuffle", "data.keep_order"},
      {"droplast", "data.last_batch"},
      {"dataloaderdroplast", "data.last_batch"},
      {"augmentation", "data.augment"},
      {"device", "resources.kind"},
      {"accelerator", "resources.kind"},
      {"usecpu", "resources.kind"},
      {"devices", "resources.devices"},
      {"gpus", "resources.devices"},
      {"numgpus", "resources.devices"},
      {"ngpus", "resources.devices"},
      {"memory", "resources.memory_bytes"},
      {"mem", "resources.memory_bytes"},
      {"fp16", "precision.preset"},
      {"bf16", "precision.preset"},
      {"amp", "precision.preset"},
      {"useamp", "precision.preset"},
      {"autocast", "precision.preset"},
      {"mixedprecision", "precision.preset"},
      {"dtype", "precision.preset"},
      {"torchdtype", "precision.preset"},
      {"optlevel", "precision.preset"},
      {"scaler", "precision.loss_scale"},
      {"gradscaler", "precision.loss_scale"},
      {"lossscaling", "precision.loss_scale"},
      {"staticlossscale", "precision.loss_scale.static.scale"},
      {"gradientaccumulationsteps", "train.gradient_accumulation"},
      {"gradaccumsteps", "train.gradient_accumulation"},
      {"accumulategradbatches", "train.gradient_accumulation"},
      {"gradientclipping", "train.clip_grad_norm"},
      {"gradientclipval", "train.clip_grad_norm"},
      {"gradientcheckpointing", "train.checkpoint_segments"},
      {"activationcheckpointing", "train.checkpoint_segments"},
      {"randomseed", "train.seed"},
      {"manualseed", "train.seed"},
      {"patience", "train.early_stopping.patience"},
      {"savesteps", "checkpoint.every_steps"},
      {"saveevery", "checkpoint.every_steps"},
      {"checkpointevery", "checkpoint.every_steps"},
      {"savetotallimit", "checkpoint.keep"},
      {"maxtokeep", "checkpoint.keep"},
      {"savebest", "checkpoint.keep_best"},
      {"savebestonly", "checkpoint.keep_best"},
      {"loadbestmodelatend", "checkpoint.keep_best"},
      {"evalsteps", "eval.every_steps"},
      {"evalevery", "eval.every_steps"},
      {"warmup", "schedule.warmup_steps"},
      {"numwarmupsteps", "schedule.warmup_steps"},
      {"scheduler", "schedule"},
      {"lrscheduler", "schedule"},
      {"lrschedulertype", "schedule"},
      {"ema", "optimizer.ema_decay"},
      {"tags", "labels"},
      {"timeout", "deadline"},
      {"timelimit", "deadline"},
      {"maxtime", "deadline"},
      {"retries", "max_retries"}};
  static constexpr std::pair<const char*, const char*> kValues[] = {
      {"fp16", "fp16"},     {"bf16", "bf16"},           {"amp", "auto"},  {"useamp", "auto"},
      {"autocast", "auto"}, {"mixedprecision", "auto"}, {"usecpu", "CPU"}};
  return {Translated(word, kPaths), Translated(word, kValues)};
}

std::string UsualFormat(std::string_view word) {
  static constexpr std::pair<const char*, const char*> kFormats[] = {
      {"float32", "fp32"}, {"float", "fp32"}, {"single", "fp32"},   {"f32", "fp32"},  {"float16", "fp16"},
      {"half", "fp16"},    {"f16", "fp16"},   {"bfloat16", "bf16"}, {"float8", "fp8"}};
  return Translated(word, kFormats);
}

std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (!type.value(i)->name().ends_with("_UNSPECIFIED")) {
      names.push_back(type.value(i)->name());
    }
  }
  return names;
}

bool IsByteCount(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 && field.name().ends_with("_bytes");
}

std::string TypeWords(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return IsByteCount(field) ? kByteCountWords : "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number of at least 0";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return field.message_type()->full_name() == "google.protobuf.Duration" ? kDurationWords : "a mapping of fields";
}

std::string NearestPreset(const std::string& name) {
  const std::vector<std::string> presets = precision::PresetNames();
  const std::string usual = UsualFormat(name);
  if (std::find(presets.begin(), presets.end(), usual) != presets.end()) {
    return usual;
  }
  // If a preset copies a preset of another project, its name begins with that project's name: "apex-o1",
  // "keras-mixed-float16".
  const std::string own = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
  const auto copy = std::find_if(presets.begin(), presets.end(), [&own](const std::string& preset) {
    return !own.empty() && preset.ends_with("-" + own);
  });
  const bool is_own = std::find(presets.begin(), presets.end(), own) != presets.end();
  return copy != presets.end() && !is_own ? *copy : Nearest(own, presets);
}

}  // namespace ampd::client
