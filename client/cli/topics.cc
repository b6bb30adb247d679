#include "client/cli/topics.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/jobfile/spec_fields.h"
#include "client/terminal/exit_codes.h"

namespace ampd::client {
namespace {

constexpr char kEnvironmentText[] =
    "ampctl reads these environment variables:\n  AMPD_ADDRESS     server to use if --address is not given: HOST:PORT, "
    "unix:/PATH or the name of a context\n  AMPD_TOKEN       token to send to the server: the text itself "
    "(--token-file names a file with it). It is not used with a context that has a token of its own\n  AMPD_CA         "
    " file with the CA certificates for the server, as --ca\n  AMPD_CERT        file with your certificate, as "
    "--cert\n  AMPD_KEY         file with the key of your certificate, as --key\n  AMPD_TENANT      tenant in which "
    "the command works, if neither --tenant nor the context gives one\n  TRACEPARENT      trace that the command "
    "belongs to, in the form of W3C Trace "
    "Context; if it is not set or not valid, the command begins a trace\n  XDG_CONFIG_HOME  folder of settings "
    "(default ~/.config); its file ampd/contexts lists the servers that you have named\n  NO_COLOR         if it is "
    "set, ampctl prints no colours\n  TERM             if it is dumb, ampctl prints no colours and redraws nothing\n  "
    "LC_ALL, LC_CTYPE, LANG\n                   only the first of these that is set counts: if it names UTF-8, plots "
    "are drawn with Unicode characters, otherwise in ASCII\n\nThe server's address comes from the first of these: "
    "--address, AMPD_ADDRESS, the file .ampd/context in the current folder (written by ampctl dev while it runs), the "
    "context in use (ampctl context list), unix:/run/ampd/ampd.sock if a server on this machine listens there, and "
    "127.0.0.1:7070. To see which one it is: ampctl context show\n\nAMPD_TOKEN, AMPD_TENANT, AMPD_CA, AMPD_CERT and "
    "AMPD_KEY are not used if the address comes from .ampd/context, because they may be for another server. ampctl "
    "then prints a note.\n";

// The help on job files. A test compares the names of fields in it with the fields of the job spec.
constexpr char kJobFileText[] =
    "A job file describes one job, in YAML. These are its fields at the top:\n  name           name of the job, which "
    "need not be unique; required\n  model          the network to train: $MODELS, or exported (a model of your own, "
    "exported from PyTorch); required\n  data           training data, evaluation data and the size of a batch; "
    "required\n  precision      number formats: a preset, such as bf16, or rules of your own (default: the preset "
    "fp32)\n  optimizer      how the weights are changed: sgd, adamw and others; required unless the job predicts\n  "
    "schedule       how the learning rate changes over the steps\n  train          length of the training, gradient "
    "accumulation, seed; required unless the job predicts\n  eval           when the model is evaluated\n  checkpoint  "
    "   when checkpoints are written, and how many are kept\n  resources      kind of device, memory and worker that "
    "the job needs; a job runs on one device\n  queue          name of the queue; may be left out, because the server "
    "has one queue, named default\n  priority       jobs with a higher priority start first\n  on_divergence  what to "
    "do if the loss is not finite or explodes: WARN, FAIL, ROLL_BACK or ROLL_BACK_AND_RAISE_PRECISION\n  labels        "
    " texts of your own (KEY: VALUE), for the filters of ampctl job list\n  deadline       longest time that the job "
    "may take from its first start\n  max_retries    number of retries after failures that the job itself caused\n  "
    "lower_again_after_steps\n                 if a numeric fault has raised the job's precision: number of steps "
    "without a fault after which the job returns to the requested precision (default 0 = never)\n  sample         "
    "texts or "
    "images that a generative model makes while it trains\n  predict        makes the job predict with trained "
    "weights, and not train\n\nTo write a job file with comments: ampctl init\nTo check one, and to see every field "
    "with its default: ampctl job submit --dry-run -f FILE\nTo see the fields below one of these, type ampctl job "
    "submit --set train. and press Tab (ampctl completion --help).\nAll fields with their limits are in job-file.md, "
    "and for editors in job-file.schema.json. These files are in the folder docs of ampd's source, and in "
    "/usr/share/doc/ampd-doc if the package ampd-doc is installed.\n";

const char* JobFileText() {
  static const auto* const kText =
      new std::string(absl::StrReplaceAll(kJobFileText, {{"$MODELS", absl::StrJoin(ZooModelNames(), ", ")}}));
  return kText->c_str();
}

struct Topic {
  const char* name;
  const char* other_names;
  const char* (*text)();
};

constexpr Topic kTopics[] = {
    {"exit-codes",
     "exit-code exitcodes exitcode exit_codes exit-status exit codes return-codes exit-statuses error-codes",
     [] { return kExitCodesText; }},
    {"job-file", "jobfile job-files job.yaml job-spec job.spec spec fields yaml", JobFileText},
    {"environment", "env environment-variables env-vars variables", [] { return kEnvironmentText; }},
};

}  // namespace

std::vector<std::string> TopicNames() {
  std::vector<std::string> names;
  std::transform(std::begin(kTopics), std::end(kTopics), std::back_inserter(names),
                 [](const Topic& topic) { return topic.name; });
  return names;
}

const char* TopicText(const std::vector<std::string>& words) {
  const std::string text = absl::StrJoin(words, "-");
  for (const Topic& topic : kTopics) {
    const std::vector<std::string> others = absl::StrSplit(topic.other_names, ' ');
    if (text == topic.name || std::find(others.begin(), others.end(), text) != others.end()) {
      return topic.text();
    }
  }
  return nullptr;
}

}  // namespace ampd::client
