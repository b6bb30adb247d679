// Words that stand where ampctl's own groups have a command.
#include "client/cli/foreign_word_tables.h"

namespace ampd::client {
namespace {

constexpr ForeignRow kGroupRows[] = {
    {"job describe|get|info|status|view", kShowJob},
    {"job ps", kListJobs},
    {"job queue", kListQueue},
    {"job top", kWatchJobs},
    {"job create|apply|new", kSubmit},
    {"job create|apply|new|start|run SCRIPT", kNoScript},
    {"job start FILE", kSubmit},
    {"job start ID", kResume},
    {"job start", kSubmit},
    {"job run", kSubmitAndWatch},
    {"job validate|check", kCheckFile},
    {"job stop|kill|abort|terminate", kCancel},
    {"job rm|remove", kDeleteJob},
    {"job suspend|hold", kPause},
    {"job continue|unpause|release", kResume},
    {"job restart|requeue", kRetry},
    {"job rerun", kRunAgain},
    {"job copy|cp", kClone},
    {"job tail", kFollowLog},
    {"job attach|follow", kWatchJob},
    {"job metrics", kPrintPoints},
    {"job history", kListEvents},
    {"job why", kExplainJob},
    {"job edit|priority", kPriority},
    {"job set", kPriority},
    {"job compare|diff", kCompare},
    {"job checkpoints", kListCheckpoints},
    {"job results|outputs|artifacts|files|predictions|samples", kListOutputs},
    {"job download", kListOutputs},
    {"job download", kDownloadCheckpoint},
    {"job workers", kListWorkers},
    {"job export", kExportCheckpoint},
    {"job rename", kNoName},
    {"job label|annotate", kNoLabels},
    {"job exec|ssh", kNoShellInJob},
    {"job prune", kDeleteJobs},
    {"job eval", kPrintPoints},
    {"job eval", kPredict},
    // Other groups.
    {"worker get|show|describe", kListDevices},
    {"worker status", kListWorkers},
    {"worker top", kWatchWorkers},
    {"worker cordon", kDrain},
    {"worker uncordon", kUndrain},
    {"worker rm|delete", kRemoveWorker},
    {"worker start|add|create|run", kStartWorker},
    {"worker stop", kStopWorker},
    {"worker reboot|restart", kDrainFirst},
    {"worker exec|ssh", kNoShell},
    {"checkpoint get", kListCheckpoints},
    {"checkpoint get", kDownloadCheckpoint},
    {"checkpoint restore|load|resume", kRetry},
    {"checkpoint describe", kShowCheckpoint},
    {"checkpoint create|save|now", kCheckpointNow},
    {"checkpoint check", {"check a checkpoint's files", "checkpoint verify FOLDER"}},
    {"artifact get|pull", kDownload},
    {"artifact show", kListFiles},
    {"artifact push|put|add", kUpload},
    {"artifact rm|remove", kDeleteFile},
    {"policy get|describe", kShowPolicy},
    {"policy compare", kSweep},
    {"data list", kNoDataList},
    {"data show|describe|check|validate", kInspectData},
    {"model get|list", kListModels},
    {"model get FILE", kInspectModel},
    {"model show|describe|check|validate", kInspectModel},
    {"context get", kListContexts},
    {"context current", kShowContext},
    {"context set", kAddContext},
    {"context rename|mv", kRenameContext},
    {"context edit|update|change", kChangeContext},
    {"context switch", kUseContext},
};

// What the name of a group means that is followed by a word which is no command of it.
constexpr ForeignRow kNameRows[] = {
    {"job ID", kShowJob},
    {"job FILE", kSubmit},
    {"worker NAME", kListDevices},
    {"checkpoint ID@STEP", kShowCheckpoint},
    {"checkpoint ID", kListCheckpoints},
    {"artifact NAME", kDownload},
    {"policy NAME", kShowPolicy},
    {"data FILE", kInspectData},
    {"model FILE", kInspectModel},
    {"context NAME", kUseContext},
};

}  // namespace

std::span<const ForeignRow> GroupRows() { return kGroupRows; }

std::span<const ForeignRow> NameRows() { return kNameRows; }

}  // namespace ampd::client
