#include "client/jobfile/foreign_names.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/nearest.h"
#include "base/units.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

// In these tables a name has only lower-case letters and digits, as LettersOf returns it.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"lr", "learning_rate"},
    {"wd", "weight_decay"},
    {"eps", "epsilon"},
    {"bs", "batch_size"},
    {"numepochs", "epochs"},
    {"maxepochs", "epochs"},
    {"numtrainepochs", "epochs"},
    {"nepochs", "epochs"},
    {"totalsteps", "steps"},
    {"numtrainsteps", "steps"},
    {"maxtrainsteps", "steps"},
    {"jobname", "name"},
    {"numsteps", "steps"},
    {"maxsteps", "steps"},
    {"gradaccum", "gradient_accumulation"},
    {"accumulationsteps", "gradient_accumulation"},
    {"maxgradnorm", "clip_grad_norm"},
    {"gradclip", "clip_grad_norm"},
};

constexpr std::pair<const char*, const char*> kPaths[] = {
    {"trainmicrobatchsizepergpu", "data.batch_size"},
    {"microbatchsize", "data.batch_size"},
    {"batch", "data.batch_size"},
    {"minibatch", "data.batch_size"},
    {"minibatchsize", "data.batch_size"},
    {"trainbatchsize", "data.batch_size"},
    {"perdevicetrainbatchsize", "data.batch_size"},
    {"perdevicebatchsize", "data.batch_size"},
    {"perdeviceevalbatchsize", "data.eval_batch_size"},
    {"shuffle", "data.keep_order"},
    {"droplast", "data.last_batch"},
    {"dataloaderdroplast", "data.last_batch"},
    {"augmentation", "data.augment"},
    {"device", "resources.kind"},
    {"accelerator", "resources.kind"},
    {"usecpu", "resources.kind"},
    {"devices", "resources.kind"},
    {"gpus", "resources.kind"},
    {"numgpus", "resources.kind"},
    {"ngpus", "resources.kind"},
    {"gpu", "resources.kind"},
    {"gres", "resources.kind"},
    {"gpuspernode", "resources.kind"},
    {"devicememory", "resources.memory_bytes"},
    {"gpumemory", "resources.memory_bytes"},
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
    {"optim", "optimizer"},
    {"scheduler", "schedule"},
    {"lrscheduler", "schedule"},
    {"lrschedulertype", "schedule"},
    {"ema", "optimizer.ema_decay"},
    {"tags", "labels"},
    {"timeout", "deadline"},
    {"timelimit", "deadline"},
    {"maxtime", "deadline"},
    {"time", "deadline"},
    {"walltime", "deadline"},
    {"activedeadlineseconds", "deadline"},
    {"backofflimit", "max_retries"},
    {"cpu", "train.num_threads"},
    {"cpus", "train.num_threads"},
    {"cpuspertask", "train.num_threads"},
    {"numcpus", "train.num_threads"},
    {"nodelist", "resources.worker"},
    {"nodename", "resources.worker"},
    {"nodeselector", "resources.worker"},
    {"savetopk", "checkpoint.keep"},
    {"maxkeep", "checkpoint.keep"},
    {"everyntrainsteps", "checkpoint.every_steps"},
    {"resumefromcheckpoint", "model.initial_checkpoint.job_id"},
    {"pretrained", "model.initial_weights"},
    {"pretrainedweights", "model.initial_weights"},
    {"retries", "max_retries"},
};

// Names of other programs that also say the value: "bf16: true" means the preset bf16.
constexpr std::pair<const char*, const char*> kValues[] = {
    {"fp16", "fp16"},     {"bf16", "bf16"},           {"amp", "auto"},   {"useamp", "auto"},
    {"autocast", "auto"}, {"mixedprecision", "auto"}, {"usecpu", "CPU"}, {"gres", "GPU"}};

constexpr std::pair<const char*, const char*> kFormats[] = {
    {"float32", "fp32"},      {"float", "fp32"},     {"single", "fp32"},
    {"f32", "fp32"},          {"float16", "fp16"},   {"half", "fp16"},
    {"f16", "fp16"},          {"bfloat16", "bf16"},  {"float8", "fp8"},
    {"16", "fp16"},           {"16mixed", "fp16"},   {"16true", "fp16"},
    {"bf16mixed", "bf16"},    {"bf16true", "bf16"},  {"32", "fp32"},
    {"32true", "fp32"},       {"no", "fp32"},        {"torchfloat32", "fp32"},
    {"torchfloat16", "fp16"}, {"torchhalf", "fp16"}, {"torchbfloat16", "bf16"},
};

// Words of other programs for the words of enumerations.
constexpr std::pair<const char*, const char*> kWords[] = {
    {"cuda", "GPU"},  {"nvidia", "GPU"}, {"nvidiacomgpu", "GPU"},  {"ignore", "WARN"}, {"continue", "WARN"},
    {"stop", "FAIL"}, {"abort", "FAIL"}, {"restore", "ROLL_BACK"}, {"tpu", ""},        {"mps", ""},
    {"xpu", ""},
};

