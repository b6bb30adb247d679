#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/terminal/session.h"

// One function a command; each prints what it has to say and returns the exit code.
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
  std::string page_token;  // where an earlier list ended
};
int ListJobs(Session* session, const ListOptions& options);
int ShowJob(Session* session, const std::string& id);
int Explain(Session* session, const std::string& id);
int Points(Session* session, const std::string& id, int downsample_to);
int Events(Session* session, const std::string& id);

// The presets, with a line on each. Asks no server.
int ListPolicies(Session* session);

struct PolicyOptions {
  std::string preset;  // empty: that of `file`
  std::string model;   // its field in ModelSpec, "lenet"; empty: that of `file`
  std::string file;    // job file; empty: none
  std::string device = "gpu";
};
// What a policy does to a model's parameters and ops.
int ShowPolicy(Session* session, const PolicyOptions& options);

enum class JobVerb { kCancel, kPause, kResume, kDelete };
int ApplyVerb(Session* session, JobVerb verb, const std::vector<std::string>& ids, bool confirmed);

// A new job with the spec of another; `retry` goes on from its last checkpoint.
int CloneJob(Session* session, const std::string& id, const std::string& name, bool retry, absl::Duration retry_for);

struct ScaleOptions {
  std::string id;
  std::optional<double> scale;
  std::optional<int> growth_interval;
};
// Orders a loss scale or a growth interval, in effect from the next step on.
int SetScale(Session* session, const ScaleOptions& options);

// Asks for the gradients of the next step, waits for the answer at most so long, and shows it.
int Gradients(Session* session, const std::string& id, absl::Duration timeout);

struct CheckpointOptions {
  std::string target;           // job id, or a checkpoint's folder on this machine
  std::optional<int64_t> step;  // of the job's; unset: the newest
  int attempt = 0;              // 0: the newest with that step
  std::string file;             // to export to
  bool replace = false;
  bool averages = false;
  bool recorded = false;
};
int ListCheckpoints(Session* session, const std::string& id);
// Of a job what the server knows; of a folder what is in it.
int ShowCheckpoint(Session* session, const CheckpointOptions& options);
// Every file of a folder against its manifest; `recorded`: and the manifest against the server's record.
int VerifyCheckpoint(Session* session, const CheckpointOptions& options);
// The model of a folder as a safetensors file.
int ExportCheckpoint(Session* session, const CheckpointOptions& options);
int DeleteCheckpoint(Session* session, const CheckpointOptions& options, bool confirmed);

struct WatchOptions {
  std::string id;
  bool from_start = true;
  absl::Duration interval = absl::Seconds(5);  // between lines when stdout is no terminal
};
int Watch(Session* session, const WatchOptions& options);

struct LogsOptions {
  std::string id;
  int attempt = 0;
  int64_t tail_bytes = 0;  // 0: from the start
  bool follow = false;
};
int Logs(Session* session, const LogsOptions& options);

// Waits for the end of all jobs; the exit code is that of the first one that did not succeed.
int Wait(Session* session, const std::vector<std::string>& ids, absl::Duration timeout);

// What is in a dataset's file on this machine, and what is wrong with it: exit code 1. Asks no server.
struct InspectDataOptions {
  std::string path;
  std::string format;  // of a token file: llm_c, uint16 or uint32; empty: told by the content
};
int InspectData(Session* session, const InspectDataOptions& options);

struct TokenizeOptions {
  std::string text;        // to read
  std::string file;        // to write
  std::string vocabulary;  // vocab.json beside `merges`, BERT's vocab.txt without; empty: bytes
  std::string merges;
  bool cased = false;
  bool replace = false;
  std::string format = "llm_c";
  bool any_format = false;  // bytes of a file that is no text
  bool labelled = false;    // texts with a label each
  std::string quotes;       // csv or none; empty: told by the file
  std::string text_field = "text";
  std::string label_field = "label";
  std::string classes;
  int64_t max_length = 0;
};
// A text as the file of its tokens. Asks no server.
int Tokenize(Session* session, const TokenizeOptions& options);

struct PackImagesOptions {
  std::string folder;  // of one for each class
  std::string file;    // to write
  std::string size;    // "32" or "64x48"
  bool grey = false;
  bool stretch = false;
  bool replace = false;
};
// Class folders of PNG and JPEG files as one file of tensors. Asks no server.
int PackImages(Session* session, const PackImagesOptions& options);

struct InspectModelOptions {
  std::string path;
  int output = 0;                    // of the program's outputs
  std::string head;                  // as HeadName; empty: told by the output
  std::vector<std::string> presets;  // empty: those that people compare first
  std::string device = "gpu";
  int64_t batch_size = 0;  // 0: no memory is told
  int64_t sequence_length = 0;
};
// What is in a file of torch.export on this machine, what policies would do to it, and why a job would refuse it: exit
// code 1. Asks no server.
int InspectModel(Session* session, const InspectModelOptions& options);

struct ArtifactOptions {
  std::string name;
  std::string file;  // to write; empty: what it was called
  bool replace = false;
};
// Of one job, or all there are where `job` is empty.
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
  std::string data_group;  // of files that jobs may read; empty: of none
  bool clean = false;
  bool confirmed = false;  // nobody is asked before the folder is cleaned
  absl::Duration start_timeout = absl::Seconds(30);
};
int Dev(Session* session, const DevOptions& options);

}  // namespace ampd::client
