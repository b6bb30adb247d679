#include "client/commands/job/job.h"

namespace ampd::client {

Command JobCommands() {
  return {.name = "job",
          .help = "Submit, watch and change jobs",
          .commands = {
              SubmitJobCommand(),   ListJobsCommand(),    ShowJobCommand(),  ExplainJobCommand(),
              EventsOfJobCommand(), PointsOfJobCommand(), WatchJobCommand(), LogsOfJobCommand(),
              WaitForJobsCommand(), UpdateJobsCommand(),  ScaleJobCommand(), GradientsOfJobCommand(),
              ProfileJobCommand(),  CancelJobCommand(),   PauseJobCommand(), ResumeJobCommand(),
              DeleteJobCommand(),   RetryJobCommand(),    CloneJobCommand(), PredictJobCommand(),
          }};
}

}  // namespace ampd::client