constexpr char kOneDevice[] = "a job runs on one device; leave it out";
constexpr char kNoProgram[] = "a job has no program and no environment of its own; leave it out";
constexpr char kReading[] = "the worker itself chooses how it reads the data; leave it out";
constexpr char kEachStep[] = "the loss of every step is kept (ampctl job points ID); leave it out";
constexpr char kInSteps[] = "set checkpoint.every_steps, or eval.every_steps for evaluations; both count steps";
constexpr char kNoHub[] =
    "ampd loads no models by their name; describe the model below model (its kinds: ampctl init --help), and name the "
    "file of its weights in model.initial_weights";
constexpr char kOnServer[] = "the server keeps checkpoints (ampctl checkpoint download ID); leave it out";
constexpr char kOneKind[] = "ampd has one variant of this optimizer; leave it out";
constexpr char kBetas[] = "adamw and adam have beta1 and beta2";
constexpr char kResources[] = "set kind (AUTO, CPU or GPU) and memory_bytes";
constexpr char kKubernetes[] = "a job file is no manifest of Kubernetes; leave it out";
constexpr char kStartFrom[] = "to get a job file to start from: ampctl init";
constexpr char kBest[] = "the best checkpoint is the one with the lowest loss of an evaluation: checkpoint.keep_best";

// What to do with a field of another program that no field of a job file replaces.
constexpr std::pair<const char*, const char*> kAdvice[] = {
    {"numworkers", kReading},
    {"dataloadernumworkers", kReading},
    {"pinmemory", kReading},
    {"dataloaderpinmemory", kReading},
    {"prefetchfactor", kReading},
    {"persistentworkers", kReading},
    {"loggingsteps", kEachStep},
    {"logeverynsteps", kEachStep},
    {"loginterval", kEachStep},
    {"logevery", kEachStep},
    {"stepsperprint", kEachStep},
    {"loggingstrategy", kEachStep},
    {"reportto", kEachStep},
    {"wandb", kEachStep},
    {"tensorboard", kEachStep},
    {"logger", kEachStep},
    {"savestrategy", kInSteps},
    {"evalstrategy", kInSteps},
    {"evaluationstrategy", kInSteps},
    {"everynepochs", kInSteps},
    {"everyepoch", kInSteps},
    {"everyepochs", kInSteps},
    {"everyseconds", kInSteps},
    {"everyminutes", kInSteps},
    {"everyhours", kInSteps},
    {"savesecs", kInSteps},
    {"savecheckpointssecs", kInSteps},
    {"traintimeinterval", kInSteps},
    {"valcheckinterval", kInSteps},
    {"checkvaleverynepoch", kInSteps},
    {"modelnameorpath", kNoHub},
    {"pretrainedmodelnameorpath", kNoHub},
    {"modelname", kNoHub},
    {"modelid", kNoHub},
    {"basemodel", kNoHub},
    {"savelast", "the newest checkpoints are always kept, as many as checkpoint.keep says; leave it out"},
    {"monitor", kBest},
    {"metricforbestmodel", kBest},
    {"outputdir", kOnServer},
    {"savedir", kOnServer},
    {"dirpath", kOnServer},
    {"logdir", kOnServer},
    {"checkpointdir", kOnServer},
    {"warmupratio", "set schedule.warmup_steps, which counts steps"},
    {"warmupepochs", "set schedule.warmup_steps, which counts steps"},
    {"zerooptimization", kOneDevice},
    {"fsdp", kOneDevice},
    {"ddp", kOneDevice},
    {"deepspeed", kOneDevice},
    {"nodes", kOneDevice},
    {"numnodes", kOneDevice},
    {"nnodes", kOneDevice},
    {"ntasks", kOneDevice},
    {"worldsize", kOneDevice},
    {"parallelism", kOneDevice},
    {"completions", kOneDevice},
    {"replicas", kOneDevice},
    {"partition", "the server has one queue, which holds all jobs; leave it out"},
    {"qos", "set priority: jobs with a higher priority start first"},
    {"account", "the tenant is chosen on the command line: ampctl --tenant TENANT"},
    {"namespace", "the tenant is chosen on the command line: ampctl --tenant TENANT"},
    {"env", kNoProgram},
    {"environment", kNoProgram},
    {"image", kNoProgram},
    {"command", kNoProgram},
    {"args", kNoProgram},
    {"script", kNoProgram},
    {"entrypoint", kNoProgram},
    {"workingdir", kNoProgram},
    {"containers", kNoProgram},
    {"restartpolicy", "set max_retries, the number of retries"},
    {"limits", kResources},
    {"requests", kResources},
    {"betas", kBetas},
    {"amsgrad", kOneKind},
    {"fused", kOneKind},
    {"foreach", kOneKind},
    {"capturable", kOneKind},
    {"maximize", kOneKind},
    {"keepbatchnormfp32",
     "the preset chooses the formats of norms (ampctl policy show PRESET); to change them: precision.op_rules"},
    {"apiversion", kKubernetes},
    {"metadata", kStartFrom},
    {"spec", kStartFrom},
    {"version", "a job file has no version; leave it out"},
    {"services", "to get a job file to start from: ampctl init"},
};

