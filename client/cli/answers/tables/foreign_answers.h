#pragma once

// The answers to users who try commands of other programs, such as kubectl, in ampctl. Many commands have the same
// answer.
namespace ampd::client {

// What to type in place of a command of another program.
struct ForeignAnswer {
  const char* purpose;  // what the user wants to do: "list jobs"
  // The command to type after "ampctl". In it, ID, NAME and FILE stand for the user's own words. If it is empty, there
  // is no such command, and `purpose` is the whole answer.
  const char* command;
};

// Jobs.
inline constexpr ForeignAnswer kListJobs = {"list jobs", "job list"};
inline constexpr ForeignAnswer kListAllJobs = {"list all jobs", "job list"};
inline constexpr ForeignAnswer kWatchJobs = {"watch the list of jobs", "job list --watch"};
inline constexpr ForeignAnswer kListByPriority = {"list the jobs that wait, by their priority",
                                                  "job list -o wide --sort priority,desc"};
inline constexpr ForeignAnswer kNoPriorityClasses = {
    "list the jobs by their priority, a number from -1000 to 1000 (ampd has no priority classes)",
    "job list -o wide --sort priority,desc"};
inline constexpr ForeignAnswer kNoStartTime = {"see why a job waits (ampd predicts no start times)", "job explain ID"};
inline constexpr ForeignAnswer kShowJob = {"show a job", "job show ID"};
inline constexpr ForeignAnswer kExplainJob = {"see why a job waits", "job explain ID"};
inline constexpr ForeignAnswer kWatchJob = {"watch a job", "job watch ID"};
inline constexpr ForeignAnswer kWatchLoss = {"watch a job and its loss", "job watch ID"};
inline constexpr ForeignAnswer kWaitForJob = {"wait until a job ends", "job wait ID"};
inline constexpr ForeignAnswer kWaitForCode = {"wait until a job ends (the exit code says how it ended)",
                                               "job wait ID"};
inline constexpr ForeignAnswer kNotifyOfJob = {"run a program when a job ends, wait for the job in a script",
                                               "job wait ID"};
inline constexpr ForeignAnswer kReadLog = {"read a job's log", "job logs ID"};
inline constexpr ForeignAnswer kFollowLog = {"follow a job's log", "job logs -f ID"};
inline constexpr ForeignAnswer kReadOldLog = {"read the log of an earlier attempt", "job logs --attempt N ID"};
inline constexpr ForeignAnswer kListEvents = {"list a job's events", "job events ID"};
inline constexpr ForeignAnswer kPrintPoints = {"print a job's steps and evaluations", "job points ID"};
inline constexpr ForeignAnswer kSubmit = {"submit a job", "job submit -f FILE"};
inline constexpr ForeignAnswer kSubmitAndWatch = {"submit a job and watch it", "job submit --follow -f FILE"};
inline constexpr ForeignAnswer kSubmitAndWatchNoCommand = {
    "submit a job and watch it (workers run no commands, only jobs)", "job submit --follow -f FILE"};
inline constexpr ForeignAnswer kSubmitChanged = {"submit a changed job file as a new job", "job submit -f FILE"};
inline constexpr ForeignAnswer kSubmitLater = {"submit a job at a set time, let cron run", "job submit -f FILE"};
inline constexpr ForeignAnswer kSetField = {"change a field of the job file when you submit it",
                                            "job submit --set PATH=VALUE -f FILE"};
inline constexpr ForeignAnswer kCheckFile = {"check a job file without submitting it", "job submit --dry-run -f FILE"};
inline constexpr ForeignAnswer kWriteFile = {"write a job file to start from", "init"};
inline constexpr ForeignAnswer kNoScript = {"write a job file to start from (ampd trains from job files, not scripts)",
                                            "init"};
inline constexpr ForeignAnswer kThenSubmit = {"submit it then", "job submit -f job.yaml"};
inline constexpr ForeignAnswer kFileFields = {"see the fields of a job file", "help job-file"};
inline constexpr ForeignAnswer kCancel = {"cancel a job", "job cancel ID"};
inline constexpr ForeignAnswer kPause = {"pause a job", "job pause ID"};
inline constexpr ForeignAnswer kResume = {"resume a paused job", "job resume ID"};
inline constexpr ForeignAnswer kRetry = {"resume a failed or cancelled job from its last checkpoint", "job retry ID"};
inline constexpr ForeignAnswer kRestart = {"interrupt a running job, pause it and then resume it", "job pause ID"};
inline constexpr ForeignAnswer kListRuns = {"list jobs (ampd has no workflows)", "job list"};
inline constexpr ForeignAnswer kRunAgain = {"run a job again from the start", "job clone ID"};
inline constexpr ForeignAnswer kClone = {"submit a copy of a job", "job clone ID"};
inline constexpr ForeignAnswer kDeleteJob = {"delete a job that has ended", "job delete ID"};
inline constexpr ForeignAnswer kCancelFirst = {"cancel a job that has not ended", "job cancel ID"};
inline constexpr ForeignAnswer kDeleteJobs = {"delete jobs that have ended", "job delete ID"};
inline constexpr ForeignAnswer kPriority = {"change a job's priority", "job update ID --priority N"};
inline constexpr ForeignAnswer kOnlyPriorityOf = {
    "change a job's priority (nothing else can be changed after it is submitted)", "job update ID --priority N"};
inline constexpr ForeignAnswer kResubmit = {"change more than a job's priority, submit its file again",
                                            "job submit -f FILE"};
inline constexpr ForeignAnswer kCancelOld = {"cancel the old job", "job cancel ID"};
inline constexpr ForeignAnswer kPredict = {"predict with a trained job's weights",
                                           "job predict --checkpoint ID -f FILE"};
inline constexpr ForeignAnswer kCompare = {"compare jobs that have ended", "compare ID ID..."};
inline constexpr ForeignAnswer kSweep = {"train a job under several precision policies", "compare -f FILE"};
inline constexpr ForeignAnswer kRenice = {"change a job's priority", "job update --priority N ID"};
inline constexpr ForeignAnswer kFindJobs = {"find jobs by a part of their name", "job list --filter 'name=*NAME*'"};
inline constexpr ForeignAnswer kEstimate = {"see how fast a job will be, and what memory it needs", "estimate -f FILE"};
inline constexpr ForeignAnswer kShowFile = {
    "see the configuration of a job (to submit it again, copy the part under spec to a file)", "job show ID -o yaml"};
inline constexpr ForeignAnswer kJobCommands = {"see the commands that change jobs", "job --help"};

// Checkpoints and files.
inline constexpr ForeignAnswer kListCheckpoints = {"list a job's checkpoints", "checkpoint list ID"};
inline constexpr ForeignAnswer kShowCheckpoint = {"show a checkpoint", "checkpoint show ID"};
inline constexpr ForeignAnswer kBestCheckpoint = {"show a job's best checkpoint", "checkpoint show ID@best"};
inline constexpr ForeignAnswer kNewestCheckpoint = {"show a job's newest checkpoint", "checkpoint show ID@newest"};
inline constexpr ForeignAnswer kDownloadCheckpoint = {"download a checkpoint", "checkpoint download ID"};
inline constexpr ForeignAnswer kExportCheckpoint = {"write a checkpoint's model to a file",
                                                    "checkpoint export ID FILE"};
inline constexpr ForeignAnswer kCheckpointNow = {"make a job write a checkpoint now, pause it", "job pause ID"};
inline constexpr ForeignAnswer kListFiles = {"list the files on the server", "artifact list"};
inline constexpr ForeignAnswer kListOutputs = {"list the files that a job has made", "artifact list --job ID"};
inline constexpr ForeignAnswer kDownload = {"download a file from the server", "artifact download NAME"};
inline constexpr ForeignAnswer kDownloadOne = {"to download one of them: ampctl artifact download NAME FILE", ""};
inline constexpr ForeignAnswer kDownloadFile = {"download a file from the server", "artifact download FILE"};
inline constexpr ForeignAnswer kUpload = {"upload a file to the server", "artifact upload FILE"};
inline constexpr ForeignAnswer kShareFile = {
    "upload a model to the server, so that jobs on all workers can read it (training data stays in folders of the "
    "workers, see docs/data.md)",
    "artifact upload FILE"};
inline constexpr ForeignAnswer kDeleteFile = {"delete a file on the server", "artifact delete NAME"};
inline constexpr ForeignAnswer kInspectData = {"see what is in a data file", "data inspect FILE"};
inline constexpr ForeignAnswer kInspectModel = {"see what is in a model's file", "model inspect FILE"};
inline constexpr ForeignAnswer kListModels = {"see which models a job file can name", "init --help"};
inline constexpr ForeignAnswer kListPolicies = {"list the precision policies", "policy list"};
inline constexpr ForeignAnswer kShowPolicy = {"show a precision policy", "policy show NAME"};

// Workers.
inline constexpr ForeignAnswer kListWorkers = {"list workers", "worker list"};
inline constexpr ForeignAnswer kListDevices = {"list workers with their devices", "worker list -o wide"};
inline constexpr ForeignAnswer kListJobsOnWorker = {"list the jobs on this worker", "job list --filter worker=NAME"};
inline constexpr ForeignAnswer kWatchJobsOnWorker = {"watch the jobs on this worker",
                                                     "job list --watch --filter worker=NAME"};
inline constexpr ForeignAnswer kWatchWorkers = {"watch the workers", "worker list --watch"};
inline constexpr ForeignAnswer kNoWaitForWorker = {"see which workers are connected (no command waits for a worker)",
                                                   "worker list --watch"};
inline constexpr ForeignAnswer kDrain = {
    "take a worker out of service (its jobs write a checkpoint, and continue on other workers)", "worker drain NAME"};
inline constexpr ForeignAnswer kDrainFirst = {
    "move the jobs away from a worker before you stop or reboot its machine (ampctl does neither)",
    "worker drain NAME"};
inline constexpr ForeignAnswer kUndrain = {"return a worker to service", "worker undrain NAME"};
inline constexpr ForeignAnswer kRemoveWorker = {"remove a lost worker from the list", "worker remove NAME"};
inline constexpr ForeignAnswer kStartWorker = {
    "to start a worker, run on its machine: ampd-worker --server HOST:PORT --state-dir FOLDER", ""};
inline constexpr ForeignAnswer kStopWorker = {
    "to stop a worker, end its program ampd-worker; to move its jobs away first: ampctl worker drain NAME", ""};

// Answers about the server, and about who may use it.
inline constexpr ForeignAnswer kDev = {"start a server and a worker on this machine", "dev"};
inline constexpr ForeignAnswer kStopDev = {"press Ctrl-C in the terminal in which ampctl dev runs", ""};
inline constexpr ForeignAnswer kNoControl = {
    "ampctl does not start, stop or configure servers; whoever runs the service does so (docs/operator/configure.md)",
    ""};
inline constexpr ForeignAnswer kHealth = {"check the server", "health"};
inline constexpr ForeignAnswer kCommands = {"see the commands of ampctl", "help"};
inline constexpr ForeignAnswer kHelpTopics = {
    "see the help on a command, or on a topic (exit-codes, job-file or environment)", "help"};
inline constexpr ForeignAnswer kComplete = {"let a shell complete the commands of ampctl", "completion --help"};
inline constexpr ForeignAnswer kVersion = {"see the versions of ampctl, the server and its workers", "version"};
inline constexpr ForeignAnswer kAudit = {"see who changed what on the server (for admins)", "audit"};
inline constexpr ForeignAnswer kListContexts = {"list the servers that you have named", "context list"};
inline constexpr ForeignAnswer kShowContext = {"show the server in use", "context show"};
inline constexpr ForeignAnswer kUseContext = {"use another server", "context use NAME"};
inline constexpr ForeignAnswer kAddContext = {"name a server", "context add NAME ADDRESS"};
inline constexpr ForeignAnswer kChangeContext = {
    "change a server's address, tenant or TLS files, add the server again under the same name (if the address or the "
    "TLS files change, ampctl forgets the token that ampctl login stored)",
    "context add NAME ADDRESS"};
inline constexpr ForeignAnswer kRenameContext = {
    "to rename a server, add it under the new name and remove the old one: ampctl context add NEW ADDRESS && ampctl "
    "context remove OLD",
    ""};
inline constexpr ForeignAnswer kRemoveContext = {"remove a server from the list of named servers",
                                                 "context remove NAME"};
inline constexpr ForeignAnswer kLogin = {"log in to a server", "login NAME ADDRESS"};
inline constexpr ForeignAnswer kLoginAgain = {"log in again with another token", "login NAME ADDRESS"};
inline constexpr ForeignAnswer kLogout = {"forget a server and the token for it", "context remove NAME"};
inline constexpr ForeignAnswer kWhoAmI = {"see your name and roles on the server", "auth whoami"};
inline constexpr ForeignAnswer kListTokens = {"list the tokens", "auth token list"};
inline constexpr ForeignAnswer kCreateToken = {"create a token", "auth token create NAME --role ROLE"};
inline constexpr ForeignAnswer kRevokeToken = {"revoke a token", "auth token revoke NAME"};
inline constexpr ForeignAnswer kListAccounts = {"list the tokens, which are the accounts of ampd", "auth token list"};
inline constexpr ForeignAnswer kCreateAccount = {"create a token, ampd's kind of account",
                                                 "auth token create NAME --role ROLE"};
inline constexpr ForeignAnswer kNoCertificates = {
    "ampctl signs no certificates; the server's flag --grant gives a certificate a role (docs/access.md)", ""};
inline constexpr ForeignAnswer kNoPasswords = {
    "ampd has tokens instead of passwords: create a new one (ampctl auth token create NAME --role ROLE) and revoke the "
    "old one (ampctl auth token revoke NAME)",
    ""};
inline constexpr ForeignAnswer kListTenants = {
    "see in which tenants you have a role (to work in one of them: --tenant NAME)", "auth whoami"};
inline constexpr ForeignAnswer kUseTenant = {"list the jobs of a tenant (ampd's namespaces are tenants)",
                                             "job list --tenant NAME"};
inline constexpr ForeignAnswer kCreateTenant = {
    "make a tenant, create a token that has a role in this tenant (here the token is named TOKEN)",
    "auth token create --role ROLE --tenant NAME TOKEN"};
inline constexpr ForeignAnswer kDeleteTenant = {
    "a tenant exists as long as a token, a job or a flag --grant of the server names it; to revoke a token: ampctl "
    "auth token revoke NAME",
    ""};
inline constexpr ForeignAnswer kLimits = {
    "the server's flag --tenant-limit limits what a tenant may use, and its flag --caller-limit what one user, token "
    "or certificate may use (docs/access.md); ampctl does not show or change these limits",
    ""};
inline constexpr ForeignAnswer kUsage = {"list all jobs for a spreadsheet (ampd keeps no other record of usage)",
                                         "job list -o csv"};
inline constexpr ForeignAnswer kListQueue = {
    "list the jobs that wait (the server has one queue, and no partitions or classes)",
    "job list --filter state=queued"};
inline constexpr ForeignAnswer kNoQueues = {
    "the server has one queue, which cannot be changed; jobs with a higher priority start first: ampctl job update ID "
    "--priority N",
    ""};

}  // namespace ampd::client
