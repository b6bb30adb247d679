// Options of ampctl checkpoint, artifact, policy, data, model, worker and context.
#include "client/cli/command_line.h"
#include "precision/policy.h"

namespace ampd::client {

void AddCheckpoints(CLI::App* root, CommandLine* line) {
  CLI::App* group = root->add_subcommand("checkpoint", "Checkpoints of jobs")->require_subcommand(1)->fallthrough();
  CLI::App* list = AddCommand(
      group, "list", "Those a job keeps, oldest first", line,
      [line](Session* s) { return ListCheckpoints(s, line->id); }, All());
  list->alias("ls");
  AddId(list, line);
  CLI::App* show = AddCommand(
      group, "show", "What a checkpoint is and, of a folder, its tensors", line,
      [line](Session* s) { return ShowCheckpoint(s, line->checkpoint); }, AllBut({OutputFormat::kName}));
  CLI::App* verify = AddCommand(
      group, "verify", "Hold a folder's files against its manifest", line,
      [line](Session* s) { return VerifyCheckpoint(s, line->checkpoint); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  verify->add_flag("--recorded", line->checkpoint.recorded, "And the manifest against what the server recorded");
  CLI::App* exported = AddCommand(
      group, "export", "Write a folder's model to a safetensors file", line,
      [line](Session* s) { return ExportCheckpoint(s, line->checkpoint); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  CLI::App* remove = AddCommand(
      group, "delete", "Remove a checkpoint for good", line,
      [line](Session* s) { return DeleteCheckpoint(s, line->checkpoint, line->yes); }, AllBut({OutputFormat::kWide}));
  const auto add_target = [line](CLI::App* app, const char* help, const char* text) {
    app->add_option("target", line->checkpoint.target, help)->required()->check(CheckNotEmpty)->option_text(text);
  };
  add_target(show, "Job id, or a checkpoint's folder on this machine", "ID|FOLDER");
  add_target(verify, "A checkpoint's folder on this machine", "FOLDER");
  add_target(exported, "A checkpoint's folder on this machine", "FOLDER");
  add_target(remove, "Job id", "ID");
  exported->add_option("file", line->checkpoint.file, "To write")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
  exported->add_flag("--averages", line->checkpoint.averages, "The averages that optimizer.ema_decay keeps");
  exported->add_flag("--force", line->checkpoint.replace, "Replace a file that is there");
  show->add_option("step", line->checkpoint.step, "Step of the checkpoint (default: the newest)")
      ->check(CheckCount)
      ->option_text("[STEP]");
  remove->add_option("step", line->checkpoint.step, "Of the checkpoint")
      ->required()
      ->check(CheckCount)
      ->option_text("STEP");
  for (CLI::App* app : {show, remove}) {
    app->add_option("--attempt", line->checkpoint.attempt, "Number of the attempt (default: the newest)")
        ->check(CheckPositiveCount)
        ->option_text("N");
  }
  remove->add_flag("-y,--yes", line->yes, "Do not ask");
}

void AddArtifacts(CLI::App* root, CommandLine* line) {
  CLI::App* group =
      root->add_subcommand("artifact", "Uploaded files, and samples of jobs")->require_subcommand(1)->fallthrough();
  CLI::App* list = AddCommand(
      group, "list", "All there are, newest first", line, [line](Session* s) { return ListArtifacts(s, line->id); },
      All());
  list->alias("ls");
  list->add_option("--job", line->id, "Only those of this job")->check(CheckNotEmpty)->option_text("JOB");
  AddCommand(
      group, "upload", "Send a file, for jobs to name", line,
      [line](Session* s) { return UploadArtifact(s, line->artifact.file); }, AllBut({OutputFormat::kWide}))
      ->add_option("file", line->artifact.file, "To send; nothing is sent of what the server has")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
  CLI::App* download = AddCommand(
      group, "download", "Write one to a file", line,
      [line](Session* s) { return DownloadArtifact(s, line->artifact); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  CLI::App* remove = AddCommand(
      group, "delete", "Remove one for good", line,
      [line](Session* s) { return DeleteArtifact(s, line->artifact.name, line->yes); }, AllBut({OutputFormat::kWide}));
  for (CLI::App* app : {download, remove}) {
    app->add_option("name", line->artifact.name, "As in ampctl artifact list")
        ->required()
        ->check(CheckNotEmpty)
        ->option_text("NAME");
  }
  download
      ->add_option("file", line->artifact.file,
                   "File to write, - for stdout (default: the name that it was uploaded with)")
      ->check(CheckNotEmpty)
      ->option_text("[FILE]");
  download->add_flag("--force", line->artifact.replace, "Replace a file that is there");
  remove->add_flag("-y,--yes", line->yes, "Do not ask");
}

void AddPolicies(CLI::App* root, CommandLine* line) {
  CLI::App* policy = root->add_subcommand("policy", "Precision policies")->require_subcommand(1)->fallthrough();
  AddCommand(
      policy, "list", "The presets", line, [](Session* s) { return ListPolicies(s); }, AllBut({OutputFormat::kWide}))
      ->alias("ls");
  CLI::App* show = AddCommand(
      policy, "show", "What a policy does to a model", line, [line](Session* s) { return ShowPolicy(s, line->policy); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
  show->add_option("preset", line->policy.preset, "Preset, as in ampctl policy list (default: the one of the job file)")
      ->option_text("[PRESET]");
  show->add_option("--model", line->policy.model,
                   "Name of a model in job files (default: the one of the job file, or lenet)")
      ->check(OneOf({"lenet", "mlp", "resnet", "efficientnet_b0", "gpt2", "bert_classifier", "dcgan"}))
      ->option_text("MODEL");
  show->add_option("-f,--file", line->policy.file, "Job file with model, rules and optimizer, - for standard input")
      ->option_text("FILE");
  show->add_option("--device", line->policy.device,
                   "gpu (compute capability 9.0) or cpu (with avx512_bf16) (default gpu)")
      ->check(OneOf({"gpu", "cpu"}))
      ->option_text("KIND");
}

namespace {

void AddTokenize(CLI::App* data, CommandLine* line) {
  CLI::App* tokenize = AddCommand(
      data, "tokenize", "Write a text as the numbers of its tokens", line,
      [line](Session* s) { return Tokenize(s, line->tokenize); }, AllBut({OutputFormat::kWide, OutputFormat::kName}));
  TokenizeOptions& options = line->tokenize;
  const auto add = [tokenize](const char* name, std::string& value, const char* help, const char* text) {
    return tokenize->add_option(name, value, help)->check(CheckNotEmpty)->option_text(text);
  };
  add("text", options.text, "UTF-8 text to read; bytes without --vocab", "TEXT")->required();
  add("file", options.file, "To write", "FILE")->required();
  add("--vocab", options.vocabulary, "GPT-2's vocab.json, with --merges, or BERT's vocab.txt", "FILE");
  add("--merges", options.merges, "GPT-2's merges.txt", "FILE");
  tokenize->add_flag("--cased", options.cased, "BERT: keep capitals and accents");
  add("--format", options.format, "llm_c (with a header), uint16 or uint32 (default llm_c)", "FORMAT")
      ->check(OneOf({"llm_c", "uint16", "uint32"}));
  tokenize->add_flag("--any-format", options.any_format, "Bytes also of a file that is no text, as one of gzip");
  tokenize->add_flag("--jsonl", options.labelled, "A text and a label a line: write JSON lines of tokens and label");
  add("--text-field", options.text_field, "Column or JSON field of the text (default text)", "NAME");
  add("--label-field", options.label_field, "Column or JSON field of the label (default label)", "NAME");
  add("--classes", options.classes,
      "Names of the labels, from label 0 on, separated by commas (default: labels are numbers)", "A,B");
  add("--quotes", options.quotes,
      "csv (quotes enclose a cell) or none (quotes are text) (default: decided by the file)", "MEANING")
      ->check(OneOf({"csv", "none"}));
  tokenize->add_option("--max-length", options.max_length, "Cut longer texts to so many tokens")
      ->check(CheckCount)
      ->option_text("N");
  tokenize->add_flag("--force", options.replace, "Replace a file that is there");
}

void AddPack(CLI::App* data, CommandLine* line) {
  CLI::App* pack = AddCommand(
      data, "pack", "Put class folders of PNG and JPEG files into one safetensors file", line,
      [line](Session* s) { return PackImages(s, line->pack); }, AllBut({OutputFormat::kWide, OutputFormat::kName}));
  pack->add_option("folder", line->pack.folder, "With a folder for each class")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FOLDER");
  pack->add_option("file", line->pack.file, "To write")->required()->check(CheckNotEmpty)->option_text("FILE");
  pack->add_option("--size", line->pack.size, "Pixels of every image, as 32 or 64x48 (width first)")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("N|WxH");
  pack->add_flag("--grey", line->pack.grey, "One channel instead of three");
  pack->add_flag("--stretch", line->pack.stretch, "The whole picture, distorted, instead of its middle");
  pack->add_flag("--force", line->pack.replace, "Replace a file that is there");
}

}  // namespace

void AddData(CLI::App* root, CommandLine* line) {
  CLI::App* data = root->add_subcommand("data", "Files of datasets")->require_subcommand(1)->fallthrough();
  CLI::App* inspect = AddCommand(
      data, "inspect", "What is in a file on this machine, and what is wrong with it", line,
      [line](Session* s) { return InspectData(s, line->data); }, AllBut({OutputFormat::kWide, OutputFormat::kName}));
  inspect->add_option("path", line->data.path, "File, of a format in docs/data.md")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
  inspect
      ->add_option("--format", line->data.format,
                   "Format of token files: llm_c, uint16 or uint32 (default: decided by the content)")
      ->check(OneOf({"llm_c", "uint16", "uint32"}))
      ->option_text("FORMAT");
  AddTokenize(data, line);
  AddPack(data, line);
}

void AddModels(CLI::App* root, CommandLine* line) {
  CLI::App* model = root->add_subcommand("model", "Models of your own")->require_subcommand(1)->fallthrough();
  CLI::App* inspect = AddCommand(
      model, "inspect", "What is in a file of torch.export, and what policies would do to it", line,
      [line](Session* s) { return InspectModel(s, line->model); }, AllBut({OutputFormat::kName}));
  InspectModelOptions& options = line->model;
  inspect->add_option("path", options.path, "A .pt2 file on this machine")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("FILE");
  inspect->add_option("--preset", options.presets, "Preset, as in ampctl policy list; again for others")
      ->check(OneOf(precision::PresetNames()))
      ->allow_extra_args(false)
      ->option_text("PRESET");
  inspect
      ->add_option("--device", options.device, "gpu (compute capability 9.0) or cpu (with avx512_bf16) (default gpu)")
      ->check(OneOf({"gpu", "cpu"}))
      ->option_text("KIND");
  inspect
      ->add_option("--logits", options.output,
                   "Which of the model's outputs the logits are, counted from 0 (default 0)")
      ->check(CheckCount)
      ->option_text("N");
  inspect
      ->add_option("--head", options.head,
                   "What turns the output into a loss, as model.exported.head (default: decided by the output)")
      ->check(OneOf({"CLASSIFICATION", "LANGUAGE_MODEL", "REGRESSION", "MULTI_LABEL", "OWN_LOSS", "GAN"}))
      ->option_text("HEAD");
  inspect->add_option("--batch", options.batch_size, "Tell the memory of a step with so many samples")
      ->check(CheckPositiveCount)
      ->option_text("N");
  inspect
      ->add_option("--sequence-length", options.sequence_length,
                   "Positions of a text's sample, where the model leaves them open")
      ->check(CheckPositiveCount)
      ->option_text("N");
}

void AddWorkersAndContexts(CLI::App* root, CommandLine* line) {
  CLI::App* worker = root->add_subcommand("worker", "Workers and their devices")->require_subcommand(1)->fallthrough();
  AddCommand(
      worker, "list", "All workers", line, [](Session* s) { return ListWorkers(s); }, All())
      ->alias("ls");
  for (const bool drain : {true, false}) {
    AddCommand(
        worker, drain ? "drain" : "undrain",
        drain ? "Give it no new work; its jobs checkpoint and move" : "Take a drain back", line,
        [line, drain](Session* s) { return SetDrained(s, line->name, drain); }, All())
        ->add_option("name", line->name, "Worker, as in ampctl worker list")
        ->required()
        ->check(CheckNotEmpty)
        ->option_text("NAME");
  }
  AddCommand(
      worker, "remove", "Forget a lost worker; one that comes back is there again", line,
      [line](Session* s) { return RemoveWorker(s, line->name); }, AllBut({OutputFormat::kWide}))
      ->add_option("name", line->name, "Worker, as in ampctl worker list")
      ->required()
      ->check(CheckNotEmpty)
      ->option_text("NAME");
  CLI::App* context = root->add_subcommand("context", "Servers by name")->require_subcommand(1)->fallthrough();
  CLI::App* add = AddCommand(
      context, "add", "Name a server", line, [line](Session* s) { return AddContext(s, line->name, line->text); },
      Text());
  add->add_option("name", line->name, "One word")->required()->option_text("NAME");
  add->add_option("server", line->text, "Where it listens")->required()->option_text("HOST:PORT");
  AddCommand(
      context, "use", "Use it from now on", line, [line](Session* s) { return UseContext(s, line->name); }, Text())
      ->add_option("name", line->name, "Name, as in ampctl context list")
      ->required()
      ->option_text("NAME");
  AddCommand(
      context, "list", "All names", line, [](Session* s) { return ListContexts(s); }, AllBut({OutputFormat::kWide}));
  AddCommand(
      context, "show", "The address that would be used, and why", line, [](Session* s) { return ShowContext(s); },
      AllBut({OutputFormat::kWide, OutputFormat::kName}));
}

}  // namespace ampd::client