// Returns the pair's second text for the word; null if no pair has the word. Ignores case and separators.
template <size_t kSize>
const char* Find(std::string_view word, const std::pair<const char*, const char*> (&words)[kSize]) {
  const std::string letters = LettersOf(word);
  const auto* const found =
      std::find_if(std::begin(words), std::end(words), [&](const auto& pair) { return letters == pair.first; });
  return found == std::end(words) ? nullptr : found->second;
}

template <size_t kSize>
std::string Translated(std::string_view word, const std::pair<const char*, const char*> (&words)[kSize]) {
  const char* const found = Find(word, words);
  return found == nullptr ? "" : found;
}

bool IsOneOf(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Returns the section `path` with the choice that the value names: "{adamw: {}}" for "adamw_torch". Empty if it names
// none.
std::string ChoiceNamed(const std::string& path, const std::string& value) {
  const google::protobuf::Descriptor& section = *FindField(*v1::JobSpec::descriptor(), path)->message_type();
  const std::string name = value.substr(0, value.find_first_of("_-"));
  const google::protobuf::FieldDescriptor* const choice = name.empty() ? nullptr : FindField(section, name);
  return choice != nullptr && choice->real_containing_oneof() != nullptr ? absl::StrCat("{", name, ": {}}") : "";
}

// Converts a size or a duration, as another program writes it, to the form of the field at `path`: "16G" to "16GB",
// "02:00:00" to "2h". Empty if the value is a plain number, whose unit is not known, or cannot be converted.
std::string WithUnit(std::string_view path, const std::string& value) {
  double number = 0;
  if (value.empty() || absl::SimpleAtod(value, &number)) {
    return "";
  }
  if (path == "deadline") {
    return ParseDuration(value).has_value() ? value : GuessDuration(value);
  }
  return ParseByteCount(value).has_value() ? value : GuessByteCount(value);
}

// Returns the value of the field at `path` that does what `value` does for the other program's field `word`. Empty if
// it is not known.
std::string ValueOf(std::string_view word, const std::string& path, const std::string& value) {
  const std::string lower = absl::AsciiStrToLower(value);
  const bool no = MeansNo(value);
  const bool yes = IsOneOf(lower, {"true", "yes", "on", "1"});
  int64_t count = 0;
  if (path == "data.keep_order") {
    return yes ? "false" : no ? "true" : "";
  }
  if (path == "data.last_batch") {
    return yes ? "DROP" : no ? "PAD" : "";
  }
  if (path == "resources.kind" && absl::SimpleAtoi(value, &count)) {
    return count == 0 && LettersOf(word) != "device" ? "CPU" : "GPU";  // The device 0 is the first GPU.
  }
  if (path == "resources.kind" && !value.empty() && Find(word, kValues) == nullptr) {
    return NearestWord(value, {"AUTO", "CPU", "GPU"});
  }
  if (path == "optimizer" || path == "schedule") {
    return ChoiceNamed(path, lower);
  }
  if (path == "resources.memory_bytes" || path == "deadline") {
    return WithUnit(path, value);
  }
  const std::string own = Translated(word, kValues);
  return own.empty() && path == "precision.preset" && !value.empty() ? NearestPreset(value) : own;
}

}  // namespace

bool IsPartOfBatch(std::string_view word) {
  return IsOneOf(LettersOf(word),
                 {"perdevicetrainbatchsize", "perdevicebatchsize", "trainmicrobatchsizepergpu", "microbatchsize"});
}

bool MeansNo(const std::string& value) { return IsOneOf(absl::AsciiStrToLower(value), {"false", "no", "off", "0"}); }

std::string UsualName(std::string_view word) { return Translated(word, kNames); }

UsualField UsualFieldOf(std::string_view word, const std::string& value) {
  std::string path = Translated(word, kPaths);
  std::string own = ValueOf(word, path, value);
  return {std::move(path), std::move(own)};
}

std::string UsualFormat(std::string_view word) { return Translated(word, kFormats); }

std::string AdviceOn(std::string_view word) {
  if (word.starts_with("x-") || word.starts_with('.')) {
    return "a value that is used several times gets its anchor ('&') where it is used first";
  }
  return Translated(word, kAdvice);
}

std::string NearestWord(const std::string& text, const std::vector<std::string>& names) {
  const auto has = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string letters = text.substr(0, std::min(text.find(':'), text.size()));  // "cuda" in "cuda:0"
  if (const char* const word = Find(letters, kWords); word != nullptr && (*word == '\0' || has(word))) {
    return word;
  }
  if (const std::string format = UsualFormat(text); has(format)) {
    return format;
  }
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar("-_ .:/"));
  for (const std::string& part : parts) {
    const auto named = std::find_if(names.begin(), names.end(),
                                    [&part](const std::string& name) { return absl::EqualsIgnoreCase(name, part); });
    if (named != names.end() && parts.size() > 1 && Nearest(text, names).empty()) {
      return *named;
    }
  }
  return Nearest(text, names);
}

}  // namespace ampd::client
