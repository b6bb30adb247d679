#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl job` with all its commands.
Command JobCommands();

// The subcommands of `ampctl job`. Each is defined in the file that has its name.
Command SubmitJobCommand();
Command ListJobsCommand();
Command ShowJobCommand();
Command ExplainJobCommand();
Command EventsOfJobCommand();
Command PointsOfJobCommand();
Command WatchJobCommand();
Command LogsOfJobCommand();
Command WaitForJobsCommand();
Command UpdateJobsCommand();
Command ScaleJobCommand();
Command GradientsOfJobCommand();
Command ProfileJobCommand();
Command CancelJobCommand();
Command PauseJobCommand();
Command ResumeJobCommand();
Command DeleteJobCommand();
Command RetryJobCommand();
Command CloneJobCommand();
Command PredictJobCommand();

}  // namespace ampd::client
