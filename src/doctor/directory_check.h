// Whether all members share a folder and can write in it. Private to doctor.
#pragma once

#include <filesystem>
#include <vector>

#include "doctor/facts.h"
#include "doctor/meeting.h"

namespace cohort {

// By member; all call it. Everybody leaves a mark there and looks for those of the others; `isMeasured` says whether this
// member also measures how fast it writes. A folder that does not exist is made, and nothing is left behind.
std::vector<DirectoryFacts> checkDirectory(Meeting& meeting, const std::filesystem::path& directory,
                                           bool isMeasured);

}  // namespace cohort
