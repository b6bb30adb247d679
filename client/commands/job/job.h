#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl job: all its commands.
Command JobCommands();

// Each is in the file of its name.
Command SubmitJobCommand();
Command ListJobsCommand();
Command ShowJobCommand();
Command ExplainJobCommand();
Command EventsOfJobCommand();
Command PointsOfJobCommand();
Command WatchJobCommand();
Command LogsOfJobCommand();
Command WaitForJobsCommand();
Command ScaleJobCommand();
Command GradientsOfJobCommand();
Command CancelJobCommand();
Command PauseJobCommand();
Command ResumeJobCommand();
Command DeleteJobCommand();
Command RetryJobCommand();
Command CloneJobCommand();

}  // namespace ampd::client
