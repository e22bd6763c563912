#include "cli/ground_check.h"

#include "base/error.h"
#include "cli/planned_run.h"
#include "cli/version.h"
#include "doctor/findings.h"
#include "doctor/survey.h"
#include "engine/instruction_set.h"

namespace cohort {
namespace {

void lookAround(Meeting& meeting, const GroundMember& member, const RunContext& context,
                const RunConfig& config, Screen& screen) {
  const Survey survey = briefSurvey(meeting,
                                    {.name = member.name,
                                     .workers = member.workers,
                                     .version = kVersion,
                                     .instructionSet = bestInstructionSet(),
                                     .ports = {},
                                     .busyPorts = {}},
                                    roughPlan(context, config));
  for (const Finding& finding : findingsOf(survey)) {
    if (finding.weight == Finding::Weight::Wrong) throw UsageError(finding.sentence);
    if (meeting.place() == 0) screen.warn(finding.sentence);
  }
}

}  // namespace

void checkGround(const Channel& channel, const GroundMember& member, const RunContext& context,
                 const RunConfig& config, Screen& screen) {
  if (channel.workers().size() > 1) lookAround(*channelMeeting(channel), member, context, config, screen);
}

void checkOwnGround(const GroundMember& member, const RunContext& context, const RunConfig& config,
                    Screen& screen) {
  lookAround(*aloneMeeting(), member, context, config, screen);
}

}  // namespace cohort
