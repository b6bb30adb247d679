#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/terminal/session.h"

// One function per command; each prints its results and returns the exit code.
namespace ampd::client {

struct SubmitOptions {
  std::string file;  // "-": standard input
  std::vector<std::string> overrides;
  std::string name;
  bool dry_run = false;
  bool follow = false;
  absl::Duration retry_for = absl::Seconds(10);
};
int Submit(Session* session, const SubmitOptions& options);

struct ListOptions {
  std::string filter;
  int limit = 50;
  std::string page_token;  // `next_page_token` of an earlier list
};
int ListJobs(Session* session, const ListOptions& options);
int ShowJob(Session* session, const std::string& id);
int Explain(Session* session, const std::string& id);
int Points(Session* session, const std::string& id, int downsample_to);
int Events(Session* session, const std::string& id);

// Lists the presets with a line on each. Asks no server.
int ListPolicies(Session* session);

struct PolicyOptions {
  std::string preset;  // empty: the preset of `file`
  std::string model;   // field name in ModelSpec, such as "lenet"; empty: the model of `file`
  std::string file;    // job file; empty: none
  std::string device = "gpu";
};
// Shows the effect of a policy on a model's parameters and ops.
int ShowPolicy(Session* session, const PolicyOptions& options);

enum class JobVerb { kCancel, kPause, kResume, kDelete };
int ApplyVerb(Session* session, JobVerb verb, const std::vector<std::string>& ids, bool confirmed);

// Creates a job with the spec of another; `retry` resumes from its last checkpoint.
int CloneJob(Session* session, const std::string& id, const std::string& name, bool retry, absl::Duration retry_for);

struct ScaleOptions {
  std::string id;
  std::optional<double> scale;
  std::optional<int> growth_interval;
};
// Sets the loss scale or the growth interval from the next step on.
int SetScale(Session* session, const ScaleOptions& options);

// Requests the gradients of the next step, waits for the answer for up to `timeout`, and shows it.
int Gradients(Session* session, const std::string& id, absl::Duration timeout);

struct CheckpointOptions {
  std::string target;           // job id, or a checkpoint's folder on this machine
  std::optional<int64_t> step;  // step of the job's checkpoint; unset: the newest
  int attempt = 0;              // 0: the newest attempt with that step
  std::string file;             // destination of an export
  bool replace = false;
  bool averages = false;
  bool recorded = false;
};
int ListCheckpoints(Session* session, const std::string& id);
// Shows the server's record of a job's checkpoint, or the content of a checkpoint folder.
int ShowCheckpoint(Session* session, const CheckpointOptions& options);
// Verifies every file of a folder against its manifest and, with `recorded`, the manifest against the server's record.
int VerifyCheckpoint(Session* session, const CheckpointOptions& options);
// Exports the model of a folder as a safetensors file.
int ExportCheckpoint(Session* session, const CheckpointOptions& options);
int DeleteCheckpoint(Session* session, const CheckpointOptions& options, bool confirmed);

struct WatchOptions {
  std::string id;
  bool from_start = true;
  absl::Duration interval = absl::Seconds(5);  // between lines when stdout is not a terminal
};
int Watch(Session* session, const WatchOptions& options);

struct LogsOptions {
  std::string id;
  int attempt = 0;
  int64_t tail_bytes = 0;  // 0: from the start
  bool follow = false;
};
int Logs(Session* session, const LogsOptions& options);

// Waits until all jobs have ended. The exit code is that of the first job that did not succeed.
int Wait(Session* session, const std::vector<std::string>& ids, absl::Duration timeout);

// Shows the content of a dataset file on this machine. Exit code 1 if it has problems. Asks no server.
struct InspectDataOptions {
  std::string path;
  std::string format;  // format of a token file: llm_c, uint16 or uint32; empty: detected from the content
};
int InspectData(Session* session, const InspectDataOptions& options);

struct TokenizeOptions {
  std::string text;        // file to read
  std::string file;        // file to write
  std::string vocabulary;  // vocab.json if `merges` is set, otherwise BERT's vocab.txt; empty: bytes
  std::string merges;
  bool cased = false;
  bool replace = false;
  std::string format = "llm_c";
  bool any_format = false;  // accept a file that is not text as bytes
  bool labelled = false;    // each text has a label
  std::string quotes;       // csv or none; empty: detected from the file
  std::string text_field = "text";
  std::string label_field = "label";
  std::string classes;
  int64_t max_length = 0;
};
// Writes the tokens of a text to a file. Asks no server.
int Tokenize(Session* session, const TokenizeOptions& options);

struct PackImagesOptions {
  std::string folder;  // holds one folder for each class
  std::string file;    // file to write
  std::string size;    // "32" or "64x48"
  bool grey = false;
  bool stretch = false;
  bool replace = false;
};
// Packs class folders of PNG and JPEG files into one file of tensors. Asks no server.
int PackImages(Session* session, const PackImagesOptions& options);

struct InspectModelOptions {
  std::string path;
  int output = 0;                    // index of the program's output
  std::string head;                  // as HeadName; empty: derived from the output
  std::vector<std::string> presets;  // empty: the usual presets
  std::string device = "gpu";
  int64_t batch_size = 0;  // 0: no memory estimate
  int64_t sequence_length = 0;
};
// Shows the content of a torch.export file on this machine and the effect of policies on it. Exit code 1 if a job would
// refuse it, with the reason. Asks no server.
int InspectModel(Session* session, const InspectModelOptions& options);

struct ArtifactOptions {
  std::string name;
  std::string file;  // file to write; empty: the artifact's file name
  bool replace = false;
};
// Lists the artifacts of one job, or all if `job` is empty.
int ListArtifacts(Session* session, const std::string& job);
int UploadArtifact(Session* session, const std::string& path);
int DownloadArtifact(Session* session, const ArtifactOptions& options);
int DeleteArtifact(Session* session, const std::string& name, bool confirmed);

int ListWorkers(Session* session);
int SetDrained(Session* session, const std::string& worker, bool drained);
int RemoveWorker(Session* session, const std::string& worker);
int Health(Session* session);

int AddContext(Session* session, const std::string& name, const std::string& address);
int UseContext(Session* session, const std::string& name);
int ListContexts(Session* session);
int ShowContext(Session* session);

struct DevOptions {
  std::string folder = ".ampd";
  int port = 7070;
  int metrics_port = 7071;
  std::vector<std::string> data_roots;
  std::string data_group;  // group of the files that jobs may read; empty: no group
  bool clean = false;
  bool confirmed = false;  // clean the folder without asking
  absl::Duration start_timeout = absl::Seconds(30);
};
int Dev(Session* session, const DevOptions& options);

}  // namespace ampd::client
